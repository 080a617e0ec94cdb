"""Incidents of claims and jobs that the system that Paddock follows had to learn from, one sentence each."""

from datetime import timedelta

from integration.runners.healing_jobs.scripted import (
    ORGANISATION,
    REPOSITORY,
    Cluster,
    attempt,
    runner,
    stub_github,
)
from integration.runners.ledger.rig import ACME, POOL, START, Bench, job, pod

from paddock.clients.github import GitHubJob, Unavailable
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.queued_jobs import LongQueued, UnheardJobs
from paddock.runners.healing.redelivery import Redelivery
from paddock.runners.ledger import Moved, Outcome

SETTINGS = HealingSettings()


class Story:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.github = stub_github()
        self.cluster = Cluster("uid-other")
        ledger, clock = bench.ledger, bench.clock
        self.claims = LeftClaims(ledger, self.github, SETTINGS, clock)
        self.orphans = OrphanedJobs(ledger, self.github, self.cluster, SETTINGS, clock)
        self.queued = LongQueued(ledger, self.github, SETTINGS, clock)
        self.redelivery = Redelivery(ledger, {"app": self.github}, SETTINGS, clock)

    async def runs(self, *numbers: int) -> None:
        for number in numbers:
            await self.bench.queue(job(9 + number, age=100 - number))
            await self.bench.running(number)
            self.cluster.alive.add(f"uid-{number}")

    async def minutes(self, count: float) -> list[str]:
        """All workers, once a minute; gives the kinds that healed."""
        healed: list[str] = []
        for _ in range(int(count)):
            self.bench.clock.advance(60)
            for worker in (self.claims, self.orphans, self.queued, self.redelivery):
                healed += [heal.kind for heal in (await worker.heal()).healed]
        return healed


async def _story(bench: Bench, vcpus: int = 600) -> Story:
    await bench.accounts(ACME, vcpus=vcpus, memory_mb=5_000_000)
    return Story(bench)


async def test_rows_that_said_running_for_ever_are_settled_or_served_within_six_minutes(bench: Bench):
    """The word of GitHub that a job ended was lost, and nobody asked again."""
    story = await _story(bench)
    await story.runs(1, 2, 3)
    story.github.says(10, "completed", conclusion="success", runner_name="runner-1-mint")
    story.github.says(11, "queued")
    story.github.says(12, "in_progress", runner_name="runner-3-mint")
    assert sorted(await story.minutes(6)) == ["orphan_completed", "orphan_requeued"]
    assert [await bench.status(number) for number in (10, 11, 12)] == ["completed", "queued", "running"]


async def test_a_sigterm_between_claim_and_mint_costs_a_job_less_than_a_minute(bench: Bench):
    """The dispatcher's silence is the proof, not five minutes of waiting."""
    story = await _story(bench)
    await bench.queue(job(10))
    process = await bench.ledger.dispatchers.register("dispatch-a")
    await bench.ledger.claims.claim(POOL, pod(1), dispatcher=process)
    assert await story.minutes(1) == ["stale_claim"]
    assert (await bench.claimed(2)).job_id == 10


async def test_an_answer_that_never_reached_its_pod_strands_its_job_for_minutes_and_not_for_ever(bench: Bench):
    """Leak matrix: crash after the commit and before the 200; the Pod waits on and is never registered."""
    story = await _story(bench)
    await story.runs(1)
    story.github.says(10, "queued")
    assert (await bench.claim(1)).outcome is Outcome.POD_IN_USE
    assert await story.minutes(6) == ["orphan_requeued"]
    assert (await bench.claim(1)).outcome is Outcome.POD_SPENT  # the Pod itself never serves a second tenant
    assert (await bench.claimed(2)).job_id == 10


async def test_a_runner_that_died_before_it_registered_is_replaced_as_soon_as_its_pod_is_known_to_have_stopped(
    bench: Bench,
):
    """It used to wait for the five-minute floor although the stop was known."""
    story = await _story(bench)
    await story.runs(1)
    story.github.says(10, "queued")
    bench.clock.advance(20)
    stopped = await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="stopped")
    report = await story.orphans.check([one.job_id for one in stopped.unsettled], "uid-1")
    assert [heal.kind for heal in report.healed] == ["orphan_requeued"]
    assert (await bench.claimed(2)).job_id == 10


async def test_the_quick_way_also_works_when_jobs_were_shuffled_between_runners(bench: Bench):
    """Keyed on the claim it did nothing, because GitHub had given each runner the other's job."""
    story = await _story(bench)
    await story.runs(1, 2)
    await bench.started(job(11), 1)  # runner 1 was minted for 10, which waits again and goes to runner 3
    await bench.running(3)
    stopped = await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="stopped")
    assert [one.job_id for one in stopped.unsettled] == [11]
    story.github.says(11, "queued")
    report = await story.orphans.check([11], "uid-1")
    assert [heal.kind for heal in report.healed] == ["orphan_requeued"]
    assert await bench.status(10) == "running"


async def test_a_lost_stop_report_is_made_up_for_by_the_list_of_pods(bench: Bench):
    story = await _story(bench)
    await story.runs(1, 2)
    story.github.says(10, "queued")
    story.github.says(11, "queued")
    story.github.places[ORGANISATION] = [
        runner(2, online=True)
    ]  # it came, so that only its Pod's end could cost it the job
    story.cluster.alive.discard("uid-1")
    assert await story.minutes(2) == ["orphan_requeued"]
    assert await bench.status(11) == "running"


async def test_a_job_that_a_sibling_runs_never_stays_queued_here(bench: Bench):
    """`in_progress` was lost, and the job was served a second time, for nothing."""
    story = await _story(bench)
    await bench.queue(job(10, age=601))
    story.github.says(10, "in_progress", runner_name="another-of-ours", started_at=START)
    assert await story.minutes(1) == ["queued_started"]
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_a_runner_that_waits_online_keeps_the_job_it_was_minted_for(bench: Bench):
    """Freeing it because it had not started yet gave one job to two runners."""
    story = await _story(bench)
    await story.runs(1)
    story.github.says(10, "queued")
    story.github.places[ORGANISATION] = [runner(1, online=True)]
    assert await story.minutes(60) == []
    story.github.places[ORGANISATION] = [runner(1, online=False)]  # its watchdog ended it
    assert await story.minutes(6) == ["orphan_requeued"]


async def test_an_account_with_nine_idle_macs_gets_its_slots_back(bench: Bench):
    """Claims held past the end of their jobs left one slot; 60 vCPUs are ten Macs here."""
    story = await _story(bench, vcpus=60)
    await story.runs(*range(1, 11))
    for number in range(1, 10):
        await bench.completed(job(9 + number), conclusion="cancelled")
    story.github.says(19, "in_progress", runner_name="runner-10-mint")
    await bench.queue(job(50))
    assert (await bench.claim("x")).outcome is not Outcome.CLAIMED
    assert await story.minutes(5) == ["completed_claim"] * 9
    assert (await bench.claimed("x")).job_id == 50


async def test_an_outage_of_ours_longer_than_the_window_loses_no_announcement(bench: Bench):
    """What GitHub could not deliver for an hour is asked for again, oldest first."""
    story = await _story(bench)
    await bench.ledger.deliveries.store("before", "workflow_job", b"{}")
    bench.clock.advance(3600)
    story.github.attempts = [attempt(n, f"guid-{n}", 502, ago=-60.0 * n) for n in range(1, 60)]
    assert await story.minutes(1) == ["redelivered"] * 25
    assert story.github.redelivered == list(range(1, 26))
    assert await story.minutes(2) == ["redelivered"] * 34


async def test_a_redelivery_hours_later_is_known_as_a_repeat(bench: Bench):
    """A window of five minutes for repeats was shorter than the time after which GitHub delivers again."""
    story = await _story(bench)
    assert await bench.ledger.deliveries.store("a", "workflow_job", b"{}")
    story.github.attempts = [attempt(1, "a", 504, ago=0)]
    for _ in range(3):
        bench.clock.advance(3600)
        assert await story.minutes(1) == []
    assert not await bench.ledger.deliveries.store("a", "workflow_job", b"{}")


async def test_an_announcement_that_github_never_tried_to_deliver_is_found_by_asking(bench: Bench):
    """No entry in the delivery log, so that redelivery cannot help."""
    story = await _story(bench)
    await bench.queue(job(10))
    story.github.waiting[REPOSITORY] = [GitHubJob(job_id=20, status="queued", created_at=START)]

    async def announce(installation_id: int, repository: str, found: GitHubJob) -> bool:
        return await bench.ledger.jobs.enqueue(job(found.job_id, repository=repository)) is Moved.QUEUED

    worker = UnheardJobs(bench.ledger, story.github, announce, SETTINGS, bench.clock)
    bench.clock.advance(61)
    assert [heal.kind for heal in (await worker.heal()).healed] == ["queued_found"]
    assert await bench.status(20) == "queued"


async def test_an_hour_without_github_changes_nothing_and_the_first_answer_heals(bench: Bench):
    story = await _story(bench)
    await story.runs(1, 2)
    await bench.queue(job(30, age=700))
    for number in (10, 11, 30):
        story.github.jobs[number] = Unavailable("503", status=503)
    story.github.attempts = Unavailable("503", status=503)
    before = await bench.ledger.claims.all()
    assert await story.minutes(60) == []
    assert await bench.ledger.claims.all() == before
    story.github.attempts = []
    for number in (10, 11, 30):
        story.github.says(number, "completed", conclusion="success")
    healed = await story.minutes(1)
    assert sorted(healed) == ["orphan_completed", "orphan_completed", "queued_completed"]


async def test_a_build_that_runs_for_five_days_is_left_alone(bench: Bench):
    """The longest that GitHub allows: no age of anything frees a runner at work."""
    story = await _story(bench)
    await story.runs(1)
    await bench.started(job(10), 1)
    story.github.says(10, "in_progress", runner_name="runner-1-mint")
    for _ in range(20):
        bench.clock.advance(timedelta(hours=6).total_seconds())
        assert await story.minutes(1) == []
    assert len(await bench.ledger.claims.all()) == 1
