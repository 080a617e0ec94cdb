"""The runner's own marks and the heal ledger, by themselves."""

from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench

from paddock.runners.ledger import InvalidEntryError


async def test_the_same_mark_again_does_not_move(bench: Bench) -> None:
    progress, start = bench.ledger.progress, bench.clock.now()
    await progress.note("uid-1", "a")
    bench.clock.advance(60)
    await progress.note("uid-1", "a")
    mark = (await progress.of_pods(["uid-1", "uid-2"]))["uid-1"]
    assert (mark.changed_at, mark.seen_at) == (start, start + timedelta(seconds=60))
    bench.clock.advance(60)
    await progress.note("uid-1", "b")
    mark = (await progress.of_pods(["uid-1"]))["uid-1"]
    assert mark.changed_at == mark.seen_at == bench.clock.now()


async def test_a_late_copy_of_an_old_report_changes_nothing(bench: Bench) -> None:
    progress = bench.ledger.progress
    bench.clock.advance(60)
    await progress.note("uid-1", "new")
    newest = (await progress.of_pods(["uid-1"]))["uid-1"]
    bench.clock.advance(-30)
    await progress.note("uid-1", "old")
    assert (await progress.of_pods(["uid-1"]))["uid-1"] == newest


async def test_marks_that_cannot_be_kept_are_refused(bench: Bench) -> None:
    with pytest.raises(InvalidEntryError, match="pod_uid"):
        await bench.ledger.progress.note("", "a")
    with pytest.raises(InvalidEntryError, match="mark"):
        await bench.ledger.progress.note("uid-1", "x" * 201)


async def test_an_intent_is_one_line_until_it_is_closed(bench: Bench) -> None:
    heals = bench.ledger.heals
    first = await heals.intend("hung_runner", "runner-1", "it hangs", pod_uid="uid-1", evidence={"look": 1})
    again = await heals.intend("hung_runner", "runner-1", "it hangs", pod_uid="uid-1", evidence={"look": 2})
    assert first.id == again.id
    assert again.evidence == {"look": 2}
    assert await heals.count_by_kind(bench.clock.now()) == {}
    bench.clock.advance(5)
    closed = await heals.record("hung_runner", "runner-1", "it hangs", pod_uid="uid-1")
    assert (closed.id, closed.evidence, closed.done_at) == (first.id, {"look": 2}, bench.clock.now())
    assert await heals.intended() == []
    # The same kind of heal may befall the same Pod's claims again: that is another line.
    assert (await heals.record("hung_runner", "runner-1", "again", pod_uid="uid-1")).id != first.id


async def test_a_withdrawn_intent_leaves_nothing(bench: Bench) -> None:
    heals = bench.ledger.heals
    await heals.intend("hung_runner", "runner-1", "it hangs", pod_uid="uid-1")
    assert await heals.withdraw("hung_runner", "uid-1")
    assert not await heals.withdraw("hung_runner", "uid-1")
    assert await heals.newest() == []


async def test_old_lines_are_forgotten_in_bites(bench: Bench) -> None:
    heals = bench.ledger.heals
    for number in range(5):
        await heals.record("stale_claim", f"runner-{number}", "stale")
        bench.clock.advance(60)
    assert await heals.forget(bench.clock.now() - timedelta(seconds=90), limit=2) == 2
    assert [line.subject for line in await heals.newest(2)] == ["runner-4", "runner-3"]
    assert await heals.count_by_kind(bench.clock.now() - timedelta(hours=1)) == {"stale_claim": 3}
    await bench.ledger.progress.note("uid-1", "a")
    bench.clock.advance(60)
    assert await bench.ledger.progress.forget(bench.clock.now()) == 1
