"""The key with which a Mac speaks to the gateway: what the operator does with it, and what the claim keeps of it. Pure.

The claim holds hashes alone, beside the ownership that they prove: a key counts while its claim stands and no release is
recorded. **The key goes to the Mac first, its hash into the claim second**, under the version that was read before the key was
made; whoever meets a conflict begins anew, with another key. The Mac keeps the key that worked last beside the newest one, and says
which it is when it takes a key, so that no write takes away the only key that a Mac can use.
"""

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from paddock.clients.gateway.mac_key import DIGITS, KeyAnswer
from paddock.hosts.api.host import HostClaim

__all__ = [
    "DIGITS",
    "KEY_USED",
    "KNOWN_TO_GATEWAY",
    "AwaitUse",
    "EndFormerKey",
    "GiveKey",
    "KeyAnswer",
    "KeyStep",
    "NoKeyNeeded",
    "claim_after",
    "claim_knows",
    "ended",
    "key_step",
    "number_for",
    "promoted",
]

KEY_USED: Final = "tuist.dev/mac-key-used"
"""On a Mac's Lease: the digits of the key that the Mac used, and knows to be good."""
KNOWN_TO_GATEWAY: Final = "KnownToGateway"
"""A condition of a Machine; there only while its Mac cannot be given a key, or be asked for it."""


def number_for(claim: HostClaim, had: int) -> int:
    """The number of the next key; `had` is the highest that the Mac has taken, which a restore of the claim may have forgotten."""
    return max(claim.key_number, claim.next_key_number, had) + 1


def claim_after(claim: HostClaim, key_hash: str, number: int, taken: KeyAnswer) -> HostClaim:
    """The claim once the Mac has the key. The key that worked last stays good until the new one was used."""
    kept = {claim.key_hash[:DIGITS]: (claim.key_hash, claim.key_number)}
    kept |= {claim.next_key_hash[:DIGITS]: (claim.next_key_hash, claim.next_key_number)}
    before, its_number = kept.get(taken.proven, ("", 0)) if taken.proven else ("", 0)
    claim = replace(claim, machine_id=taken.machine_id)
    if not before:
        return replace(claim, key_hash=key_hash, key_number=number, next_key_hash="", next_key_number=0)
    return replace(claim, key_hash=before, key_number=its_number, next_key_hash=key_hash, next_key_number=number)


def claim_knows(claim: HostClaim, held: KeyAnswer) -> bool:
    """Whether one of the keys that the Mac holds is of this claim. A number names one key of one installation for ever, because a Mac
    takes a higher one only; so a claim that was restored, or written after another leader's key arrived, is found out.
    """
    numbers = {claim.key_number: claim.key_hash, claim.next_key_number: claim.next_key_hash}
    proven = {claim.key_hash[:DIGITS], claim.next_key_hash[:DIGITS]} - {""}
    return bool(numbers.get(held.number)) or held.proven in proven


def promoted(claim: HostClaim, used: str) -> HostClaim | None:
    """The claim once the Mac uses its next key and has heard that it is good, which the gateway noted: the key before ends. Not
    sooner: a Mac that has not heard it may be given another key meanwhile, and then needs the one before. None: nothing to do.
    """
    if not claim.next_key_hash or claim.next_key_hash[:DIGITS] != used:
        return None
    return replace(
        claim,
        key_hash=claim.next_key_hash,
        key_number=claim.next_key_number,
        next_key_hash="",
        next_key_number=0,
    )


def ended(claim: HostClaim) -> HostClaim:
    """The claim without a key. The number stays: a late delivery of an older key must not pass for a new one."""
    number = max(claim.key_number, claim.next_key_number)
    return replace(claim, key_hash="", key_number=number, next_key_hash="", next_key_number=0, machine_id="")


@dataclass(frozen=True, slots=True)
class GiveKey:
    """Give the Mac a key over SSH, then write its hash."""

    why: str


@dataclass(frozen=True, slots=True)
class EndFormerKey:
    """The Mac uses its newest key: write this claim, in which the one before is no more."""

    claim: HostClaim


@dataclass(frozen=True, slots=True)
class AwaitUse:
    """The Mac has two good keys, and has not used the newest yet."""


@dataclass(frozen=True, slots=True)
class NoKeyNeeded:
    """The Mac has one key, and the claim knows it."""


KeyStep = GiveKey | EndFormerKey | AwaitUse | NoKeyNeeded


def key_step(claim: HostClaim, used: str, held: KeyAnswer | None = None, *, replaced: bool = False) -> KeyStep:
    """What is to be done about the key of a Mac that is bootstrapped. `used` are the digits on its Lease, `held` is what the Mac
    itself answered, where it was asked. `replaced`: it took a key just now that reached no claim.
    """
    if replaced:
        return GiveKey("somebody else wrote its Host while it was given one")
    if not claim.key_hash:
        return GiveKey("its claim holds none")
    if held is not None and not claim_knows(claim, held):
        return GiveKey("its claim holds none that the Mac has")
    if (after := promoted(claim, used)) is not None:
        return EndFormerKey(after)
    return AwaitUse() if claim.next_key_hash else NoKeyNeeded()
