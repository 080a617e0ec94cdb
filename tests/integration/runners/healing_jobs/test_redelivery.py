"""What GitHub could not deliver is asked for again, and nothing else is."""

from datetime import timedelta

import pytest
from integration.runners.healing_jobs.scripted import attempt, stub_github
from integration.runners.ledger.rig import START, Bench

from paddock.clients.github import BudgetSpent, Invalid, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.redelivery import Redelivery
from paddock.runners.ledger.views import LostDeliveries


class Scene:
    def __init__(self, bench: Bench, **settings) -> None:
        self.bench = bench
        self.github = stub_github()
        self.worker = Redelivery(bench.ledger, {"one": self.github}, HealingSettings(**settings), bench.clock)

    def logged(self, *attempts) -> None:
        self.github.attempts = list(attempts)

    def since(self) -> timedelta:
        """How far back the last pass looked."""
        looks = [began for what, began in self.github.calls if what == "deliveries"]
        return self.bench.clock.now() - looks[-1]


async def test_nothing_failed_and_nothing_is_asked_for(bench: Bench):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 202), attempt(2, "b", 200))
    report = await scene.worker.heal()
    assert (report.looked, report.healed, scene.github.redelivered) == (2, (), [])


async def test_a_failed_delivery_is_asked_for_once_until_its_attempt_shows_up(bench: Bench):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 502))
    report = await scene.worker.heal()
    assert [(heal.kind, heal.evidence["status_code"]) for heal in report.healed] == [("redelivered", 502)]
    bench.clock.advance(60)
    await scene.worker.heal()
    assert scene.github.redelivered == [1]
    scene.logged(attempt(1, "a", 502), attempt(2, "a", 503, ago=-30))
    await scene.worker.heal()
    assert scene.github.redelivered == [1, 2]


async def test_a_redelivery_that_never_shows_up_is_asked_for_again(bench: Bench):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 502))
    for _ in range(4):
        await scene.worker.heal()
        bench.clock.advance(60)
    assert scene.github.redelivered == [1, 1]


async def test_a_failed_attempt_with_a_later_success_is_not_repeated(bench: Bench):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 502, ago=120), attempt(2, "a", 200, ago=60))
    assert (await scene.worker.heal()).healed == ()
    assert scene.github.redelivered == []


async def test_a_delivery_that_we_have_is_not_asked_for_though_our_answer_was_lost(bench: Bench):
    scene = Scene(bench)
    await bench.ledger.deliveries.store("a", "workflow_job", b"{}")
    scene.logged(attempt(1, "a", 504), attempt(2, "b", 504), attempt(3, "c", 504, event="push"))
    await scene.worker.heal()
    assert scene.github.redelivered == [2]


async def test_the_log_is_read_back_over_the_window_and_over_our_own_outage(bench: Bench):
    scene = Scene(bench)
    await scene.worker.heal()
    assert scene.since() == timedelta(minutes=15)
    await bench.ledger.deliveries.store("a", "workflow_job", b"{}")
    bench.clock.advance(3 * 3600)
    await scene.worker.heal()  # the same process, whose passes failed or stood still
    assert scene.since() == timedelta(hours=3, minutes=15)
    restarted = Scene(bench)
    await restarted.worker.heal()
    assert restarted.since() == timedelta(hours=3, minutes=15)
    bench.clock.advance(30 * 86_400)
    late = Scene(bench)
    await late.worker.heal()
    assert late.since() == timedelta(days=3)  # GitHub delivers nothing older again


async def test_the_window_is_read_as_a_whole_once_and_in_between_only_what_is_new(bench: Bench):
    """Of 250,000 jobs a day a window has eight thousand attempts: eighty requests, and GitHub allows 5,000 an hour."""
    scene = Scene(bench)
    looked: list[float] = []
    for minute in range(31):
        scene.logged(*(attempt(one, f"{one}", 200, ago=-60 * one) for one in range(minute + 1)))
        await scene.worker.heal()
        looked.append(scene.since().total_seconds() / 60)
        bench.clock.advance(60)
    assert [minute for minute, back in enumerate(looked) if back > 5] == [0, 15, 30]
    assert min(looked) >= 4, "what shows up late is seen"


async def test_what_is_new_is_seen_in_the_next_pass_though_our_clock_is_minutes_ahead(bench: Bench):
    scene = Scene(bench)
    bench.clock.advance(600)  # GitHub's times stay behind
    scene.logged(attempt(1, "a", 200))
    await scene.worker.heal()
    bench.clock.advance(60)
    scene.logged(attempt(1, "a", 200), attempt(2, "b", 503, ago=-60))
    await scene.worker.heal()
    assert scene.github.redelivered == [2]


async def test_what_failed_a_while_ago_stays_in_view_though_only_the_newest_are_read(bench: Bench):
    scene = Scene(bench)
    scene.github.refusals[1] = Unavailable("502")
    scene.logged(attempt(1, "a", 502), attempt(2, "b", 200))
    for _ in range(2):  # the second looks further back, because something was put off
        await scene.worker.heal()
        bench.clock.advance(60)
    bench.clock.advance(300)
    scene.logged()  # what a look at the newest alone shows
    del scene.github.refusals[1]
    report = await scene.worker.heal()
    assert scene.github.redelivered == [1]
    assert report.looked == 2


async def test_a_read_that_fails_is_made_up_for_by_the_next(bench: Bench):
    scene = Scene(bench)
    await scene.worker.heal()
    bench.clock.advance(60)
    scene.github.attempts = Unavailable("502")
    await scene.worker.heal()
    bench.clock.advance(300)
    scene.logged(attempt(1, "a", 502, ago=-30))
    await scene.worker.heal()
    assert scene.since() >= timedelta(minutes=9), "back to the last good read, and the overlap"
    assert scene.github.redelivered == [1]


async def test_what_was_put_off_by_the_cap_stays_in_view(bench: Bench):
    scene = Scene(bench, cap=2)
    scene.logged(*(attempt(number, f"guid-{number}", 502, ago=800 - number) for number in range(1, 6)))
    report = await scene.worker.heal()
    assert (len(report.healed), report.deferred) == (2, 3)
    for _ in range(2):
        bench.clock.advance(60)
        await scene.worker.heal()
    assert sorted(scene.github.redelivered) == [1, 2, 3, 4, 5]


async def test_what_github_will_not_deliver_again_is_skipped_for_good(bench: Bench):
    scene = Scene(bench)
    scene.github.refusals[1] = Invalid("too old", status=422)
    scene.logged(attempt(1, "a", 502), attempt(2, "b", 502))
    report = await scene.worker.heal()
    assert (scene.github.redelivered, len(report.refused), report.failed) == ([2], 1, ())
    bench.clock.advance(60)
    await scene.worker.heal()
    assert scene.github.calls.count(("redeliver", 1)) == 1


async def test_trouble_with_one_app_keeps_no_other_from_its_deliveries(bench: Bench):
    broken, sound = stub_github(), stub_github()
    broken.attempts = Unavailable("502")
    sound.attempts = [attempt(1, "a", 502)]
    report = await Redelivery(bench.ledger, {"broken": broken, "sound": sound}, HealingSettings(), bench.clock).heal()
    assert (sound.redelivered, len(report.failed)) == ([1], 1)


@pytest.mark.parametrize("error", [BudgetSpent("spent", retry_after=60), Unavailable("502")])
async def test_a_redelivery_that_could_not_be_asked_for_is_asked_for_in_the_next_pass(bench: Bench, error: Exception):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 502, ago=14 * 60))
    scene.github.refusals[1] = error  # type: ignore[assignment]
    report = await scene.worker.heal()
    assert (report.healed, len(report.refused) + len(report.failed)) == ((), 1)
    bench.clock.advance(120)
    scene.github.refusals.clear()
    await scene.worker.heal()  # by now it is older than the window
    assert scene.github.redelivered == [1]


async def recorded(scene: Scene) -> None:
    """One pass, written down as the healer does."""
    for heal in (await scene.worker.heal()).healed:
        await scene.bench.ledger.heals.record(heal.kind, heal.subject, heal.sentence, evidence=heal.evidence)


async def test_what_github_could_not_deliver_since_the_last_arrival_is_told_until_one_arrives(bench: Bench):
    scene, lost = Scene(bench), bench.ledger.deliveries.lost
    await bench.ledger.deliveries.store("before", "workflow_job", b"{}")
    bench.clock.advance(60)
    await recorded(scene)
    assert await lost() is None, "nothing was tried"
    scene.logged(attempt(1, "a", 502, ago=-40), attempt(2, "b", 0, ago=-50))
    await recorded(scene)
    found = await lost()
    assert found == LostDeliveries(2, START + timedelta(seconds=40), 0)
    bench.clock.advance(60)
    scene.logged(attempt(1, "a", 502, ago=-40), attempt(2, "b", 0, ago=-50), attempt(3, "a", 403, ago=-110))
    await recorded(scene)
    assert await lost() == LostDeliveries(2, START + timedelta(seconds=40), 403)
    await bench.ledger.deliveries.store("a", "workflow_job", b"{}")
    assert await lost() is None


async def test_a_single_failure_beside_deliveries_that_arrive_is_no_loss(bench: Bench):
    scene = Scene(bench)
    bench.clock.advance(60)
    await bench.ledger.deliveries.store("before", "workflow_job", b"{}")
    scene.logged(attempt(1, "a", 502, ago=-65), attempt(2, "b", 502, ago=-30))  # clocks differ by a few seconds
    await recorded(scene)
    assert scene.github.redelivered
    assert await bench.ledger.deliveries.lost() is None


async def test_a_loss_that_is_over_without_an_arrival_is_not_told_for_ever(bench: Bench):
    scene = Scene(bench)
    scene.logged(attempt(1, "a", 502))
    await recorded(scene)
    assert await bench.ledger.deliveries.lost() is not None
    bench.clock.advance(16 * 60)
    assert await bench.ledger.deliveries.lost() is None


async def test_redelivery_can_be_switched_to_report_only(bench: Bench):
    scene = Scene(bench, report_only=frozenset({"redelivered"}))
    scene.logged(attempt(1, "a", 502))
    report = await scene.worker.heal()
    assert (len(report.reported), scene.github.redelivered) == (1, [])
