"""Assigned and forgotten, done but not ended, hung: reaped on proof, and nothing else is."""

from datetime import timedelta
from typing import Any, NoReturn

import httpx2
import pytest
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, ORGANISATION, HealingRig, as_ledger, runner_of
from integration.runners.ledger.rig import ACME, attempt, job

from paddock.clients.github import Forbidden
from paddock.kube.builtin import Pod
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.facts import LEFT_CLAIMS
from paddock.runners.ledger import Outcome

AT_REPOSITORY = f"repos/org{ACME}/app"
LOST = HealingSettings().lost_communication.total_seconds() + MINUTE


async def test_a_stamped_pod_without_claim_is_reaped_with_its_account(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    report = await healing_rig.heal()
    assert [heal.kind for heal in report.healed] == ["orphaned_stamped_pod"]
    assert not await healing_rig.there(pod)
    assert not await healing_rig.account_there(pod)
    assert await healing_rig.ledger.fences.standing() == []
    assert await healing_rig.kinds() == {"orphaned_stamped_pod": 1}


async def test_a_pod_with_a_claim_is_kept_in_either_state(healing_rig: HealingRig) -> None:
    claimed, _ = await healing_rig.claimed()
    busy, _ = await healing_rig.busy()
    healing_rig.clock.advance(3600)
    report = await healing_rig.heal()
    assert report.healed == ()
    assert await healing_rig.there(claimed)
    assert await healing_rig.there(busy)


async def test_a_fresh_leak_waits_for_its_grace(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked(age=MINUTE)
    assert (await healing_rig.heal()).healed == ()
    healing_rig.clock.advance(5 * MINUTE)
    assert len((await healing_rig.heal()).healed) == 1
    assert not await healing_rig.there(pod)


async def test_a_claim_that_ended_this_moment_leaves_time_to_take_the_stamp_off(healing_rig: HealingRig) -> None:
    pod, claim = await healing_rig.claimed()
    healing_rig.clock.advance(3600)
    await healing_rig.ledger.claims.release(claim, by="dispatch", why="mint failed")
    assert (await healing_rig.heal()).healed == ()
    await healing_rig.label(pod, owner=None)
    healing_rig.clock.advance(3600)
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod), "a healthy Pod that lost its label in time waits on"


async def test_in_a_mixed_batch_only_the_leak_goes(healing_rig: HealingRig) -> None:
    idle = await healing_rig.idle()
    claimed, _ = await healing_rig.claimed()
    busy, _ = await healing_rig.busy()
    leaked = await healing_rig.leaked()
    assert [heal.subject for heal in (await healing_rig.heal()).healed] == [leaked.metadata.name]
    for pod in (idle, claimed, busy):
        assert await healing_rig.there(pod)


async def test_no_pods_is_no_work(healing_rig: HealingRig) -> None:
    report = await healing_rig.heal()
    assert report.looked == 0
    assert report.healed == ()


async def test_a_list_that_fails_ends_the_pass_before_the_ledger_is_read(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    healing_rig.wire.refuse = lambda request: httpx2.Response(500) if request.url.path.endswith("/pods") else None

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("the ledger was read although the list failed")

    healing_rig.ledger.claims.all = never  # pyright: ignore[reportAttributeAccessIssue]
    assert await healing_rig.healer.once(healing_rig.pods) is None
    assert healing_rig.deletes() == []
    assert await healing_rig.there(pod)


@pytest.mark.parametrize(
    ("runner", "poller", "reaped"),
    [
        ("waiting", "running", True),
        ("", "", True),
        ("waiting", "terminated", False),
        ("running", "terminated", False),
        ("terminated", "terminated", False),
    ],
)
async def test_on_linux_a_runner_that_started_saves_its_pod(
    healing_rig: HealingRig, runner: str, poller: str, reaped: bool
) -> None:
    pod, claim = await healing_rig.claimed(linux=True)
    await healing_rig.ledger.claims.release(claim, by="claims", why="stale")
    status = {"containerStatuses": None, "initContainerStatuses": None}
    await healing_rig.hands.merge_patch(Pod, pod.metadata.name, {"status": status}, NAMESPACE, subresource="status")
    await healing_rig.containers(pod, runner=runner, poller=poller)
    healing_rig.clock.advance(3600)
    report = await healing_rig.heal()
    assert await healing_rig.there(pod) is not reaped, report


async def test_a_mac_that_runs_since_boot_is_reaped_without_a_session_and_kept_with_one(
    healing_rig: HealingRig,
) -> None:
    forgotten = await healing_rig.leaked()
    handed, claim = await healing_rig.claimed()
    await healing_rig.ledger.claims.commit(claim, runner_of(handed))
    running = await healing_rig.ledger.claims.of_pod(handed.metadata.uid)
    assert running is not None
    # What killed live jobs: the claim ends while its runner lives.
    await healing_rig.ledger.claims.release(running, by="somebody", why="by mistake")
    healing_rig.clock.advance(3600)
    await healing_rig.heal()
    assert not await healing_rig.there(forgotten)
    assert await healing_rig.there(handed)


async def test_the_end_of_a_session_does_not_make_a_pod_that_runs_a_leak(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.busy()
    await healing_rig.ledger.recovery.pod_stopped(
        pod.metadata.uid, healing_rig.clock.now(), by="somebody", why="wrongly"
    )
    healing_rig.clock.advance(3600)
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)


async def test_a_ledger_that_lost_its_memory_kills_nothing(healing_rig: HealingRig) -> None:
    """A plausible answer from the wrong database: many assigned Pods, none of which it has ever heard of."""
    pods = []
    for _ in range(12):
        pod = await healing_rig.idle()
        pods.append(await healing_rig.label(pod, owner="org1"))
    linux = await healing_rig.label(await healing_rig.idle(linux=True), owner="org1")
    for _ in range(8):
        healing_rig.clock.advance(MINUTE)
        report = await healing_rig.heal()
        assert report.healed == ()
        assert any("right database" in sentence for sentence in report.refused)
    assert healing_rig.counted("paddock_heal_refused_total", reason="breaker") >= 1
    assert all([await healing_rig.there(pod) for pod in (*pods, linux)])
    assert healing_rig.deletes() == []


async def test_a_few_macs_that_the_ledger_never_heard_of_are_kept_too(healing_rig: HealingRig) -> None:
    pod = await healing_rig.label(await healing_rig.idle(), owner="org1")
    healing_rig.clock.advance(3600)
    report = await healing_rig.heal()
    assert report.healed == ()
    assert any(pod.metadata.name in sentence for sentence in report.refused)


async def test_a_linux_pod_that_stood_stamped_through_the_grace_needs_no_memory(healing_rig: HealingRig) -> None:
    pod = await healing_rig.label(await healing_rig.idle(linux=True), owner="org1")
    healing_rig.clock.advance(3600)
    assert (await healing_rig.heal()).healed == (), "one look is not enough"
    for _ in range(5):
        healing_rig.clock.advance(MINUTE)
        await healing_rig.heal()
    assert not await healing_rig.there(pod)


async def test_a_pod_marked_as_handed_out_is_kept_whatever_the_ledger_says(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.label(pod, account="1")
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)


# Finished jobs


async def test_a_finished_job_whose_runner_stands_still_gives_its_pod_back_in_minutes(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished(linux=True)
    await healing_rig.reports(pod, still_for=130)
    assert (await healing_rig.heal()).healed == (), "it has three minutes to end by itself"
    await healing_rig.reports(pod, still_for=60)
    report = await healing_rig.heal()
    assert [heal.kind for heal in report.healed] == ["finished_job_pod"]
    assert not await healing_rig.there(pod)
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None


async def test_a_finished_job_whose_runner_is_silent_takes_fifteen_minutes(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished()
    for _ in range(14):
        healing_rig.clock.advance(MINUTE)
        assert (await healing_rig.heal()).healed == ()
    healing_rig.clock.advance(2 * MINUTE)
    assert [heal.kind for heal in (await healing_rig.heal()).healed] == ["finished_job_pod"]
    assert not await healing_rig.there(pod)


async def test_a_finished_job_whose_runner_still_moves_is_left_alone(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished()
    for step in range(30):
        healing_rig.clock.advance(MINUTE)
        await healing_rig.reports(pod, mark=str(step))
        assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)


async def test_a_job_that_another_runner_finished_keeps_this_pod(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.finished(heard=False)
    healing_rig.at_github(job_id, "completed", "another-runner")
    running = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert running is not None
    await healing_rig.ledger.jobs.settle(
        job_id, conclusion="success", runner_name="another-runner", by="test", why="stolen"
    )
    healing_rig.row(pod, online=True, busy=True)
    for _ in range(30):
        await healing_rig.reports(pod, still_for=MINUTE)
        assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)


async def test_nothing_is_reaped_while_github_does_not_answer(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished()
    healing_rig.github.broken = True
    for _ in range(30):
        await healing_rig.reports(pod, still_for=MINUTE)
        assert (await healing_rig.heal()).healed == ()
    healing_rig.github.broken = False
    assert len((await healing_rig.heal()).healed) == 1


async def test_an_empty_list_of_runners_proves_nothing_while_another_runner_is_at_work(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished()
    await healing_rig.busy()
    healing_rig.github.places.clear()
    await healing_rig.reports(pod, still_for=LOST)
    assert (await healing_rig.heal()).healed == ()


async def test_an_empty_list_of_runners_counts_where_nobody_should_be_in_it(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished()
    healing_rig.github.places.clear()
    await healing_rig.reports(pod, still_for=LOST)
    assert [heal.kind for heal in (await healing_rig.heal()).healed] == ["finished_job_pod"]


async def test_a_claim_that_is_not_settled_yet_protects_its_pod(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.finished(heard=False)
    await healing_rig.reports(pod, still_for=LOST)
    assert (await healing_rig.heal()).healed == ()
    await healing_rig.ledger.jobs.settle(
        job_id, conclusion="failure", runner_name=runner_of(pod), by="orphans", why="over"
    )
    assert len((await healing_rig.heal()).healed) == 1
    assert not await healing_rig.there(pod)


# Hung runners


async def _hang(healing_rig: HealingRig, pod: Pod, minutes: int) -> int:
    """That many passes a minute apart, in which the runner reports the same mark; gives how many heals came of them."""
    healed = 0
    for _ in range(minutes):
        await healing_rig.reports(pod, still_for=MINUTE)
        healed += len((await healing_rig.heal()).healed)
    return healed


async def test_a_runner_that_never_registered_is_reaped_after_github_would_have_given_up(
    healing_rig: HealingRig,
) -> None:
    pod, claim = await healing_rig.claimed(linux=True)
    await healing_rig.ledger.claims.commit(claim, runner_of(pod))
    await healing_rig.containers(pod, runner="running", poller="terminated")
    healing_rig.at_github(claim.job_id, "queued")
    healing_rig.row(pod, online=False)
    held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    assert await _hang(healing_rig, pod, 8) == 0, "its claim is settled first"
    await healing_rig.ledger.claims.release(held, by="orphans", why="GitHub still has it queued")
    assert await _hang(healing_rig, pod, 14) == 0
    assert await _hang(healing_rig, pod, 3) == 1
    assert not await healing_rig.there(pod)
    assert (await healing_rig.kinds()) == {"hung_runner": 1}
    assert await healing_rig.bench.status(claim.job_id) == "queued"


async def test_an_offline_runner_whose_job_is_in_progress_is_never_touched(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.busy()
    held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await healing_rig.ledger.claims.release(held, by="somebody", why="by mistake")
    healing_rig.row(pod, online=False)
    assert await _hang(healing_rig, pod, 40) == 0
    assert await healing_rig.there(pod)


async def test_a_runner_that_was_seen_online_in_between_starts_its_time_anew(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.busy(heard=False)
    held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await healing_rig.ledger.claims.release(held, by="orphans", why="GitHub still has it queued")
    healing_rig.at_github(job_id, "queued")
    healing_rig.row(pod, online=False)
    assert await _hang(healing_rig, pod, 14) == 0
    healing_rig.row(pod, online=True)
    assert await _hang(healing_rig, pod, 1) == 0
    healing_rig.row(pod, online=False)
    assert await _hang(healing_rig, pod, 14) == 0
    assert await _hang(healing_rig, pod, 3) == 1


async def test_a_displaced_claim_goes_with_its_hung_pod(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.busy(heard=False)
    stolen = job(job_id, ACME)
    await healing_rig.ledger.jobs.started(stolen, runner_name="another-runner", started_at=healing_rig.clock.now())
    healing_rig.at_github(job_id, "in_progress", "another-runner")
    healing_rig.row(pod, online=False)
    assert await _hang(healing_rig, pod, 20) == 1
    assert not await healing_rig.there(pod)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await healing_rig.bench.status(job_id) == "running", "the other runner's job is not put back"


# What holds it back


async def test_no_pass_reaps_more_than_its_share_of_a_pool(healing_rig: HealingRig) -> None:
    for _ in range(6):
        await healing_rig.leaked(age=0)
    for _ in range(34):
        await healing_rig.idle(account=False)
    other = await healing_rig.leaked(pool="linux-large", linux=True)
    report = await healing_rig.heal()
    # Five in a hundred of forty are two; a pool of one may heal its one.
    assert len(report.healed) == 3
    assert report.deferred == 4
    assert not await healing_rig.there(other)
    assert healing_rig.counted("paddock_heal_refused_total", reason="cap") == 4


async def test_no_pass_reaps_more_than_twenty_five(healing_rig: HealingRig) -> None:
    healing_rig.start(cap_share=1.0)
    for _ in range(27):
        await healing_rig.leaked(age=0)
    healing_rig.clock.advance(3600)
    first = await healing_rig.heal()
    assert (len(first.healed), first.deferred) == (25, 2)
    assert len((await healing_rig.heal()).healed) == 2


@pytest.mark.parametrize("kind", ["orphaned_stamped_pod", "*"])
async def test_report_only_reports_and_touches_nothing(healing_rig: HealingRig, kind: str) -> None:
    healing_rig.start(report_only=frozenset({kind}))
    pod = await healing_rig.leaked()
    report = await healing_rig.heal()
    assert [heal.kind for heal in report.reported] == ["orphaned_stamped_pod"]
    assert report.healed == ()
    assert healing_rig.deletes() == []
    assert await healing_rig.ledger.fences.standing() == []
    assert await healing_rig.there(pod)


async def test_a_plan_says_what_a_pass_would_do_and_does_nothing(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    plans = await healing_rig.healer.plan()
    assert [heal.subject for heal in plans["pods"].reported] == [pod.metadata.name]
    assert healing_rig.deletes() == []
    assert await healing_rig.ledger.heals.newest() == []


async def test_a_plan_in_the_middle_of_a_burst_does_not_slow_it_down(healing_rig: HealingRig) -> None:
    for _ in range(3):
        _, claim = await healing_rig.claimed()
        await healing_rig.ledger.claims.release(claim, by=LEFT_CLAIMS, why="its dispatcher died")
    healing_rig.clock.advance(2 * MINUTE)
    assert (await healing_rig.heal()).deferred == 2
    hurried = healing_rig.pods.every
    assert hurried == healing_rig.settings.burst_every
    await healing_rig.healer.plan()
    assert healing_rig.pods.every == hurried


async def test_one_pod_that_cannot_be_deleted_does_not_keep_the_others(healing_rig: HealingRig) -> None:
    first, second = await healing_rig.leaked(age=0), await healing_rig.leaked(pool="other")
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
        if request.method == "DELETE" and request.url.path.endswith(first.metadata.name)
        else None
    )
    report = await healing_rig.heal()
    assert [heal.subject for heal in report.healed] == [second.metadata.name]
    assert any(first.metadata.name in sentence for sentence in report.failed)
    healing_rig.wire.refuse = lambda _: None
    assert len((await healing_rig.heal()).healed) == 1
    assert await healing_rig.kinds() == {"orphaned_stamped_pod": 2}


async def test_a_pod_that_cannot_be_deleted_does_not_take_the_turn_of_its_own_pool(healing_rig: HealingRig) -> None:
    """A small pool may heal one Pod a pass: were the oldest leak always that one, it would be the only one ever tried."""
    first, second = await healing_rig.leaked(age=0), await healing_rig.leaked()
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
        if request.method == "DELETE" and request.url.path.endswith(first.metadata.name)
        else None
    )
    reports = [await healing_rig.heal() for _ in range(3)]
    assert [heal.subject for report in reports for heal in report.healed] == [second.metadata.name]
    assert [bool(report.failed) for report in reports] == [True, False, True], "and it is tried again, in its turn"
    assert await healing_rig.there(first)


async def test_evidence_is_kept_before_the_pod_goes(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.finished(linux=True)
    await healing_rig.containers(pod, runner="failed", poller="terminated")
    healing_rig.clock.advance(LOST)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            intents = await healing_rig.ledger.heals.intended()
            assert [intent.pod_uid for intent in intents] == [pod.metadata.uid]

    healing_rig.wire.before = before
    assert len((await healing_rig.heal()).healed) == 1
    (line,) = await healing_rig.ledger.heals.newest()
    assert line.done_at is not None
    assert line.job_id == job_id
    runner = next(each for each in line.evidence["kubernetes"]["containers"] if each["name"] == "runner")
    assert (runner["exit_code"], runner["message"]) == (137, "no space left on device")
    assert line.evidence["github"]["job"]["status"] == "completed"
    assert line.evidence["postgres"]["session"]["runner_name"] == runner_of(pod)
    assert {ledger for ledger, _ in line.evidence["proof"]} == {"github", "postgres"}


# Races


async def test_a_claim_that_is_won_between_list_and_fence_saves_the_pod(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.ledger.jobs.enqueue(job(900_001, ACME))
    fence = healing_rig.ledger.fences.raise_fence

    async def late(*args: object, **kwargs: object) -> object:
        won = await attempt(healing_rig.ledger, 900_001, as_ledger(pod))
        assert won.outcome is Outcome.CLAIMED
        return await fence(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    healing_rig.ledger.fences.raise_fence = late  # pyright: ignore[reportAttributeAccessIssue]
    report = await healing_rig.heal()
    assert report.healed == ()
    assert any("won a claim" in sentence for sentence in report.refused)
    assert await healing_rig.there(pod)
    assert healing_rig.deletes() == []
    assert await healing_rig.bench.status(900_001) == "claimed"


async def test_a_fenced_pod_wins_no_claim_and_is_reaped(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.ledger.jobs.enqueue(job(900_002, ACME))
    outcomes: list[Outcome] = []

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            claim = await attempt(healing_rig.ledger, 900_002, as_ledger(pod))
            outcomes.append(claim.outcome)

    healing_rig.wire.before = before
    assert len((await healing_rig.heal()).healed) == 1
    assert outcomes[0] is Outcome.POD_FENCED
    assert await healing_rig.bench.status(900_002) == "queued"


async def test_a_whole_dispatch_between_list_and_fence_saves_the_pod(healing_rig: HealingRig) -> None:
    """Claimed, minted, handed out and released again before the fence: only the fresh read of the session shows it."""
    pod = await healing_rig.leaked()
    await healing_rig.ledger.jobs.enqueue(job(900_003, ACME))
    fence = healing_rig.ledger.fences.raise_fence

    async def late(*args: object, **kwargs: object) -> object:
        won = await attempt(healing_rig.ledger, 900_003, as_ledger(pod))
        await healing_rig.ledger.claims.commit(won, runner_of(pod))
        healing_rig.at_github(900_003, "in_progress", runner_of(pod))
        await healing_rig.ledger.claims.release(won, by="somebody", why="by mistake")
        return await fence(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    healing_rig.ledger.fences.raise_fence = late  # pyright: ignore[reportAttributeAccessIssue]
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)
    assert healing_rig.deletes() == []
    assert await healing_rig.ledger.fences.standing() == [], "nothing is left of the attempt"


async def test_a_pod_that_changes_in_the_last_moment_is_not_deleted(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked(linux=True)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            await healing_rig.containers(pod, runner="running", poller="terminated")

    healing_rig.wire.before = before
    report = await healing_rig.heal()
    assert report.healed == ()
    assert await healing_rig.there(pod)
    assert await healing_rig.ledger.heals.newest() == []
    assert await healing_rig.ledger.fences.standing() == []
    healing_rig.wire.before = None
    assert (await healing_rig.heal()).healed == (), "its runner has started by now"


async def test_a_pod_that_somebody_else_retires_is_left_to_him(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.ledger.fences.raise_fence(as_ledger(pod), by="operator", why="scale down")
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)
    await healing_rig.vanish(pod)
    await healing_rig.heal()
    assert await healing_rig.ledger.fences.standing() == [], "the Pod is gone: the fence holds nothing back any more"


async def test_a_namesake_is_not_deleted_for_a_pod_that_is_gone(healing_rig: HealingRig) -> None:
    pod = await healing_rig.leaked()
    await healing_rig.ledger.fences.raise_fence(as_ledger(pod), by="healing", why="orphaned_stamped_pod: test")
    await healing_rig.vanish(pod)
    heir = await healing_rig.hands.create(
        Pod(
            metadata=pod.metadata.__class__(
                name=pod.metadata.name, namespace=NAMESPACE, labels=dict(pod.metadata.labels)
            ),
            spec=pod.spec,
        )
    )
    healing_rig.clock.advance(3600)
    assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(heir)


async def test_what_a_reaped_pod_ran_is_asked_about(healing_rig: HealingRig) -> None:
    pod, claim = await healing_rig.claimed()
    await healing_rig.ledger.claims.commit(claim, runner_of(pod))
    healing_rig.at_github(claim.job_id, "queued")
    healing_rig.row(pod, online=False)
    held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await healing_rig.ledger.jobs.started(
        job(claim.job_id, ACME), runner_name="another-runner", started_at=healing_rig.clock.now() + timedelta(seconds=1)
    )
    healing_rig.at_github(claim.job_id, "in_progress", "another-runner")
    assert await _hang(healing_rig, pod, 20) == 1
    assert not await healing_rig.there(pod)


async def test_a_live_kill_would_be_counted(healing_rig: HealingRig) -> None:
    """The counter that must stay zero is able to count: GitHub changes its mind in the moment of the delete."""
    pod, job_id = await healing_rig.finished()
    await healing_rig.reports(pod, still_for=5 * MINUTE)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            healing_rig.at_github(job_id, "in_progress", runner_of(pod))

    healing_rig.wire.before = before
    await healing_rig.heal()
    assert healing_rig.counted("paddock_live_kills_total", path="reap") == 1
    healing_rig.start()  # a new registry: the count was the point
    (row,) = await healing_rig.ledger.kills.newest()
    assert (row.kill_key, row.path, row.pod_name, row.job_id) == (
        pod.metadata.uid,
        "reap",
        pod.metadata.name,
        job_id,
    )
    await healing_rig.heal()
    summary = await healing_rig.ledger.overview.summary()
    assert (summary.killed_last_day, summary.forced_last_day, summary.killed_since) == (1, 0, row.at), (
        "the count outlives the process, and no repeat adds to it"
    )


async def test_a_live_kill_is_counted_though_the_process_died_before_it_asked(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.finished()
    await healing_rig.reports(pod, still_for=5 * MINUTE)
    ask = healing_rig.github.job

    async def dies(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("the process dies here")

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            healing_rig.at_github(job_id, "in_progress", runner_of(pod))
            healing_rig.github.job = dies  # the next question is the one after the deed

    healing_rig.wire.before = before
    await healing_rig.heal()
    assert not await healing_rig.there(pod)
    healing_rig.wire.before = None
    healing_rig.github.job = ask
    assert await healing_rig.ledger.kills.newest() == []

    healing_rig.start()
    await healing_rig.heal()
    assert [row.kill_key for row in await healing_rig.ledger.kills.newest()] == [pod.metadata.uid]
    assert healing_rig.counted("paddock_live_kills_total", path="reap") == 1
    healing_rig.start()


@pytest.mark.parametrize(
    ("place", "refuses"),
    [(ORGANISATION, AT_REPOSITORY), (AT_REPOSITORY, ORGANISATION)],
    ids=["organisation", "repository"],
)
async def test_a_finished_pod_is_reaped_though_the_app_may_not_list_the_other_place(
    healing_rig: HealingRig, place: str, refuses: str
) -> None:
    """An App for an organisation has no right to a repository's list, nor one for repositories to the organisation's."""
    pod, _ = await healing_rig.finished(linux=True, place=place)
    healing_rig.github.places[refuses] = Forbidden("Resource not accessible by integration", status=403)
    await healing_rig.reports(pod, still_for=130)
    await healing_rig.heal()
    await healing_rig.reports(pod, still_for=60)
    assert [heal.kind for heal in (await healing_rig.heal()).healed] == ["finished_job_pod"]
    assert not await healing_rig.there(pod)


async def test_a_place_that_refuses_its_own_list_takes_no_pod(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.finished(linux=True, place=AT_REPOSITORY)
    healing_rig.github.places[AT_REPOSITORY] = Forbidden("Resource not accessible by integration", status=403)
    for _ in range(10):
        await healing_rig.reports(pod, still_for=130)
        assert (await healing_rig.heal()).healed == ()
    assert await healing_rig.there(pod)
