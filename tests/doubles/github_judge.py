"""GitHub is the judge: what it saw of each job is held against what we counted and what our ledger says.

Every test that runs a whole world calls `judge` at its end. A job whose runner went away in mid-job was ended by us, and then
`paddock_live_kills_total` counts it, or by what the test itself did (a power cut, a Pod deleted by hand), and then the test says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from paddock.simulator.github.state import SimulatedJob

__all__ = ["JobSeen", "complaints", "counted_kills", "judge", "seen"]


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One job as GitHub saw it. `lost` says that its runner went away before it had ended."""

    id: int
    status: str
    conclusion: str | None
    starts: int
    lost: bool


def seen(jobs: Iterable[SimulatedJob]) -> list[JobSeen]:
    return [JobSeen(job.id, job.status, job.conclusion, job.starts, job.lost_since is not None) for job in jobs]


def counted_kills(exposition: str) -> float:
    """What `paddock_live_kills_total` says over all paths; it is there from the start of a process."""
    families = text_string_to_metric_families(exposition)
    found = [sample.value for each in families for sample in each.samples if sample.name == "paddock_live_kills_total"]
    assert found, "paddock_live_kills_total is not exported"
    return sum(found)


def complaints(
    jobs: Iterable[JobSeen], *, counted: float, others: int = 0, ledger: Mapping[int, str | None] | None = None
) -> list[str]:
    """Where GitHub and we disagree. `others` is how many jobs the test itself may have ended, `ledger` our conclusions by id."""
    jobs = list(jobs)
    lost = sorted(job.id for job in jobs if job.lost)
    found = [f"job {job.id} was started {job.starts} times" for job in jobs if job.starts > 1]
    if len(lost) - others > counted:
        found.append(
            f"GitHub lost the runners of {lost}, {others} at most by others, and we counted {counted:.0f} kills"
        )
    if counted > len(lost):
        found.append(f"we counted {counted:.0f} kills, and GitHub lost the runners of {lost}")
    for job in jobs:
        ours = (ledger or {}).get(job.id)
        if ours is not None and job.status == "completed" and ours != job.conclusion:
            found.append(f"job {job.id} is {job.conclusion} at GitHub and {ours} in the ledger")
    return found


def judge(
    jobs: Iterable[JobSeen], *, counted: float, others: int = 0, ledger: Mapping[int, str | None] | None = None
) -> None:
    """Fail where GitHub and we disagree."""
    found = complaints(jobs, counted=counted, others=others, ledger=ledger)
    assert not found, "; ".join(found)
