"""Jobs that end with a Mac, as they are written down in the very write that takes it. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import to_builtins

from paddock.hosts.api import EndedJob, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.disruption import FORCE, Clear

__all__ = ["GIVEN_UP_BECAUSE", "ended_jobs", "with_ended_jobs"]

GIVEN_UP_BECAUSE: Final = {
    "force": f"the annotation {FORCE} is set",
    "drain_timeout": "spec.drainTimeoutSeconds is over",
}


def ended_jobs(clear: Clear, machine: ScalewayAppleSiliconMachine, now: datetime) -> tuple[EndedJob, ...]:
    """The jobs that are given up with the machine's Mac; decided once more, they have the same keys."""
    meta = machine.metadata
    return tuple(
        EndedJob(
            key=job.uid or f"{meta.uid}/{number}",
            at=now.replace(microsecond=0),
            path=clear.path,
            why=f"machine {meta.namespace}/{meta.name} was deleted, and {GIVEN_UP_BECAUSE[clear.path]}",
            pod=job.pod,
            pod_uid=job.uid,
            account=job.account,
            machine=meta.name,
        )
        for number, job in enumerate(clear.kills)
    )


def with_ended_jobs(host: ScalewayAppleSiliconHost, ended: Sequence[EndedJob]) -> dict[str, object]:
    """The part of a patch of the Host's spec that adds these jobs to those that dispatch does not know yet; empty for none."""
    known = {job.key for job in host.spec.ended_jobs}
    added = [job for job in ended if job.key not in known]
    return {"endedJobs": to_builtins([*host.spec.ended_jobs, *added])} if added else {}
