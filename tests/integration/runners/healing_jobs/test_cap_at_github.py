"""An account never has more runners than its limit allows, at any moment, judged by GitHub's own view.

Random histories against the simulated GitHub: jobs that are cancelled, held back and swapped between runners, brokers that
are away for minutes while the API answers, runners that never register, Pods that end and Pods that vanish, lost events.
Healing runs all the while. Two Macs are what the account may have; at the end everything it holds is work.
"""

import random
from dataclasses import dataclass

import httpx2
import pytest
from doubles.clocks import StandingClock
from integration.runners.healing_jobs.scripted import Cluster
from integration.runners.ledger.rig import Bench, pod
from integration.runners.webhooks.rig import MAC, Dispatcher

from paddock.clients.github import GitHubClient
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.queued_jobs import LongQueued, UnheardJobs
from paddock.runners.webhooks.reconciled import enqueue_from_github
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.sessions import RunnerGoneError, RunnerRefusedError, RunnerSession

LABELS = ["self-hosted", MAC.spec.dispatch_label]
CAP = 2


class OneClock:
    """Both times are the wall's, which is told to move: budgets are counted by the other one, and would never be new."""

    def __init__(self, wall: StandingClock) -> None:
        self._wall = wall
        self.now, self.sleep = wall.now, wall.sleep

    def monotonic(self) -> float:
        return self._wall.now().timestamp()


@dataclass
class Runner:
    number: int
    config: str
    session: RunnerSession | None = None
    job: bool = False
    cut: bool = False


class History:
    def __init__(self, bench: Bench, github: SimulatedGitHub, client: GitHubClient, rng: random.Random) -> None:
        self.bench, self.github, self.client, self.rng = bench, github, client, rng
        self.dispatcher = Dispatcher(bench)
        self.cluster = Cluster("uid-always")
        self.runners: list[Runner] = []
        self.numbers = iter(range(1, 10_000))
        self.mail: list[bytes] = []
        settings = HealingSettings()
        announce = enqueue_from_github(bench.ledger, lambda: self.dispatcher.pools, bench.clock)
        self.orphans = OrphanedJobs(bench.ledger, client, self.cluster, settings, bench.clock)
        self.workers = (
            LeftClaims(bench.ledger, client, settings, bench.clock),
            self.orphans,
            LongQueued(bench.ledger, client, settings, bench.clock),
            UnheardJobs(bench.ledger, client, announce, settings, bench.clock),
        )
        github.deliver_to("http://paddock.test/", httpx2.MockTransport(self._arrives))

    def _arrives(self, request: httpx2.Request) -> httpx2.Response:
        self.mail.append(request.content)
        return httpx2.Response(202)

    async def hear(self, lost: float = 0.15) -> None:
        self.bench.clock.advance(1)
        await self.github.deliver_due()
        mail, self.mail = self.mail, []
        kept = [body for body in mail if self.rng.random() >= lost]
        if kept:
            await self.dispatcher.deliver(*kept)

    def check(self) -> None:
        seen = [one.name for one in self.github.runners() if one.online or one.busy]
        assert len(seen) <= CAP, f"GitHub sees {seen}"

    # What may happen

    async def submit(self) -> None:
        self.github.submit("org1/app", labels=LABELS, waiting=self.rng.random() < 0.2)

    async def approve(self) -> None:
        for one in [job for job in self.github.state.jobs.values() if job.status == "waiting"][:1]:
            self.github.approve(one.id)

    async def cancel(self) -> None:
        for one in [job for job in self.github.state.jobs.values() if job.status == "queued"][:1]:
            self.github.cancel(one.id)

    async def dispatch(self) -> None:
        number = next(self.numbers)
        claim = await self.bench.claim(number)
        if not claim.won:
            return
        minted = await self.client.mint(
            1001, claim.repository, name=f"{pod(number).name}-mint", labels=LABELS, work_folder="_work"
        )
        await self.bench.ledger.claims.commit(claim, minted.name)
        self.cluster.alive.add(pod(number).uid)
        self.runners.append(Runner(number, minted.config.reveal()))

    async def register(self) -> None:
        for one in [each for each in self.runners if each.session is None]:
            try:
                one.session = self.github.connect(one.config)
            except RunnerRefusedError:
                await self.end(one)
            return

    async def take(self) -> None:
        for one in [each for each in self.runners if each.session is not None and not each.job and not each.cut]:
            assert one.session is not None
            try:
                one.job = await one.session.next_job(0) is not None
            except RunnerGoneError:
                await self.end(one)

    async def finish(self) -> None:
        for one in [each for each in self.runners if each.job and each.session is not None][:1]:
            assert one.session is not None
            one.session.finish()
            await self.end(one)

    async def cut(self) -> None:
        for one in [each for each in self.runners if each.session is not None and not each.job and not each.cut][:1]:
            assert one.session is not None
            one.session.cut_off()
            one.cut = True

    async def reach(self) -> None:
        for one in [each for each in self.runners if each.cut]:
            assert one.session is not None
            one.cut = False
            if not one.session.reach_again():
                await self.end(one)

    async def vanish(self) -> None:
        """The Pod is gone, and its VM lives on."""
        for one in self.runners[:1]:
            uid = pod(one.number).uid
            self.cluster.alive.discard(uid)
            stopped = await self.bench.ledger.recovery.pod_stopped(
                uid, self.bench.clock.now(), by="test", why="vanished", minted=False
            )
            await self.orphans.check([job.job_id for job in stopped.unsettled], uid)

    async def end(self, one: Runner) -> None:
        """The process is over, and its Pod with it."""
        if one.session is not None:
            one.session.disconnect()
        self.runners.remove(one)
        uid = pod(one.number).uid
        self.cluster.alive.discard(uid)
        self.cluster.ended.add(uid)
        stopped = await self.bench.ledger.recovery.pod_stopped(uid, self.bench.clock.now(), by="test", why="ended")
        await self.orphans.check([job.job_id for job in stopped.unsettled], uid)

    async def pass_time(self) -> None:
        self.bench.clock.advance(self.rng.choice([5, 20, 60, 240]))

    async def heal(self) -> None:
        for worker in self.workers:
            report = await worker.heal()
            assert report.failed == ()
            self.check()


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 40))])
async def test_the_cap_holds_at_github_at_every_moment(bench: Bench, seed: int):
    rng = random.Random(seed)
    github = SimulatedGitHub(bench.clock, rng, audit=False)
    github.behaviour.queued_before_approval = 0.5
    account = github.add_organization("org1", "app")
    account.id, account.installation_id = 1, 1001
    await bench.accounts(1, vcpus=CAP * 6, memory_mb=CAP * 14_336)
    async with GitHubClient(github.settings(), OneClock(bench.clock), rng, github.transport()) as client:
        history = History(bench, github, client, rng)
        steps = [
            *[history.submit] * 3, history.approve, history.cancel, *[history.dispatch] * 4, *[history.register] * 3,
            *[history.take] * 3, *[history.finish] * 2, history.cut, history.reach, history.vanish,
            *[history.pass_time] * 4, *[history.heal] * 3,
        ]  # fmt: skip
        for _ in range(120):
            await rng.choice(steps)()
            history.check()
            await history.hear()
            history.check()
        # Left to itself, healing frees every slot that no work holds, and each job that is left gets its turn.
        for _ in range(200):
            for step in (history.approve, history.reach, history.dispatch):
                await step()
            for _ in list(history.runners):  # all of them, before their time to register is over
                await history.register()
            for _ in range(5):  # an offer is open for a short while only
                bench.clock.advance(2)
                await history.take()
            while any(each.job for each in history.runners):
                await history.finish()
            bench.clock.advance(60)
            await history.heal()
            await history.hear(lost=0.0)
            over = all(job.status == "completed" for job in github.state.jobs.values())
            if over and not history.runners and not await bench.ledger.claims.all():
                break
        left = [job for job in github.state.jobs.values() if job.status != "completed"]
        assert left == [], [(job.status, await bench.status(job.id)) for job in left]
        assert [(claim.pod_name, claim.job_id) for claim in await bench.ledger.claims.all()] == []
        await github.aclose()
