"""What is kept of a Pod before it is deleted: what each ledger said, how its containers stood, its last lines."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.kube.builtin import ContainerStatus, Pod
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.runners.api import RUNNER
from paddock.runners.healing.observations import PodObservation
from paddock.runners.healing.verdicts.pod import Reap

__all__ = ["gather", "last_lines", "printed", "redacted"]

_LINES: Final = 40
_BYTES: Final = 8192
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_\-]{40,}")
"""Tokens, keys and JIT configs are long unbroken runs; so are hashes, which are not missed here."""


async def gather(client: Client, seen: PodObservation, verdict: Reap) -> dict[str, Any]:
    """Everything worth knowing about the Pod, as JSON. Never fails: what cannot be read is left out."""
    return {
        "proof": [[ledger.value, fact] for ledger, fact in verdict.proof],
        "pod_uid": seen.uid,
        "job_id": seen.job_id,
        "kubernetes": _kubernetes(seen.pod),
        "postgres": _postgres(seen),
        "github": _github(seen),
        "runner": _said_itself(seen),
        "last_lines": await last_lines(client, seen.pod),
    }


async def last_lines(client: Client, pod: Pod) -> list[str]:
    """The end of the runner's log, where the API serves logs; nothing where it does not. Long runs are blotted out."""
    try:
        return await printed(client, pod)
    except KubeError:
        return []


async def printed(client: Client, pod: Pod, *, timeout: float = 5.0) -> list[str]:
    """The same; KubeError where the API does not serve it."""
    meta = pod.metadata
    path = f"{Pod.RESOURCE.path(meta.namespace)}/{meta.name}/log"
    params = {"container": RUNNER, "tailLines": str(_LINES), "limitBytes": str(_BYTES)}
    body = await client.connection.request("GET", path, params=params, timeout=timeout)
    return [redacted(line) for line in body[-_BYTES:].decode("utf-8", "replace").splitlines()[-_LINES:]]


def redacted(line: str) -> str:
    return _LONG_RUN.sub("***", line)[:500]


def _kubernetes(pod: Pod) -> Mapping[str, Any]:
    status = pod.status
    return {
        "phase": status.phase,
        "reason": status.reason,
        "message": redacted(status.message),
        "node": pod.spec.node_name,
        "created_at": _at(pod.metadata.creation_timestamp),
        "resource_version": pod.metadata.resource_version,
        "labels": dict(pod.metadata.labels),
        "containers": [_container(each) for each in (*status.init_container_statuses, *status.container_statuses)],
    }


def _container(status: ContainerStatus) -> Mapping[str, Any]:
    state = status.state
    if (over := state.terminated or status.last_state.terminated) is not None:
        return {
            "name": status.name,
            "state": "terminated",
            "exit_code": over.exit_code,
            "reason": over.reason,
            "message": redacted(over.message),
            "finished_at": _at(over.finished_at),
        }
    if state.running is not None:
        return {"name": status.name, "state": "running", "started_at": _at(state.running.started_at)}
    waiting = state.waiting
    return {"name": status.name, "state": "waiting", "reason": "" if waiting is None else waiting.reason}


def _postgres(seen: PodObservation) -> Mapping[str, Any]:
    claim, session, completion = seen.claim, seen.session, seen.completion
    return {
        "claim": None if claim is None else {"state": claim.state, "generation": claim.generation, "why": claim.why},
        "claim_ended_at": _at(seen.facts.unclaimed_since),
        "session": None
        if session is None
        else {
            "runner_name": session.runner_name,
            "started_at": _at(session.started_at),
            "ended_at": _at(session.ended_at),
            "job_id": session.job_id,
            "executed_job_id": session.executed_job_id,
        },
        "completion": None
        if completion is None
        else {"conclusion": completion.conclusion, "runner_name": completion.runner_name},
    }


def _github(seen: PodObservation) -> Mapping[str, Any]:
    job, runner = seen.github_job, seen.github_runner
    return {
        "job": None
        if job is None
        else {
            "status": job.status,
            "conclusion": job.conclusion,
            "runner_name": job.runner_name,
            "completed_at": _at(job.completed_at),
            "steps_done": job.steps_done,
        },
        "runner": seen.facts.runner_row.value if runner is None else {"online": runner.online, "busy": runner.busy},
        "unseen_since": _at(seen.facts.unseen_since),
    }


def _said_itself(seen: PodObservation) -> Mapping[str, Any]:
    mark = seen.mark
    if mark is None:
        return {}
    return {"mark": mark.mark, "changed_at": _at(mark.changed_at), "seen_at": _at(mark.seen_at)}


def _at(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)
