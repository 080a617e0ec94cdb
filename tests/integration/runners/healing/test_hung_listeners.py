"""A listener that hangs is healed within two minutes; one that works, may work, or cannot be judged is left alone."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from integration.runners.healing.healing_rig import ACME, MINUTE, ORGANISATION, Crash, HealingRig, runner_of

from paddock.clients.github import Forbidden, GitHubRunner, NotFound
from paddock.kube.builtin import Pod
from paddock.runners.healing.worker import Report

SAID_EVERY = 30.0
"""How often the agent repeats a mark that does not move."""


async def _handed(rig: HealingRig, *, online: bool = True) -> tuple[Pod, int]:
    """A Pod that was handed its runner, for a job that still waits at GitHub."""
    pod, job_id = await rig.busy(heard=False)
    rig.at_github(job_id, "queued")
    rig.row(pod, online=online)
    rig.github.show(ORGANISATION, GitHubRunner(runner_id=1, name="another", online=True, busy=False))
    return pod, job_id


async def _pass(rig: HealingRig) -> Report:
    report = await rig.healer.once(rig.listeners)
    assert report is not None, rig.healer.last_reports
    return report


async def _still(rig: HealingRig, pod: Pod, stage: str = "listening", seconds: float = 75.0) -> None:
    await rig.reports(pod, f"1780000000 {stage}", still_for=seconds)


async def _status(rig: HealingRig, job_id: int) -> str:
    job = await rig.ledger.jobs.get(job_id)
    assert job is not None
    return job.status


@pytest.mark.parametrize(("stage", "online"), [("listening", True), ("listening", False), ("starting", False)])
@pytest.mark.parametrize("offset", [0.0, 7.0, 14.0])
async def test_a_hung_listener_is_healed_within_two_minutes(
    healing_rig: HealingRig, stage: str, online: bool, offset: float
) -> None:
    """Measured second by second: the agent repeats its mark, the worker comes at its pace, whatever their phase."""
    pod, job_id = await _handed(healing_rig, online=online)
    began = healing_rig.clock.now()
    mark = f"1780000000 {stage}"
    healed_after: float | None = None
    for second in range(240):
        if second % SAID_EVERY == 0:
            await healing_rig.ledger.progress.note(pod.metadata.uid, mark)
        if (second + offset) % healing_rig.listeners.every == 0:
            await _pass(healing_rig)
        if not await healing_rig.there(pod) and await _status(healing_rig, job_id) == "queued":
            healed_after = (healing_rig.clock.now() - began).total_seconds()
            break
        healing_rig.clock.advance(1.0)
    assert healed_after is not None, "it was not healed at all"
    assert 60.0 <= healed_after < 2 * MINUTE
    assert not healing_rig.listed(pod), "GitHub could still give it a job"
    assert await healing_rig.kinds() == {"hung_runner": 1, "orphan_requeued": 1}
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None


Change = Callable[[HealingRig, Pod, int], None]


def _job_runs(rig: HealingRig, pod: Pod, job_id: int) -> None:
    rig.at_github(job_id, "in_progress", runner_of(pod))


def _busy(rig: HealingRig, pod: Pod, _: int) -> None:
    rig.row(pod, online=True, busy=True)


def _assigned_at_the_last_moment(rig: HealingRig, pod: Pod, _: int) -> None:
    rig.github.assigns.add(runner_of(pod))


def _github_is_away(rig: HealingRig, _: Pod, __: int) -> None:
    rig.github.broken = True


def _job_is_elsewhere(rig: HealingRig, _: Pod, job_id: int) -> None:
    rig.at_github(job_id, "in_progress", "another")


def _job_unknown(rig: HealingRig, _: Pod, job_id: int) -> None:
    del rig.github.jobs[job_id]


@pytest.mark.parametrize(
    "change", [_job_runs, _busy, _assigned_at_the_last_moment, _github_is_away, _job_is_elsewhere, _job_unknown]
)
async def test_a_listener_that_may_get_or_have_a_job_is_left_alone(healing_rig: HealingRig, change: Change) -> None:
    pod, job_id = await _handed(healing_rig)
    await _still(healing_rig, pod)
    change(healing_rig, pod, job_id)
    report = await _pass(healing_rig)
    assert report.healed == ()
    assert await healing_rig.there(pod)
    assert await _status(healing_rig, job_id) == "running"
    assert await healing_rig.ledger.fences.standing() == []
    assert healing_rig.listed(pod)


async def test_a_listener_whose_place_github_does_not_know_is_left_alone(healing_rig: HealingRig) -> None:
    """A place that does not exist lists nobody, which is no word about a runner that is registered elsewhere."""
    pod, job_id = await _handed(healing_rig)
    await _still(healing_rig, pod)
    for place in (ORGANISATION, f"repos/org{ACME}/app"):
        healing_rig.github.places[place] = NotFound("there is no such place")
    assert (await _pass(healing_rig)).healed == ()
    assert await healing_rig.there(pod)
    assert await _status(healing_rig, job_id) == "running"


@pytest.mark.parametrize(
    "mark", ["1780000000 running", "1780000000 finishing", "1780000000 waiting", "7", "", "x listening"]
)
async def test_a_runner_with_a_worker_or_of_an_unknown_stage_is_not_even_asked_about(
    healing_rig: HealingRig, mark: str
) -> None:
    pod, _ = await _handed(healing_rig)
    healing_rig.github.calls.clear()
    await healing_rig.reports(pod, mark, still_for=75.0)
    assert (await _pass(healing_rig)).healed == ()
    assert await healing_rig.there(pod)
    assert not [what for what, *_ in healing_rig.github.calls if what == "remove_runner"]


async def test_a_listener_that_moves_or_fell_silent_costs_github_nothing(healing_rig: HealingRig) -> None:
    moving, _ = await _handed(healing_rig)
    silent, _ = await _handed(healing_rig)
    healing_rig.github.calls.clear()
    await _still(healing_rig, silent)
    healing_rig.clock.advance(61.0)
    await healing_rig.reports(moving, "1780000099 listening")
    assert (await _pass(healing_rig)).looked == 0
    assert healing_rig.github.calls == []


async def test_a_listener_that_github_says_is_well_is_asked_about_once_a_minute(healing_rig: HealingRig) -> None:
    pod, job_id = await _handed(healing_rig)
    _job_is_elsewhere(healing_rig, pod, job_id)
    await _still(healing_rig, pod)
    await _pass(healing_rig)
    healing_rig.github.calls.clear()
    for _ in range(3):
        healing_rig.clock.advance(15.0)
        await healing_rig.ledger.progress.note(pod.metadata.uid, "1780000000 listening")
        await _pass(healing_rig)
    assert healing_rig.github.calls == []


async def test_a_job_that_was_heard_to_run_is_left_alone(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.busy(heard=True)
    healing_rig.at_github(job_id, "queued")
    healing_rig.row(pod, online=True)
    await _still(healing_rig, pod)
    assert (await _pass(healing_rig)).healed == ()
    assert await healing_rig.there(pod)


async def test_most_runners_standing_still_at_once_is_taken_for_githubs_trouble(healing_rig: HealingRig) -> None:
    pods = [(await _handed(healing_rig))[0] for _ in range(10)]
    for pod in pods:
        await healing_rig.ledger.progress.note(pod.metadata.uid, "1780000000 listening")
    healing_rig.clock.advance(75.0)
    for pod in pods:
        await healing_rig.ledger.progress.note(pod.metadata.uid, "1780000000 listening")
    report = await _pass(healing_rig)
    assert report.healed == ()
    assert "stand still at once" in report.refused[0]


async def test_a_runner_that_github_will_not_remove_does_not_take_the_turn_of_its_own_pool(
    healing_rig: HealingRig,
) -> None:
    first, _ = await _handed(healing_rig)
    second, _ = await _handed(healing_rig)
    listed = GitHubRunner(runner_id=8, name=runner_of(second), online=True, busy=False)
    healing_rig.github.show(ORGANISATION, listed)
    healing_rig.github.refusals[7] = Forbidden("Resource not accessible by integration", status=403)
    await healing_rig.ledger.progress.note(first.metadata.uid, "1780000000 listening")
    await _still(healing_rig, second)
    await healing_rig.ledger.progress.note(first.metadata.uid, "1780000000 listening")
    await _pass(healing_rig)
    await _pass(healing_rig)
    assert await healing_rig.there(first)
    assert not await healing_rig.there(second)


async def test_report_only_says_it_and_does_nothing(healing_rig: HealingRig) -> None:
    healing_rig.start(report_only=frozenset({"hung_runner"}))
    pod, job_id = await _handed(healing_rig)
    await _still(healing_rig, pod)
    report = await _pass(healing_rig)
    assert [heal.kind for heal in report.reported] == ["hung_runner"]
    assert await healing_rig.there(pod)
    assert await _status(healing_rig, job_id) == "running"
    assert healing_rig.listed(pod)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(8))
async def test_whatever_is_interrupted_the_next_pass_ends_it(healing_rig: HealingRig, at: int, after: bool) -> None:
    pod, job_id = await _handed(healing_rig)
    await _still(healing_rig, pod)
    healing_rig.watch_ledger()
    healing_rig.interruptions.around(healing_rig.github, "remove_runner")
    healing_rig.interruptions.around(healing_rig.ledger.unconfirmed, "put_back")
    healing_rig.interruptions.arm(at, after=after)
    with pytest.raises(Crash):
        await healing_rig.listeners.heal()
    healing_rig.interruptions.arm(None)
    healing_rig.start()
    for _ in range(3):
        healing_rig.clock.advance(15.0)
        await healing_rig.ledger.progress.note(pod.metadata.uid, "1780000000 listening")
        await _pass(healing_rig)
        await healing_rig.heal()
    assert not await healing_rig.there(pod)
    assert await _status(healing_rig, job_id) == "queued"
    assert await healing_rig.ledger.fences.standing() == []
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None


async def test_the_grace_is_what_the_promise_needs(healing_rig: HealingRig) -> None:
    settings = healing_rig.settings
    said = timedelta(seconds=SAID_EVERY + settings.listener_every)
    assert settings.listener_grace + said < timedelta(minutes=2)
    assert settings.listener_grace > timedelta(seconds=SAID_EVERY), "a mark that is repeated in time is not silence"
