"""Jobs that run according to the ledger and according to nobody else."""

from datetime import timedelta

import pytest
from integration.runners.healing_jobs.scripted import (
    ORGANISATION,
    REPOSITORY,
    Cluster,
    runner,
    stub_github,
)
from integration.runners.ledger.rig import ACME, Bench, job

from paddock.clients.github import BudgetSpent, Conflict, Forbidden, IncompleteList, NotFound, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.orphaned_jobs import OrphanedJobs


class Scene:
    """Job 10 runs on Pod 1 according to the ledger."""

    def __init__(self, bench: Bench, **settings) -> None:
        self.bench = bench
        self.github = stub_github()
        self.cluster = Cluster("uid-1", "uid-other")
        self.worker = OrphanedJobs(bench.ledger, self.github, self.cluster, HealingSettings(**settings), bench.clock)

    async def set(self, *numbers: int) -> "Scene":
        await self.bench.accounts(ACME, vcpus=6000, memory_mb=50_000_000)
        for number in numbers or (1,):
            await self.bench.queue(job(number + 9, age=100 - number))
            await self.bench.running(number)
            self.cluster.alive.add(f"uid-{number}")
        return self

    async def kinds(self) -> list[str]:
        return [heal.kind for heal in (await self.worker.heal()).healed]

    async def stop(self, number: int = 1) -> None:
        self.cluster.alive.discard(f"uid-{number}")
        await self.bench.ledger.recovery.pod_stopped(
            f"uid-{number}", self.bench.clock.now(), by="controller", why="stopped"
        )


async def test_a_runner_that_never_registered_gives_its_job_back_after_the_deadline(bench: Bench):
    """JIT taken, never registered: the deadline has passed, the complete list has no such runner online."""
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    bench.clock.advance(301)
    report = await scene.worker.heal()
    (heal,) = report.healed
    assert (heal.kind, heal.evidence["github_runner"], heal.evidence["pool"]) == ("orphan_requeued", "absent", "mac-m4")
    assert heal.seconds == 301
    assert await bench.status(10) == "queued"
    assert await bench.ledger.claims.all() == []
    assert await scene.kinds() == []


@pytest.mark.parametrize("online", [True, False])
async def test_a_runner_that_is_online_keeps_its_job_and_an_offline_one_does_not(bench: Bench, online: bool):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    scene.github.places[ORGANISATION] = [runner(1, online=online)]
    bench.clock.advance(301)
    assert await scene.kinds() == ([] if online else ["orphan_requeued"])
    assert scene.github.removed == ([] if online else [1]), "it may come back: unregistered before its job is another's"


async def test_a_runner_that_comes_back_with_a_job_in_the_last_moment_keeps_its_slot(bench: Bench):
    """GitHub refuses to unregister it: it was offline when it was listed, and has been given a job since."""
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    scene.github.places[ORGANISATION] = [runner(1, online=False)]
    scene.github.refusals[1] = Conflict("Runner is running a job", status=422)
    bench.clock.advance(301)
    assert await scene.kinds() == []
    assert (await bench.status(10), len(await bench.ledger.claims.all())) == ("running", 1)


@pytest.mark.parametrize("online", [True, False])
async def test_a_job_that_github_holds_back_leaves_its_runner_and_waits_outside_of_the_line(bench: Bench, online: bool):
    """Its `queued` came before the approval: the runner was handed out for a job that nobody can have."""
    scene = await Scene(bench).set()
    scene.github.says(10, "waiting")
    scene.github.places[ORGANISATION] = [runner(1, online=online)]
    bench.clock.advance(301)
    assert await scene.kinds() == ["orphan_requeued"]
    assert (await bench.status(10), scene.github.removed) == ("waiting", [1])
    assert await bench.ledger.claims.all() == []


@pytest.mark.parametrize(
    "error", [IncompleteList("a page short"), Unavailable("timeout"), NotFound("gone", status=404)]
)
async def test_a_list_of_runners_that_cannot_be_read_proves_nothing(bench: Bench, error: Exception):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    scene.github.places = {ORGANISATION: error}  # type: ignore[dict-item]
    bench.clock.advance(3600)
    assert await scene.kinds() == []
    assert await bench.status(10) == "running"


async def test_runners_of_a_person_are_looked_for_at_the_repository(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    scene.github.places = {f"repos/{REPOSITORY}": [runner(1, online=False)]}
    bench.clock.advance(301)
    assert await scene.kinds() == ["orphan_requeued"]


async def test_what_github_has_in_progress_is_left_alone_and_believed_for_a_while(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "in_progress", runner_name="runner-1-mint")
    bench.clock.advance(3600)
    assert await scene.kinds() == []
    bench.clock.advance(60)
    assert await scene.kinds() == []
    assert scene.github.asked("job") == 1
    bench.clock.advance(300)
    assert await scene.kinds() == []
    assert scene.github.asked("job") == 2


async def test_a_job_that_is_over_at_github_is_settled_and_its_claim_ends(bench: Bench):
    """The `completed` webhook was lost."""
    scene = await Scene(bench).set()
    scene.github.says(10, "completed", conclusion="failure", runner_name="runner-1-mint")
    bench.clock.advance(301)
    assert await scene.kinds() == ["orphan_completed"]
    found = await bench.ledger.jobs.get(10)
    assert found is not None
    assert (found.status, found.conclusion) == ("completed", "failure")
    assert await bench.ledger.claims.all() == []


async def test_a_404_of_a_repository_that_answers_must_repeat_for_minutes(bench: Bench):
    scene = await Scene(bench).set()
    bench.clock.advance(301)
    for _ in range(5):
        assert await scene.kinds() == []
        bench.clock.advance(60)
    report = await scene.worker.heal()
    assert [(heal.kind, heal.evidence["repository_answers"]) for heal in report.healed] == [("orphan_completed", True)]
    assert await bench.status(10) == "completed"


async def test_a_404_of_a_repository_that_does_not_answer_must_repeat_for_an_hour(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.waiting = {}
    bench.clock.advance(301)
    for _ in range(12):
        report = await scene.worker.heal()
        assert report.healed == ()
        assert any("does not show" in sentence for sentence in report.refused)
        bench.clock.advance(300)
    assert await scene.kinds() == ["orphan_completed"]


async def test_an_answer_between_two_404s_starts_the_count_again(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.waiting = {}
    bench.clock.advance(301)
    assert await scene.kinds() == []
    bench.clock.advance(280)
    scene.github.says(10, "in_progress")
    assert await scene.kinds() == []
    del scene.github.jobs[10]
    bench.clock.advance(300)
    assert await scene.kinds() == []


@pytest.mark.parametrize("error", [Unavailable("502", status=502), Forbidden("suspended", status=403)])
async def test_an_error_of_github_changes_nothing(bench: Bench, error: Exception):
    scene = await Scene(bench).set()
    scene.github.jobs[10] = error  # type: ignore[assignment]
    await scene.stop()
    bench.clock.advance(3600)
    report = await scene.worker.heal()
    assert (report.healed, len(report.failed)) == ((), 1)
    assert await bench.status(10) == "running"


async def test_a_spent_budget_is_a_refusal_said_once_and_the_next_pass_heals(bench: Bench):
    scene = await Scene(bench).set(1, 2)
    for number in (10, 11):
        scene.github.jobs[number] = BudgetSpent("budget spent", retry_after=60)
    bench.clock.advance(301)
    report = await scene.worker.heal()
    assert (report.healed, report.failed, len(report.refused)) == ((), (), 1)
    assert scene.github.asked("job") == 1  # the rest of the installation is not even asked about
    for number in (10, 11):
        scene.github.says(number, "queued")
    assert await scene.kinds() == ["orphan_requeued", "orphan_requeued"]


async def test_a_young_job_whose_pod_is_gone_is_put_back_and_one_whose_pod_is_there_is_not_asked_about(bench: Bench):
    scene = await Scene(bench).set(1, 2)
    scene.github.says(10, "queued")
    scene.github.says(11, "queued")
    scene.cluster.alive.discard("uid-1")
    bench.clock.advance(30)
    assert await scene.kinds() == ["orphan_requeued"]
    assert (await bench.status(10), await bench.status(11)) == ("queued", "running")
    assert ("job", 11) not in scene.github.calls


async def test_an_old_job_whose_runner_executes_is_kept_until_its_pod_is_gone(bench: Bench):
    """Aged and gone beats the guard for executing runners; aged alone does not."""
    scene = await Scene(bench).set()
    await bench.started(job(10), 1)
    scene.github.says(10, "queued")
    bench.clock.advance(3600)
    assert await scene.kinds() == []
    assert scene.github.asked("runners") == 0
    scene.cluster.alive.discard("uid-1")
    assert await scene.kinds() == ["orphan_requeued"]


@pytest.mark.parametrize("trouble", ["error", "empty", "most gone"])
async def test_a_list_of_pods_that_is_no_evidence_widens_nothing(bench: Bench, trouble: str):
    scene = await Scene(bench).set(*range(1, 13))
    for number in range(10, 22):
        scene.github.says(number, "queued")
    if trouble == "error":
        scene.cluster.error = TimeoutError("the API server does not answer")
    elif trouble == "empty":
        scene.cluster.alive.clear()
    else:
        scene.cluster.alive = {"uid-1", "uid-other"}
    bench.clock.advance(60)
    report = await scene.worker.heal()
    assert (report.healed, len(report.refused)) == ((), 1)
    assert scene.github.calls == []


async def test_an_empty_list_of_pods_is_not_believed_about_a_single_pod_either(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    scene.cluster.alive.clear()
    bench.clock.advance(60)
    report = await scene.worker.heal()
    assert (report.healed, len(report.refused), scene.github.calls) == ((), 1, [])


async def test_pods_are_not_listed_when_nothing_runs(bench: Bench):
    scene = Scene(bench)
    assert (await scene.worker.heal()).looked == 0
    assert scene.cluster.reads == 0


async def test_a_job_of_no_pod_of_ours_never_counts_as_one_whose_pod_is_gone(bench: Bench):
    scene = Scene(bench)
    await bench.accounts(ACME)
    await bench.ledger.jobs.started(job(10), runner_name="somebody-elses", started_at=bench.clock.now())
    scene.github.says(10, "queued")
    bench.clock.advance(60)
    assert await scene.kinds() == []
    assert scene.github.calls == []


async def test_a_stopped_pod_has_its_job_asked_about_at_once_without_the_floor(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    bench.clock.advance(5)
    await scene.stop()
    report = await scene.worker.check([10], "uid-1")
    assert [heal.kind for heal in report.healed] == ["orphan_requeued"]
    assert scene.cluster.reads == 0
    assert await bench.status(10) == "queued"
    assert (await scene.worker.check([10], "uid-1")).healed == ()


async def test_a_stopped_pods_claim_that_was_left_behind_ends_with_the_requeue(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    report = await scene.worker.check([10], "uid-1")  # the stop report died before it let the claim go
    assert [heal.kind for heal in report.healed] == ["orphan_requeued"]
    assert await bench.ledger.claims.all() == []


@pytest.mark.parametrize("status", ["in_progress", "completed"])
async def test_the_check_of_a_stopped_pod_still_believes_github(bench: Bench, status: str):
    scene = await Scene(bench).set()
    scene.github.says(10, status, conclusion="success" if status == "completed" else None)
    await scene.stop()
    report = await scene.worker.check([10], "uid-1")
    assert [heal.kind for heal in report.healed] == (["orphan_completed"] if status == "completed" else [])
    assert await bench.status(10) == ("completed" if status == "completed" else "running")


async def test_a_check_that_comes_late_leaves_the_pod_that_took_the_job_over_alone(bench: Bench):
    """The job was put back and taken by Pod 2; GitHub says queued, for Pod 2 is still registering."""
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    await scene.stop()
    await scene.worker.check([10], "uid-1")
    fresh = await bench.running(2)
    assert fresh.job_id == 10
    report = await scene.worker.check([10], "uid-1")
    assert (report.healed, len(report.refused)) == ((), 1)
    (held,) = await bench.ledger.claims.all()
    assert (held.generation, await bench.status(10)) == (fresh.generation, "running")


async def test_a_job_that_moved_on_while_github_was_asked_is_left_alone(bench: Bench):
    scene = await Scene(bench).set()
    await scene.stop()
    before = await bench.ledger.jobs.get(10)
    assert before is not None
    assert await bench.ledger.unconfirmed.put_back(before, heard=None, by="test", why="somebody was quicker")
    fresh = await bench.running(2)
    assert not await bench.ledger.unconfirmed.put_back(before, heard=None, by="test", why="old news")
    (held,) = await bench.ledger.claims.all()
    assert held.generation == fresh.generation
    await bench.completed(job(10), 2)
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    assert not await bench.ledger.unconfirmed.put_back(row, heard=None, by="test", why="finished jobs stay finished")


async def test_a_runner_heard_to_execute_after_github_was_asked_keeps_its_job(bench: Bench):
    scene = await Scene(bench).set()
    before = await bench.ledger.jobs.get(10)
    assert before is not None
    bench.clock.advance(301)
    await bench.started(job(10), 1)
    assert not await bench.ledger.unconfirmed.put_back(before, heard=None, by="test", why="read before it was heard")
    assert await bench.status(10) == "running"
    assert scene.github.calls == []


async def test_a_finished_job_is_never_queued_again_by_a_late_announcement(bench: Bench):
    """The announcement comes again after a settlement of ours."""
    scene = await Scene(bench).set()
    scene.github.says(10, "completed", conclusion="success")
    bench.clock.advance(301)
    assert await scene.kinds() == ["orphan_completed"]
    await bench.queue(job(10))
    assert await bench.status(10) == "completed"


async def test_the_cap_the_report_only_mode_and_one_bad_job(bench: Bench):
    scene = await Scene(bench, cap=2).set(1, 2, 3, 4)
    for number in (10, 11, 12):
        scene.github.says(number, "queued")
    scene.github.jobs[13] = Unavailable("reset")
    bench.clock.advance(301)
    watching = OrphanedJobs(
        bench.ledger,
        scene.github,
        scene.cluster,
        HealingSettings(report_only=frozenset({"orphan_requeued"})),
        bench.clock,
    )
    assert len((await watching.heal()).reported) == 3
    report = await scene.worker.heal()
    assert (len(report.healed), report.deferred, len(report.failed)) == (2, 1, 1)


async def test_a_heal_says_who_was_asked_and_what_each_ledger_said(bench: Bench):
    scene = await Scene(bench).set()
    scene.github.says(10, "queued")
    bench.clock.advance(100)
    await scene.stop()
    bench.clock.advance(20)
    (heal,) = (await scene.worker.heal()).healed
    assert heal.seconds == 20  # stranded since the Pod stopped
    assert heal.evidence["kubernetes"] == "ended"
    assert heal.evidence["claim"] == "none"
    assert heal.evidence["github"] == "queued"
    line = (await bench.ledger.transitions.of_job(10))[-1]
    assert (line.by, line.became) == ("healing/orphans", "queued")
    assert timedelta(0) == bench.clock.now() - line.at
