"""Whose key a request shows, and what its holder may do. Pure; `paddock.gateway.identities` reads, and knows how often it may."""

import hmac
import re
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from paddock.clients.gateway.mac_key import DIGITS, hash_of
from paddock.hosts.api import HostClaim, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = ["MacIdentity", "Presented", "identify", "presented", "stands"]

_SHOWN: Final = re.compile(
    r"[Bb]earer ([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?):([A-Za-z0-9_-]{40,128})"
)


class Presented(Struct, frozen=True):
    """What a request claims: the Machine's name, and the hash of the key that it showed. The key itself goes no further."""

    namespace: str
    name: str
    key_hash: str


class MacIdentity(Struct, frozen=True):
    """A Mac whose key is good. `ends`: its Machine is gone, so that it may say how its Pods ended, and nothing else; `leaving`: its
    Machine is being deleted, so that it gets no new Pod and no job. `key_digits` name the key, and prove nothing.
    """

    namespace: str
    name: str
    machine_uid: str
    host: str
    key_number: int
    key_digits: str
    rights: Literal["all", "ends"]
    leaving: bool = False
    machine_id: str = ""
    """The Mac's own id as it was read over SSH, empty where it never was."""


def presented(authorization: str) -> Presented | None:
    """From `Bearer NAMESPACE/NAME:KEY`; None for anything else, and nothing of it is ever repeated in an answer or a log."""
    found = _SHOWN.fullmatch(authorization)
    if found is None:
        return None
    namespace, name, key = found.groups()
    return Presented(namespace, name, hash_of(key))


def identify(
    shown: Presented, machine: ScalewayAppleSiliconMachine | None, hosts: Iterable[ScalewayAppleSiliconHost]
) -> MacIdentity | None:
    """The Mac whose claim the key proves: that of a Host which this Machine's name claims and no release takes away.

    `machine` is the one of that name, None where it is known to be gone. A namesake has another uid, and inherits nothing.
    """
    for host in hosts:
        claim = host.spec.claim
        if claim is None or host.spec.release is not None:
            continue
        if (claim.machine_namespace, claim.machine_name) != (shown.namespace, shown.name):
            continue
        if (number := _number_of(shown.key_hash, claim)) is None:
            continue
        here = machine is not None and machine.metadata.uid == claim.machine_uid
        return MacIdentity(
            namespace=shown.namespace,
            name=shown.name,
            machine_uid=claim.machine_uid,
            host=host.metadata.name,
            key_number=number,
            key_digits=shown.key_hash[:DIGITS],
            rights="all" if here else "ends",
            leaving=machine is not None and here and machine.metadata.deletion_timestamp is not None,
            machine_id=claim.machine_id,
        )
    return None


def stands(
    mac: MacIdentity, machine: ScalewayAppleSiliconMachine | None, host: ScalewayAppleSiliconHost | None
) -> MacIdentity | None:
    """What the holder of a key that was good may do now; None once its claim is over, or has ended the key."""
    claim = host.spec.claim if host is not None else None
    if claim is None or host is None or host.spec.release is not None or claim.machine_uid != mac.machine_uid:
        return None
    good = {
        number
        for kept, number in ((claim.key_hash, claim.key_number), (claim.next_key_hash, claim.next_key_number))
        if kept
    }
    if mac.key_number not in good:
        return None
    here = machine is not None and machine.metadata.uid == claim.machine_uid
    leaving = machine is not None and here and machine.metadata.deletion_timestamp is not None
    return replace(mac, rights="all" if here else "ends", leaving=leaving, machine_id=claim.machine_id)


def _number_of(key_hash: str, claim: HostClaim) -> int | None:
    for kept, number in ((claim.key_hash, claim.key_number), (claim.next_key_hash, claim.next_key_number)):
        if kept and hmac.compare_digest(kept, key_hash):
            return number
    return None
