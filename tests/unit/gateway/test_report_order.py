"""Which of a Mac's reports counts; then every interleaving of three reports with two replicas that write from them."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from paddock.gateway.report_order import Heard, order_of, parse

NOTED = Heard(key_number=2, folder="f", life=7, word="w", sequence=40)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (replace(NOTED, sequence=41), "newer"),
        (NOTED, "older"),
        (replace(NOTED, sequence=39), "older"),
        (replace(NOTED, life=8, word="x", sequence=1), "newer"),
        (replace(NOTED, life=6, word="v", sequence=99), "older"),
        (replace(NOTED, word="x", sequence=41), "twin"),
        (replace(NOTED, key_number=3, sequence=41), "newer"),
        (replace(NOTED, key_number=1, sequence=41), "newer"),
        (replace(NOTED, key_number=3, sequence=39), "older"),
        (replace(NOTED, folder="g", life=1, sequence=1), "twin"),
        (replace(NOTED, folder="g", key_number=3, life=1, sequence=1), "newer"),
        (replace(NOTED, folder="e", key_number=1, life=99), "older"),
    ],
)
def test_a_report_counts_after_the_one_that_was_heard_last(report: Heard, expected: str):
    assert order_of(NOTED, report) == expected


def test_the_first_report_counts():
    assert order_of(None, NOTED) == "newer"


@pytest.mark.parametrize("heard", [NOTED, replace(NOTED, folder="", word="")])
def test_what_is_noted_is_read_again(heard: Heard):
    assert parse(str(heard)) == heard


@pytest.mark.parametrize("text", ["", "1 f 2 w", "1 f two w 3", "1 f 2 w " + "9" * 400, "1 f 2 w 3 4", "1  f 2 w ²"])
def test_what_we_did_not_write_counts_as_nothing(text: str):
    assert parse(text) is None


# Two replicas


class Writer(NamedTuple):
    """A replica that writes from one report: the version that it took, and whether the Lease named its report then."""

    replica: int
    report: int
    version: int | None = None
    named: bool | None = None


class State(NamedTuple):
    """Three reports of one life; `heard` is the Lease, `shown` the report that the Node was written from, `facts` what each replica
    heard last.
    """

    on_the_way: frozenset[int] = frozenset({1, 2, 3})
    heard: int = 0
    facts: tuple[int, int] = (0, 0)
    shown: int = 0
    version: int = 0
    writers: tuple[Writer, ...] = ()


VERSION_FIRST, LEASE_FIRST, NO_LEASE = "version first", "lease first", "no lease"


def steps(state: State, way: str) -> Iterator[State]:
    for report in state.on_the_way:
        rest = state._replace(on_the_way=state.on_the_way - {report})
        yield rest  # lost
        noted = replace(NOTED, sequence=state.heard) if state.heard else None
        if order_of(noted, replace(NOTED, sequence=report)) == "newer":
            for replica in (0, 1):
                facts = tuple(report if at == replica else each for at, each in enumerate(state.facts))
                yield rest._replace(heard=report, facts=(facts[0], facts[1]))
    for replica, report in enumerate(state.facts):
        if report and len(state.writers) < 2 and all(each.replica != replica for each in state.writers):
            yield state._replace(writers=(*state.writers, Writer(replica, report)))
    for at, writer in enumerate(state.writers):
        rest = state._replace(writers=state.writers[:at] + state.writers[at + 1 :])
        yield rest  # it dies, or its write is lost
        takes = writer._replace(version=state.version)
        reads = writer._replace(named=state.heard == writer.report or way == NO_LEASE)
        first, second = (reads, takes) if way == LEASE_FIRST else (takes, reads)
        if writer.version is None and writer.named is None:
            yield rest._replace(writers=(*rest.writers, first))
        elif writer.version is None or writer.named is None:
            yield rest._replace(writers=(*rest.writers, second))
        elif writer.named and writer.version == state.version:
            yield rest._replace(shown=writer.report, version=state.version + 1)


def goes_back(way: str) -> bool:
    """Whether the Node ever shows an older report after a newer one."""
    seen, queue = {State()}, deque([State()])
    while queue:
        state = queue.popleft()
        for after in steps(state, way):
            if after.shown < state.shown:
                return True
            if after not in seen and after.version < 4:
                seen.add(after)
                queue.append(after)
    assert len(seen) > 500
    return False


def test_a_node_never_shows_an_older_report_after_a_newer_one():
    assert not goes_back(VERSION_FIRST)


@pytest.mark.parametrize("way", [LEASE_FIRST, NO_LEASE])
def test_the_version_comes_first_and_the_lease_is_read(way: str):
    assert goes_back(way)
