"""A listener that cannot connect, or that GitHub no longer knows, logs its retries: its mark moves for ever."""

from collections.abc import Callable

import pytest
from integration.runners.healing.healing_rig import ORGANISATION, HealingRig, runner_of

from paddock.clients.github import Forbidden, GitHubRunner
from paddock.kube.builtin import Pod

HOURS = 3 * 3600
EVERY = 10


async def _retrying(rig: HealingRig) -> Pod:
    """Its runner was unregistered, as recovery itself does once it is late, and its job was put back."""
    pod, job_id = await rig.busy(heard=False, place=ORGANISATION)
    rig.at_github(job_id, "queued")
    rig.github.hide(ORGANISATION, runner_of(pod))
    rig.github.show(ORGANISATION, GitHubRunner(runner_id=1, name="another", online=True, busy=True))
    job = await rig.ledger.jobs.get(job_id)
    assert job is not None
    assert await rig.ledger.unconfirmed.put_back(job, heard=None, by="orphans", why="its runner never came")
    return pod


async def _three_hours(rig: HealingRig, pod: Pod, stage: str = "listening") -> float | None:
    """Seconds until the Pod was gone, while something in it is logged every ten seconds."""
    for second in range(0, HOURS, EVERY):
        await rig.ledger.progress.note(pod.metadata.uid, f"{1780000000 + second} {stage}")
        if second % 60 == 0:
            await rig.heal()
            if not await rig.there(pod):
                return second
        rig.clock.advance(EVERY)
    return None


@pytest.mark.parametrize("stage", ["starting", "listening"])
async def test_a_listener_that_retries_noisily_gives_its_mac_back_in_minutes(
    healing_rig: HealingRig, stage: str
) -> None:
    pod = await _retrying(healing_rig)
    after = await _three_hours(healing_rig, pod, stage)
    assert after is not None
    assert 90 <= after <= 300, "past its deadline, and absent from more than one complete list"
    assert await healing_rig.kinds() == {"hung_runner": 1}
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None


Change = Callable[[HealingRig, Pod], None]


def _listed(rig: HealingRig, pod: Pod) -> None:
    rig.row(pod, online=True)


def _offline(rig: HealingRig, pod: Pod) -> None:
    rig.row(pod, online=False)


def _unread(rig: HealingRig, _: Pod) -> None:
    rig.github.places[ORGANISATION] = Forbidden("no", status=403)


def _job_unknown(rig: HealingRig, _: Pod) -> None:
    rig.github.jobs.clear()


@pytest.mark.parametrize("change", [_listed, _offline, _unread, _job_unknown])
async def test_a_listener_that_may_be_given_a_job_moves_and_is_kept(healing_rig: HealingRig, change: Change) -> None:
    pod = await _retrying(healing_rig)
    change(healing_rig, pod)
    assert await _three_hours(healing_rig, pod) is None
    assert await healing_rig.kinds() == {}


async def test_whatever_works_is_kept_although_github_does_not_list_its_runner(healing_rig: HealingRig) -> None:
    pod = await _retrying(healing_rig)
    assert await _three_hours(healing_rig, pod, "running") is None


async def test_one_list_without_the_runner_is_not_enough(healing_rig: HealingRig) -> None:
    pod = await _retrying(healing_rig)
    for minute in range(30):
        healing_rig.clock.advance(60)
        await healing_rig.reports(pod, f"{1780000000 + minute} listening")
        _listed(healing_rig, pod) if minute % 2 else healing_rig.github.hide(ORGANISATION, runner_of(pod))
        assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)
