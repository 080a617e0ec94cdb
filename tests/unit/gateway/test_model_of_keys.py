"""An exhaustive model of a Mac's keys, made of the product's own decisions (`number_for`, `claim_after`, `promoted`, `ended`, `Keys`).

**Who acts.** One Mac, and leaders that do not know of each other: each pass gives the Mac a key in three stages (read the claim
and ask the Mac for its number; the key arrives over SSH; the claim is written), and may stand still between any two of them for as
long as it likes, or die there. The gateway answers the Mac, and the answer may be lost. The Mac is released and claimed again,
reinstalled in place, and the cloud refuses a reinstall. A thief has copied every key that the Mac ever held.

**Guards.** A write of the claim is compare-and-swap with what the pass read at its beginning. SSH is not fenced, but pinned: nothing
that was meant for one installation reaches the next.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from paddock.hosts.api import HostClaim
from paddock.hosts.mac_key import DIGITS, KeyAnswer, claim_after, ended, number_for, promoted
from paddock.node.keys import Keys

CLAIM = HostClaim(machine_namespace="default", machine_name="m", machine_uid="uid", epoch=1)
MADE = 4
"""How many keys are made in all."""
PARKED = 2
"""How many passes stand still at once."""


def hash_of(key: str) -> str:
    return f"{int(key):064d}"[::-1] if key else ""


class Pass(NamedTuple):
    """A leader half-way: what it read, and how far it is. `stale`: somebody else wrote the Host meanwhile."""

    stage: str  # "send": the key is on its way over SSH. "write": the Mac has it. "promote": the Lease was read
    claim: HostClaim
    install: int
    key: str = ""
    number: int = 0
    taken: KeyAnswer | None = None
    stale: bool = False


class State(NamedTuple):
    claim: HostClaim
    mac: Keys = Keys()
    install: int = 0
    """Which installation is on the disk, and `known`, which one the Host speaks of."""
    known: int = 0
    released: bool = False
    asked: bool = False
    """The cloud was asked to reinstall."""
    noted: str = ""
    """Digits of the key last used, on the Lease, once the Mac said that it had been answered."""
    answered: bool = False
    """Whether this installation was ever answered 200."""
    copied: tuple[str, ...] = ()
    """Keys that former installations and claims held."""
    complete: str = ""
    """The key of the newest pass that came to its end."""
    made: int = 0
    passes: tuple[Pass, ...] = ()


@dataclass(frozen=True)
class Rules:
    """The product; each field is a way in which it would be wrong."""

    hash_first: bool = False
    numbers: bool = True
    guarded: bool = True
    mac_keeps_proven: bool = True
    asks_what_is_proven: bool = True
    mac_confirms: bool = True


PRODUCT = Rules()
WRONG = {
    "the hash is written before the Mac has the key": Rules(hash_first=True),
    "a key has no number": Rules(numbers=False),
    "the claim is written whoever wrote it meanwhile": Rules(guarded=False),
    "the Mac forgets the key that worked": Rules(mac_keeps_proven=False),
    "nobody asks which key worked": Rules(asks_what_is_proven=False),
    "the key before ends though the Mac may not have heard the answer": Rules(mac_confirms=False),
}


def good(state: State, key: str) -> bool:
    return bool(key) and not state.released and hash_of(key) in (state.claim.key_hash, state.claim.next_key_hash)


def works(state: State) -> bool:
    return any(good(state, key) for key in state.mac.to_try)


def write(state: State, claim: HostClaim) -> State:
    return state._replace(claim=claim, passes=tuple(each._replace(stale=True) for each in state.passes))


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    yield from mac(state, rules)
    yield from cloud(state)
    for at, each in enumerate(state.passes):
        rest = state._replace(passes=state.passes[:at] + state.passes[at + 1 :])
        yield "a leader dies", rest
        yield from goes_on(rest, each, rules)
    if len(state.passes) < PARKED and not state.released and state.install == state.known:
        yield from begins(state, rules)


def begins(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    if state.made < MADE:
        key, number = str(state.made + 1), number_for(state.claim, state.mac.number)
        after, said = state._replace(made=state.made + 1), f"a leader makes key {key}, number {number}"
        claim = state.claim
        if rules.hash_first:
            claim = (
                replace(claim, next_key_hash=hash_of(key), next_key_number=number)
                if claim.key_hash
                else replace(claim, key_hash=hash_of(key), key_number=number)
            )
            after = write(after, claim)
        yield said, after._replace(passes=(*after.passes, Pass("send", claim, state.install, key, number)))
    if promoted(state.claim, state.noted) is not None:
        taken = KeyAnswer(took=True, number=0, proven=state.noted)
        yield (
            "a leader reads the Lease",
            state._replace(passes=(*state.passes, Pass("promote", state.claim, state.install, taken=taken))),
        )


def goes_on(state: State, one: Pass, rules: Rules) -> Iterator[tuple[str, State]]:
    if one.stage == "send":
        if one.install != state.install:
            return  # another installation shows another host key
        offered = state.mac.offered(one.key, one.number if rules.numbers else state.mac.number + 1)
        if offered is None:
            return  # the Mac has a newer one: this pass begins anew
        if not rules.mac_keeps_proven:
            offered = Keys(offered.number, offered.newest, "")
        taken = KeyAnswer(took=True, number=offered.number, proven=hash_of(state.mac.proven)[:DIGITS])
        state = state._replace(mac=offered)
        if rules.hash_first:
            yield f"the Mac gets key {one.key}", state._replace(complete=one.key)
        else:
            after = one._replace(stage="write", taken=taken)
            yield f"the Mac gets key {one.key}", state._replace(passes=(*state.passes, after))
        return
    if rules.guarded and one.stale:
        return  # a conflict: this pass begins anew
    assert one.taken is not None
    if one.stage == "promote":
        claim = promoted(one.claim, one.taken.proven)
        assert claim is not None
        yield "the key before ends", write(state, claim)
        return
    taken = one.taken if rules.asks_what_is_proven else replace(one.taken, proven=one.claim.key_hash[:DIGITS])
    claim = claim_after(one.claim, hash_of(one.key), one.number, taken)
    yield f"the claim has key {one.key}", write(state, claim)._replace(complete=one.key)


def mac(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    used = next((key for key in state.mac.to_try if good(state, key)), "")
    if used:
        confirmed = used == state.mac.proven or not rules.mac_confirms
        noted = state._replace(noted=hash_of(used)[:DIGITS]) if confirmed else state
        yield f"key {used} is taken, the answer is lost", noted
        yield f"key {used} is taken", noted._replace(mac=state.mac.answered(used), answered=True)


def cloud(state: State) -> Iterator[tuple[str, State]]:
    held = (*state.copied, *state.mac.to_try)
    gone = {"mac": Keys(), "answered": False, "noted": "", "complete": "", "copied": tuple(sorted(set(held)))}
    if state.released:
        claim = replace(CLAIM, epoch=state.claim.epoch + 1)
        yield (
            "wiped, and claimed again",
            write(state, claim)._replace(
                released=False, install=state.install + 1, known=state.install + 1, asked=False, **gone
            ),
        )
        return
    if state.install != state.known:
        yield (
            "the operator notes that the cloud installs",
            write(state, ended(state.claim))._replace(known=state.install, **gone),
        )
        return
    if state.claim.epoch + state.install < 3:
        yield "the release is recorded", write(state, state.claim)._replace(released=True)
        if not state.asked:
            yield "the cloud is asked to reinstall", state._replace(asked=True)
    if state.asked:
        yield "the cloud refuses to reinstall", state._replace(asked=False)
        yield (
            "the cloud reinstalls",
            state._replace(asked=False, install=state.install + 1, mac=Keys(), copied=gone["copied"]),
        )


def broken(state: State) -> str:
    """What must never be seen."""
    standing = not state.released and state.install == state.known
    if standing and state.answered and not works(state):
        return "a Mac that was answered is locked out"
    former = set(state.copied) - set(state.mac.to_try)
    if standing and any(good(state, key) for key in former):
        return "a key of a former life counts"
    if state.released and any(good(state, key) for key in (*state.copied, *state.mac.to_try)):
        return "a Mac that was let go is believed"
    if (
        standing
        and state.complete
        and not good(state, (*state.mac.to_try, "")[0])
        and not state.passes
        and complete_is_newest(state)
    ):
        return "a key that was given is not the one that the Mac uses"
    return ""


def complete_is_newest(state: State) -> bool:
    """Whether the newest key that was made is the one whose pass came to its end: else a later pass died half-way."""
    return state.complete == str(state.made)


def healed(state: State, rules: Rules) -> bool:
    """Whether one more pass that nothing interrupts lets the Mac speak."""
    if state.released or state.install != state.known:
        return True
    state = state._replace(passes=(), made=0)
    for _, begun in begins(state._replace(noted="", made=0), rules):
        one = begun.passes[-1]._replace(key="9")
        for _, sent in goes_on(begun._replace(passes=()), one, rules):
            ends = (
                [done for _, done in goes_on(sent._replace(passes=()), sent.passes[-1], rules)]
                if sent.passes
                else [sent]
            )
            return all(works(done) for done in ends) and bool(ends)
    return False


def explore(rules: Rules, wrong: Callable[[State], str]) -> tuple[int, list[str]]:
    """How many states there are; and a shortest way to one that is wrong, if there is one."""
    start = State(CLAIM)
    came: dict[State, tuple[State | None, str]] = {start: (None, "")}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for said, after in steps(state, rules):
            if after in came:
                continue
            came[after] = (state, said)
            if told := wrong(after):
                way = [told]
                at: State | None = after
                while at is not None:
                    at, step = came[at]
                    way.append(step)
                return len(came), way[::-1]
            queue.append(after)
            assert len(came) < 2_000_000, "too many states: tighten the bounds"
    return len(came), []


def test_no_mac_is_locked_out_and_none_that_was_let_go_is_believed():
    states, way = explore(PRODUCT, broken)
    assert not way, "\n".join(way)
    print(f"{states} states")
    assert states > 1000


def test_one_pass_that_nothing_interrupts_lets_every_mac_speak():
    _, way = explore(PRODUCT, lambda state: "" if healed(state, PRODUCT) else "the next key does not help")
    assert not way, "\n".join(way)


@pytest.mark.parametrize("rules", [pytest.param(rules, id=name) for name, rules in WRONG.items()])
def test_each_rule_is_needed(rules: Rules):
    _, way = explore(rules, broken)
    assert way, "the model sees no harm in it"
