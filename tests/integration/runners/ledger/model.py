"""What the ledger promises about claims and jobs, written a second time in plain Python, without a database."""

from dataclasses import dataclass, field
from datetime import datetime

from integration.runners.ledger.rig import job

from paddock.runners.ledger import Outcome

VCPUS = 6  # every job of the model has the size of one Mac


def announced(number: int) -> datetime:
    """Since when the job waits, as `rig.job` makes it."""
    return job(number).enqueued_at


@dataclass
class ModelJob:
    account: int
    order: datetime  # since when it waits
    status: str = "queued"
    was_held: bool = False  # GitHub holds a job back once in its life: a second word of that is late or replayed
    pod: str | None = None  # the Pod whose claim it is bound to
    generation: int | None = None
    runner: str | None = None
    failures: int = 0
    resting: bool = False


@dataclass
class ModelClaim:
    generation: int
    job: int | None
    account: int
    state: str = "claimed"
    runner: str | None = None


@dataclass
class Model:
    limits: dict[int, int]  # how many Macs each account may hold
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    claims: dict[str, ModelClaim] = field(default_factory=dict)
    fences: set[str] = field(default_factory=set)
    sessions: dict[str, bool] = field(default_factory=dict)  # open or not, by Pod
    finished: set[int] = field(default_factory=set)
    turns: dict[int, int] = field(default_factory=dict)  # when each account was served last

    def held(self, account: int) -> int:
        return sum(claim.account == account for claim in self.claims.values())

    def enqueue(self, number: int, account: int, *, now: datetime, held: bool = False) -> None:
        if number not in self.jobs and number not in self.finished:
            self.jobs[number] = ModelJob(account, announced(number), "waiting" if held else "queued", was_held=held)
        elif number in self.jobs and (known := self.jobs[number]).status in ("queued", "waiting"):
            if not held:
                # What was held back waits from its approval on.
                known.order = now if known.status == "waiting" else known.order
                known.status = "queued"
            elif not known.was_held:
                known.status, known.was_held = "waiting", True

    def next_job(self) -> int | None:
        """The account with the smallest share of its limit first, then who was served longest ago, then the oldest."""
        waiting = [
            (self.held(job.account) / self.limits[job.account], self.turns.get(job.account, 0), job.order, number)
            for number, job in self.jobs.items()
            if job.status == "queued" and not job.resting and self.held(job.account) < self.limits[job.account]
        ]
        return min(waiting)[3] if waiting else None

    def verdict_on(self, pod: str) -> Outcome | None:
        if pod in self.fences:
            return Outcome.POD_FENCED
        if pod in self.claims:
            return Outcome.POD_IN_USE
        return Outcome.POD_SPENT if pod in self.sessions else None

    def claim(self, pod: str, number: int, generation: int) -> None:
        job = self.jobs[number]
        job.status, job.pod, job.generation = "claimed", pod, generation
        self.claims[pod] = ModelClaim(generation, number, job.account)
        self.turns[job.account] = max(self.turns.values(), default=0) + 1

    def commit(self, pod: str, generation: int, runner: str) -> str:
        claim = self.claims.get(pod)
        if claim is None or claim.generation != generation or (claim.state == "running" and claim.runner != runner):
            return "stale"
        if claim.state == "claimed":
            job = self.jobs.get(claim.job) if claim.job is not None else None
            if job is None or job.generation != generation or job.status != "claimed":
                return "gone"
            claim.state, claim.runner = "running", runner
            job.status, job.runner, job.failures = "running", runner, 0
        self.sessions.setdefault(pod, True)
        return "running"

    def end(self, pod: str, *, requeue: bool, failed: bool = False) -> None:
        claim = self.claims.pop(pod)
        if claim.job is not None and requeue:
            self.put_back(claim.job, claim.generation, failed=failed)

    def put_back(self, number: int, generation: int, *, failed: bool = False) -> None:
        job = self.jobs[number]
        if job.generation == generation and job.status in ("claimed", "running"):
            job.status, job.pod, job.generation, job.runner = "queued", None, None, None
            job.failures += failed
            job.resting = failed

    def runner_of(self, runner: str | None) -> str | None:
        return next((pod for pod, claim in self.claims.items() if runner and claim.runner == runner), None)

    def started(self, number: int, account: int, runner: str) -> None:
        if number in self.finished:
            return
        executor = self.runner_of(runner)
        for pod, claim in self.claims.items():
            if claim.job == number and pod != executor:
                claim.job = None
        job = self.jobs.setdefault(number, ModelJob(account, announced(number), "running", runner=runner))
        if executor is None:
            if not (job.status == "running" and job.runner == runner):
                job.status, job.pod, job.generation, job.runner = "running", None, None, runner
            job.resting = False
            return
        claim = self.claims[executor]
        if claim.job is not None and claim.job != number:
            self.put_back(claim.job, claim.generation)
        claim.job = number
        job.status, job.pod, job.generation, job.runner = "running", executor, claim.generation, runner
        job.resting = False

    def completed(self, number: int, account: int, runner: str | None) -> None:
        self.finished.add(number)
        executor = self.runner_of(runner)
        if runner:
            for pod, claim in self.claims.items():
                if claim.job == number and pod != executor and claim.state == "running":
                    claim.job = None
        job = self.jobs.setdefault(number, ModelJob(account, announced(number)))
        if job.status != "completed":
            job.status, job.runner = "completed", runner or job.runner
        if executor is not None:
            self.end(executor, requeue=True)

    def stopped(self, pod: str, *, minted: bool = True) -> None:
        if pod in self.sessions:
            self.sessions[pod] = False
        if pod in self.claims and (minted or self.claims[pod].state == "claimed"):
            self.end(pod, requeue=self.claims[pod].state == "claimed")

    def displaced(self) -> list[str]:
        return [pod for pod, claim in self.claims.items() if claim.state == "running" and claim.job is None]
