"""Stamped and forgotten, done but not ended, hung: reaped on proof, and nothing else is."""

from datetime import timedelta

import httpx2
import pytest
from integration.healing.ward import MINUTE, NAMESPACE, Ward, as_ledger, runner_of
from integration.ledger.rig import ACME, job

from paddock.kube.builtin import Pod
from paddock.runners.ledger import Outcome
from paddock.runners.settings import HealingSettings

LOST = HealingSettings().lost_communication.total_seconds() + MINUTE


async def test_a_stamped_pod_without_claim_is_reaped_with_its_account(ward: Ward) -> None:
    pod = await ward.leaked()
    report = await ward.heal()
    assert [heal.kind for heal in report.healed] == ["orphaned_stamped_pod"]
    assert not await ward.there(pod)
    assert not await ward.account_there(pod)
    assert await ward.ledger.fences.standing() == []
    assert await ward.kinds() == {"orphaned_stamped_pod": 1}


async def test_a_pod_with_a_claim_is_kept_in_either_state(ward: Ward) -> None:
    claimed, _ = await ward.claimed()
    busy, _ = await ward.busy()
    ward.clock.advance(3600)
    report = await ward.heal()
    assert report.healed == ()
    assert await ward.there(claimed)
    assert await ward.there(busy)


async def test_a_fresh_leak_waits_for_its_grace(ward: Ward) -> None:
    pod = await ward.leaked(age=MINUTE)
    assert (await ward.heal()).healed == ()
    ward.clock.advance(5 * MINUTE)
    assert len((await ward.heal()).healed) == 1
    assert not await ward.there(pod)


async def test_a_claim_that_ended_this_moment_leaves_time_to_take_the_stamp_off(ward: Ward) -> None:
    pod, claim = await ward.claimed()
    ward.clock.advance(3600)
    await ward.ledger.claims.release(claim, by="dispatch", why="mint failed")
    assert (await ward.heal()).healed == ()
    await ward.label(pod, owner=None)
    ward.clock.advance(3600)
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod), "a healthy Pod that lost its stamp in time waits on"


async def test_in_a_mixed_batch_only_the_leak_goes(ward: Ward) -> None:
    idle = await ward.idle()
    claimed, _ = await ward.claimed()
    busy, _ = await ward.busy()
    leaked = await ward.leaked()
    assert [heal.subject for heal in (await ward.heal()).healed] == [leaked.metadata.name]
    for pod in (idle, claimed, busy):
        assert await ward.there(pod)


async def test_no_pods_is_no_work(ward: Ward) -> None:
    report = await ward.heal()
    assert report.looked == 0
    assert report.healed == ()


async def test_a_list_that_fails_ends_the_pass_before_the_ledger_is_read(ward: Ward) -> None:
    pod = await ward.leaked()
    ward.wire.refuse = lambda request: httpx2.Response(500) if request.url.path.endswith("/pods") else None

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("the ledger was read although the list failed")

    ward.ledger.claims.all = never  # pyright: ignore[reportAttributeAccessIssue]
    assert await ward.healer.once(ward.pods) is None
    assert ward.deletes() == []
    assert await ward.there(pod)


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
async def test_on_linux_a_runner_that_started_saves_its_pod(ward: Ward, runner: str, poller: str, reaped: bool) -> None:
    pod, claim = await ward.claimed(linux=True)
    await ward.ledger.claims.release(claim, by="claims", why="stale")
    status = {"containerStatuses": None, "initContainerStatuses": None}
    await ward.hands.merge_patch(Pod, pod.metadata.name, {"status": status}, NAMESPACE, subresource="status")
    await ward.containers(pod, runner=runner, poller=poller)
    ward.clock.advance(3600)
    report = await ward.heal()
    assert await ward.there(pod) is not reaped, report


async def test_a_mac_that_runs_since_boot_is_reaped_without_a_session_and_kept_with_one(ward: Ward) -> None:
    forgotten = await ward.leaked()
    handed, claim = await ward.claimed()
    await ward.ledger.claims.commit(claim, runner_of(handed))
    running = await ward.ledger.claims.of_pod(handed.metadata.uid)
    assert running is not None
    # What killed live jobs: the claim ends while its runner lives.
    await ward.ledger.claims.release(running, by="somebody", why="by mistake")
    ward.clock.advance(3600)
    await ward.heal()
    assert not await ward.there(forgotten)
    assert await ward.there(handed)


async def test_the_end_of_a_session_does_not_make_a_pod_that_runs_a_leak(ward: Ward) -> None:
    pod, _ = await ward.busy()
    await ward.ledger.recovery.pod_stopped(pod.metadata.uid, ward.clock.now(), by="somebody", why="wrongly")
    ward.clock.advance(3600)
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod)


async def test_a_ledger_that_lost_its_memory_kills_nothing(ward: Ward) -> None:
    """A plausible answer from the wrong database: many stamped Pods, none of which it has ever heard of."""
    pods = []
    for _ in range(12):
        pod = await ward.idle()
        pods.append(await ward.label(pod, owner="org1"))
    linux = await ward.label(await ward.idle(linux=True), owner="org1")
    for _ in range(8):
        ward.clock.advance(MINUTE)
        report = await ward.heal()
        assert report.healed == ()
        assert any("right database" in sentence for sentence in report.refused)
    assert ward.counted("paddock_heal_refused_total", reason="breaker") >= 1
    assert all([await ward.there(pod) for pod in (*pods, linux)])
    assert ward.deletes() == []


async def test_a_few_macs_that_the_ledger_never_heard_of_are_kept_too(ward: Ward) -> None:
    pod = await ward.label(await ward.idle(), owner="org1")
    ward.clock.advance(3600)
    report = await ward.heal()
    assert report.healed == ()
    assert any(pod.metadata.name in sentence for sentence in report.refused)


async def test_a_linux_pod_that_stood_stamped_through_the_grace_needs_no_memory(ward: Ward) -> None:
    pod = await ward.label(await ward.idle(linux=True), owner="org1")
    ward.clock.advance(3600)
    assert (await ward.heal()).healed == (), "one look is not enough"
    for _ in range(5):
        ward.clock.advance(MINUTE)
        await ward.heal()
    assert not await ward.there(pod)


async def test_a_pod_marked_as_handed_out_is_kept_whatever_the_ledger_says(ward: Ward) -> None:
    pod = await ward.leaked()
    await ward.label(pod, account="1")
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod)


# Finished jobs


async def test_a_finished_job_whose_runner_stands_still_gives_its_pod_back_in_minutes(ward: Ward) -> None:
    pod, _ = await ward.finished(linux=True)
    await ward.reports(pod, still_for=130)
    assert (await ward.heal()).healed == (), "it has three minutes to end by itself"
    await ward.reports(pod, still_for=60)
    report = await ward.heal()
    assert [heal.kind for heal in report.healed] == ["finished_job_pod"]
    assert not await ward.there(pod)
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None


async def test_a_finished_job_whose_runner_is_silent_takes_fifteen_minutes(ward: Ward) -> None:
    pod, _ = await ward.finished()
    for _ in range(14):
        ward.clock.advance(MINUTE)
        assert (await ward.heal()).healed == ()
    ward.clock.advance(2 * MINUTE)
    assert [heal.kind for heal in (await ward.heal()).healed] == ["finished_job_pod"]
    assert not await ward.there(pod)


async def test_a_finished_job_whose_runner_still_moves_is_left_alone(ward: Ward) -> None:
    pod, _ = await ward.finished()
    for step in range(30):
        ward.clock.advance(MINUTE)
        await ward.reports(pod, mark=str(step))
        assert (await ward.heal()).healed == ()
    assert await ward.there(pod)


async def test_a_job_that_another_runner_finished_keeps_this_pod(ward: Ward) -> None:
    pod, job_id = await ward.finished(heard=False)
    ward.at_github(job_id, "completed", "another-runner")
    running = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert running is not None
    await ward.ledger.jobs.settle(job_id, conclusion="success", runner_name="another-runner", by="test", why="stolen")
    ward.row(pod, online=True, busy=True)
    for _ in range(30):
        await ward.reports(pod, still_for=MINUTE)
        assert (await ward.heal()).healed == ()
    assert await ward.there(pod)


async def test_nothing_is_reaped_while_github_does_not_answer(ward: Ward) -> None:
    pod, _ = await ward.finished()
    ward.forge.broken = True
    for _ in range(30):
        await ward.reports(pod, still_for=MINUTE)
        assert (await ward.heal()).healed == ()
    ward.forge.broken = False
    assert len((await ward.heal()).healed) == 1


async def test_an_empty_list_of_runners_proves_nothing_while_another_runner_is_at_work(ward: Ward) -> None:
    pod, _ = await ward.finished()
    await ward.busy()
    ward.forge.rows.clear()
    await ward.reports(pod, still_for=LOST)
    assert (await ward.heal()).healed == ()


async def test_an_empty_list_of_runners_counts_where_nobody_should_be_in_it(ward: Ward) -> None:
    pod, _ = await ward.finished()
    ward.forge.rows.clear()
    await ward.reports(pod, still_for=LOST)
    assert [heal.kind for heal in (await ward.heal()).healed] == ["finished_job_pod"]


async def test_a_claim_that_is_not_settled_yet_protects_its_pod(ward: Ward) -> None:
    pod, job_id = await ward.finished(heard=False)
    await ward.reports(pod, still_for=LOST)
    assert (await ward.heal()).healed == ()
    await ward.ledger.jobs.settle(job_id, conclusion="failure", runner_name=runner_of(pod), by="orphans", why="over")
    assert len((await ward.heal()).healed) == 1
    assert not await ward.there(pod)


# Hung runners


async def _hang(ward: Ward, pod: Pod, minutes: int) -> int:
    """That many passes a minute apart, in which the runner reports the same mark; gives how many heals came of them."""
    healed = 0
    for _ in range(minutes):
        await ward.reports(pod, still_for=MINUTE)
        healed += len((await ward.heal()).healed)
    return healed


async def test_a_runner_that_never_registered_is_reaped_after_github_would_have_given_up(ward: Ward) -> None:
    pod, claim = await ward.claimed(linux=True)
    await ward.ledger.claims.commit(claim, runner_of(pod))
    await ward.containers(pod, runner="running", poller="terminated")
    ward.at_github(claim.job_id, "queued")
    ward.row(pod, online=False)
    held = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    assert await _hang(ward, pod, 8) == 0, "its claim is settled first"
    await ward.ledger.claims.release(held, by="orphans", why="GitHub still has it queued")
    assert await _hang(ward, pod, 14) == 0
    assert await _hang(ward, pod, 3) == 1
    assert not await ward.there(pod)
    assert (await ward.kinds()) == {"hung_runner": 1}
    assert await ward.bench.status(claim.job_id) == "queued"


async def test_an_offline_runner_whose_job_is_in_progress_is_never_touched(ward: Ward) -> None:
    pod, _ = await ward.busy()
    held = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await ward.ledger.claims.release(held, by="somebody", why="by mistake")
    ward.row(pod, online=False)
    assert await _hang(ward, pod, 40) == 0
    assert await ward.there(pod)


async def test_a_runner_that_was_seen_online_in_between_starts_its_time_anew(ward: Ward) -> None:
    pod, job_id = await ward.busy(heard=False)
    held = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await ward.ledger.claims.release(held, by="orphans", why="GitHub still has it queued")
    ward.at_github(job_id, "queued")
    ward.row(pod, online=False)
    assert await _hang(ward, pod, 14) == 0
    ward.row(pod, online=True)
    assert await _hang(ward, pod, 1) == 0
    ward.row(pod, online=False)
    assert await _hang(ward, pod, 14) == 0
    assert await _hang(ward, pod, 3) == 1


async def test_a_displaced_claim_goes_with_its_hung_pod(ward: Ward) -> None:
    pod, job_id = await ward.busy(heard=False)
    stolen = job(job_id, ACME)
    await ward.ledger.jobs.started(stolen, runner_name="another-runner", started_at=ward.clock.now())
    ward.at_github(job_id, "in_progress", "another-runner")
    ward.row(pod, online=False)
    assert await _hang(ward, pod, 20) == 1
    assert not await ward.there(pod)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await ward.bench.status(job_id) == "running", "the other runner's job is not put back"


# What holds it back


async def test_no_pass_reaps_more_than_its_share_of_a_pool(ward: Ward) -> None:
    for _ in range(6):
        await ward.leaked(age=0)
    for _ in range(34):
        await ward.idle(account=False)
    other = await ward.leaked(pool="linux-large", linux=True)
    report = await ward.heal()
    # Five in a hundred of forty are two; a pool of one may heal its one.
    assert len(report.healed) == 3
    assert report.deferred == 4
    assert not await ward.there(other)
    assert ward.counted("paddock_heal_refused_total", reason="cap") == 4


async def test_no_pass_reaps_more_than_twenty_five(ward: Ward) -> None:
    ward.start(cap_share=1.0)
    for _ in range(27):
        await ward.leaked(age=0)
    ward.clock.advance(3600)
    first = await ward.heal()
    assert (len(first.healed), first.deferred) == (25, 2)
    assert len((await ward.heal()).healed) == 2


@pytest.mark.parametrize("kind", ["orphaned_stamped_pod", "*"])
async def test_report_only_reports_and_touches_nothing(ward: Ward, kind: str) -> None:
    ward.start(report_only=frozenset({kind}))
    pod = await ward.leaked()
    report = await ward.heal()
    assert [heal.kind for heal in report.reported] == ["orphaned_stamped_pod"]
    assert report.healed == ()
    assert ward.deletes() == []
    assert await ward.ledger.fences.standing() == []
    assert await ward.there(pod)


async def test_a_plan_says_what_a_pass_would_do_and_does_nothing(ward: Ward) -> None:
    pod = await ward.leaked()
    plans = await ward.healer.plan()
    assert [heal.subject for heal in plans["pods"].reported] == [pod.metadata.name]
    assert ward.deletes() == []
    assert await ward.ledger.heals.newest() == []


async def test_one_pod_that_cannot_be_deleted_does_not_keep_the_others(ward: Ward) -> None:
    first, second = await ward.leaked(age=0), await ward.leaked(pool="other")
    ward.wire.refuse = lambda request: (
        httpx2.Response(403, json={"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
        if request.method == "DELETE" and request.url.path.endswith(first.metadata.name)
        else None
    )
    report = await ward.heal()
    assert [heal.subject for heal in report.healed] == [second.metadata.name]
    assert any(first.metadata.name in sentence for sentence in report.failed)
    ward.wire.refuse = lambda _: None
    assert len((await ward.heal()).healed) == 1
    assert await ward.kinds() == {"orphaned_stamped_pod": 2}


async def test_evidence_is_kept_before_the_pod_goes(ward: Ward) -> None:
    pod, job_id = await ward.finished(linux=True)
    await ward.containers(pod, runner="failed", poller="terminated")
    ward.clock.advance(LOST)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            intents = await ward.ledger.heals.intended()
            assert [intent.pod_uid for intent in intents] == [pod.metadata.uid]

    ward.wire.before = before
    assert len((await ward.heal()).healed) == 1
    (line,) = await ward.ledger.heals.newest()
    assert line.done_at is not None
    assert line.job_id == job_id
    runner = next(each for each in line.evidence["kubernetes"]["containers"] if each["name"] == "runner")
    assert (runner["exit_code"], runner["message"]) == (137, "no space left on device")
    assert line.evidence["github"]["job"]["status"] == "completed"
    assert line.evidence["postgres"]["session"]["runner_name"] == runner_of(pod)
    assert {ledger for ledger, _ in line.evidence["proof"]} == {"github", "postgres"}


# Races


async def test_a_claim_that_is_won_between_list_and_fence_saves_the_pod(ward: Ward) -> None:
    pod = await ward.leaked()
    await ward.ledger.jobs.enqueue(job(900_001, ACME))
    fence = ward.ledger.fences.raise_fence

    async def late(*args: object, **kwargs: object) -> object:
        won = await ward.ledger.claims.attempt(900_001, as_ledger(pod))
        assert won.outcome is Outcome.CLAIMED
        return await fence(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    ward.ledger.fences.raise_fence = late  # pyright: ignore[reportAttributeAccessIssue]
    report = await ward.heal()
    assert report.healed == ()
    assert any("won a claim" in sentence for sentence in report.refused)
    assert await ward.there(pod)
    assert ward.deletes() == []
    assert await ward.bench.status(900_001) == "claimed"


async def test_a_fenced_pod_wins_no_claim_and_is_reaped(ward: Ward) -> None:
    pod = await ward.leaked()
    await ward.ledger.jobs.enqueue(job(900_002, ACME))
    outcomes: list[Outcome] = []

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE":
            claim = await ward.ledger.claims.attempt(900_002, as_ledger(pod))
            outcomes.append(claim.outcome)

    ward.wire.before = before
    assert len((await ward.heal()).healed) == 1
    assert outcomes[0] is Outcome.POD_FENCED
    assert await ward.bench.status(900_002) == "queued"


async def test_a_whole_dispatch_between_list_and_fence_saves_the_pod(ward: Ward) -> None:
    """Claimed, minted, handed out and released again before the fence: only the fresh read of the session shows it."""
    pod = await ward.leaked()
    await ward.ledger.jobs.enqueue(job(900_003, ACME))
    fence = ward.ledger.fences.raise_fence

    async def late(*args: object, **kwargs: object) -> object:
        won = await ward.ledger.claims.attempt(900_003, as_ledger(pod))
        await ward.ledger.claims.commit(won, runner_of(pod))
        ward.at_github(900_003, "in_progress", runner_of(pod))
        await ward.ledger.claims.release(won, by="somebody", why="by mistake")
        return await fence(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    ward.ledger.fences.raise_fence = late  # pyright: ignore[reportAttributeAccessIssue]
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod)
    assert ward.deletes() == []
    assert await ward.ledger.fences.standing() == [], "nothing is left of the attempt"


async def test_a_pod_that_changes_in_the_last_moment_is_not_deleted(ward: Ward) -> None:
    pod = await ward.leaked(linux=True)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            await ward.containers(pod, runner="running", poller="terminated")

    ward.wire.before = before
    report = await ward.heal()
    assert report.healed == ()
    assert await ward.there(pod)
    assert await ward.ledger.heals.newest() == []
    assert await ward.ledger.fences.standing() == []
    ward.wire.before = None
    assert (await ward.heal()).healed == (), "its runner has started by now"


async def test_a_pod_that_somebody_else_retires_is_left_to_him(ward: Ward) -> None:
    pod = await ward.leaked()
    await ward.ledger.fences.raise_fence(as_ledger(pod), by="operator", why="scale down")
    assert (await ward.heal()).healed == ()
    assert await ward.there(pod)
    await ward.vanish(pod)
    await ward.heal()
    assert await ward.ledger.fences.standing() == [], "the Pod is gone: the fence holds nothing back any more"


async def test_a_namesake_is_not_deleted_for_a_pod_that_is_gone(ward: Ward) -> None:
    pod = await ward.leaked()
    await ward.ledger.fences.raise_fence(as_ledger(pod), by="healing", why="orphaned_stamped_pod: test")
    await ward.vanish(pod)
    heir = await ward.hands.create(
        Pod(
            metadata=pod.metadata.__class__(
                name=pod.metadata.name, namespace=NAMESPACE, labels=dict(pod.metadata.labels)
            ),
            spec=pod.spec,
        )
    )
    ward.clock.advance(3600)
    assert (await ward.heal()).healed == ()
    assert await ward.there(heir)


async def test_what_a_reaped_pod_ran_is_asked_about(ward: Ward) -> None:
    pod, claim = await ward.claimed()
    await ward.ledger.claims.commit(claim, runner_of(pod))
    ward.at_github(claim.job_id, "queued")
    ward.row(pod, online=False)
    held = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await ward.ledger.jobs.started(
        job(claim.job_id, ACME), runner_name="another-runner", started_at=ward.clock.now() + timedelta(seconds=1)
    )
    ward.at_github(claim.job_id, "in_progress", "another-runner")
    assert await _hang(ward, pod, 20) == 1
    assert not await ward.there(pod)


async def test_a_live_kill_would_be_counted(ward: Ward) -> None:
    """The counter that must stay zero is able to count: GitHub changes its mind in the moment of the delete."""
    pod, job_id = await ward.finished()
    await ward.reports(pod, still_for=5 * MINUTE)

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE" and "/pods/" in request.url.path:
            ward.at_github(job_id, "in_progress", runner_of(pod))

    ward.wire.before = before
    await ward.heal()
    assert ward.counted("paddock_live_kills_total") == 1
    ward.start()  # a new registry: the count was the point
