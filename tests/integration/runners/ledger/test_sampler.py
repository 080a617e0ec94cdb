"""The sampler: what a page would show becomes rows of the ledger, once, and only from a complete look."""

from dataclasses import replace
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import ACME, POOL, Bench, job
from unit.web.page_fixture import page_data

from paddock.runners.ledger import Ledger, LedgerUnavailableError
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.runners.ledger.samples import MINUTE
from paddock.web.page_data import PageData
from paddock.web.sampler import Sampler


class Looks:
    """Gives the fixture at the bench's time, or nothing while it is not complete."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.data = page_data(24)
        self.complete = True

    def __call__(self) -> PageData | None:
        return replace(self.data, now=self.bench.clock.now()) if self.complete else None


def sampler_of(bench: Bench, looks: Looks, who: str) -> Sampler:
    return Sampler(bench.ledger, looks, bench.ledger.overview.summary, bench.clock, who=who)


async def rows(bench: Bench) -> int:
    return len(await bench.ledger.samples.since(bench.clock.now() - timedelta(hours=1), MINUTE))


async def looks_twice(bench: Bench, sampler: Sampler) -> None:
    """Over the end of a minute, so that the minute is written."""
    assert await sampler.once()
    bench.clock.advance(60)
    assert await sampler.once()


async def test_one_look_writes_macs_problems_and_the_minute_that_is_over(bench: Bench):
    looks = Looks(bench)
    sampler = sampler_of(bench, looks, "up")
    assert await sampler.once()
    assert await rows(bench) == 0  # of the minute before nothing was seen
    bench.clock.advance(60)
    assert await sampler.once()
    macs = await bench.ledger.mac_states.at(bench.clock.now())
    assert len(macs) == 24
    assert {one.state for one in macs} >= {"busy", "ready", "stranded", "wiping"}
    (row,) = await bench.ledger.samples.since(bench.clock.now() - timedelta(hours=1), MINUTE)
    assert sum(row.macs.values()) == 24
    assert row.per_hour > 0
    found = await bench.ledger.incidents.between(bench.clock.now() - MINUTE, bench.clock.now())
    assert {one.kind for one in found} == {"restart", "problem"}


async def test_two_samplers_write_what_one_would(bench: Bench):
    looks = Looks(bench)
    first = sampler_of(bench, looks, "a")
    second = sampler_of(bench, looks, "b")
    for _ in range(4):
        assert await first.once()
        assert await second.once()
        bench.clock.advance(60)
    assert await rows(bench) == 3
    assert (
        len(
            await bench.ledger.mac_states.of_mac(
                looks.data.hosts[0].metadata.name, bench.clock.now() - timedelta(days=1)
            )
        )
        == 1
    )


async def test_a_wait_that_the_page_calls_no_problem_is_written_as_none(bench: Bench):
    """Its account was at its limit all the while, and has had room for a moment."""
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(1, age=900), job(2, age=900))
    await bench.running("a")
    queue = QueueCollector(bench.ledger, lambda: [POOL], bench.clock)
    await queue.look()
    await bench.completed(job(1), "a")
    assert await Sampler(bench.ledger, Looks(bench), queue.summary, bench.clock, who="up").once()
    found = await bench.ledger.incidents.between(bench.clock.now() - MINUTE, bench.clock.now())
    assert [one.sentence for one in found if "a job that may run now has waited" in one.sentence] == []


async def test_while_another_process_has_the_turn_nothing_is_written(bench: Bench):
    async with (
        Ledger.open(bench.dsn, clock=bench.clock, schema=bench.schema, size=2) as other,
        other.locks.taken("sampling") as theirs,
    ):
        assert theirs
        assert not await sampler_of(bench, Looks(bench), "a").once()
    assert await rows(bench) == 0


async def test_a_look_that_is_not_complete_ends_no_stretch(bench: Bench):
    looks = Looks(bench)
    sampler = sampler_of(bench, looks, "a")
    await sampler.once()
    bench.clock.advance(10)
    looks.complete = False
    assert not await sampler.once()
    assert len(await bench.ledger.mac_states.at(bench.clock.now())) == 24


async def test_a_sampler_that_was_cut_off_anywhere_is_followed_by_one_that_writes_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    """Whatever write fails, the next look of a new process leaves one row a key and every Mac's state."""
    looks, ledger = Looks(bench), bench.ledger

    async def lost(*_: object) -> None:
        raise LedgerUnavailableError("the connection is lost")

    for part, name in (
        (ledger.mac_states, "observe"),
        (ledger.incidents, "observe"),
        (ledger.samples, "add"),
        (ledger.samples, "roll_up"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(part, name, lost)
            dies = sampler_of(bench, looks, "dies")
            with pytest.raises(LedgerUnavailableError):
                await looks_twice(bench, dies)
        follows = sampler_of(bench, looks, "next")
        await looks_twice(bench, follows)
        assert len(await ledger.mac_states.at(bench.clock.now())) == 24
    minutes = [row.at for row in await ledger.samples.since(bench.clock.now() - timedelta(hours=1), MINUTE)]
    assert len(minutes) == len(set(minutes)) == 5
