"""How the simulated GitHub writes its things as JSON: the fields of the real API and of its webhooks."""

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from paddock.base.clock import rfc3339, rfc3339_micro
from paddock.simulator.github.state import (
    Attempt,
    GitHubState,
    Run,
    SimulatedAccount,
    SimulatedGroup,
    SimulatedJob,
    SimulatedRepository,
    SimulatedRunner,
    Step,
)

__all__ = [
    "account_json",
    "attempt_json",
    "credential_in",
    "encoded_jit_config",
    "event_json",
    "group_json",
    "installation_event_json",
    "installation_json",
    "job_json",
    "repository_json",
    "run_json",
    "runner_json",
    "shown",
]

_API = "https://api.github.com"
_WEB = "https://github.com"
_READ_ONLY = frozenset({"self-hosted", "macos", "linux", "windows", "arm64", "x64"})


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def _node_id(kind: str, number: int) -> str:
    return f"{kind}_{base64.urlsafe_b64encode(str(number).encode()).decode().rstrip('=')}"


def account_json(account: SimulatedAccount) -> dict[str, Any]:
    return {
        "login": account.login,
        "id": account.id,
        "node_id": _node_id("O" if account.kind == "Organization" else "U", account.id),
        "avatar_url": "",
        "url": f"{_API}/users/{account.login}",
        "html_url": f"{_WEB}/{account.login}",
        "type": account.kind,
        "site_admin": False,
    }


def repository_json(repository: SimulatedRepository, owner: SimulatedAccount) -> dict[str, Any]:
    return {
        "id": repository.id,
        "node_id": _node_id("R", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": account_json(owner),
        "html_url": f"{_WEB}/{repository.full_name}",
        "url": f"{_API}/repos/{repository.full_name}",
        "fork": False,
        "default_branch": "main",
        "visibility": "private" if repository.private else "public",
    }


def group_json(group: SimulatedGroup) -> dict[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "visibility": group.visibility,
        "default": group.default,
        "inherited": False,
        "allows_public_repositories": group.allows_public,
    }


def installation_json(state: GitHubState, account: SimulatedAccount) -> dict[str, Any]:
    return {
        "id": account.installation_id,
        "account": account_json(account),
        "app_id": state.app_id,
        "app_slug": "paddock",
        "target_id": account.id,
        "target_type": account.kind,
        "repository_selection": "all",
        "permissions": account.permissions,
        "events": ["workflow_job"],
        "suspended_at": _moment(account.suspended_at),
        "suspended_by": None,
    }


# Jobs


def shown(job: SimulatedJob, now: datetime) -> tuple[str, int | None, str | None]:
    """The status, runner id and runner name that a read shows, which for a while may be those of before."""
    if job.status == "in_progress" and job.flapping_until is not None and now < job.flapping_until:
        return "queued", None, None
    return job.status, job.runner_id or None, job.runner_name or None


def job_json(job: SimulatedJob, run: Run, now: datetime) -> dict[str, Any]:
    status, runner_id, runner_name = shown(job, now)
    url = f"{_API}/repos/{job.repository}/actions/jobs/{job.id}"
    return {
        "id": job.id,
        "run_id": run.id,
        "workflow_name": run.workflow,
        "head_branch": run.branch,
        "run_url": f"{_API}/repos/{job.repository}/actions/runs/{run.id}",
        "run_attempt": run.attempt,
        "node_id": _node_id("CR", job.id),
        "head_sha": run.sha,
        "url": url,
        "html_url": f"{_WEB}/{job.repository}/actions/runs/{run.id}/job/{job.id}",
        "status": status,
        "conclusion": job.conclusion,
        "created_at": _moment(job.created_at),
        # As with the real one, a job that has not begun shows the moment of its creation here.
        "started_at": _moment(job.started_at if status != "queued" and job.started_at else job.created_at),
        "completed_at": _moment(job.completed_at),
        "name": job.name,
        "steps": [] if status == "queued" else [step_json(step) for step in job.steps if step.started_at is not None],
        "check_run_url": f"{_API}/repos/{job.repository}/check-runs/{job.id}",
        "labels": job.labels,
        "runner_id": runner_id,
        "runner_name": runner_name,
        "runner_group_id": None if runner_id is None else 1,
        "runner_group_name": None if runner_id is None else "Default",
    }


def step_json(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "status": "completed" if step.completed_at is not None else "in_progress",
        "conclusion": step.conclusion,
        "number": step.number,
        "started_at": _moment(step.started_at),
        "completed_at": _moment(step.completed_at),
    }


def run_json(
    run: Run, jobs: list[SimulatedJob], repository: SimulatedRepository, owner: SimulatedAccount, now: datetime
) -> dict[str, Any]:
    status, conclusion = run_status(jobs, now)
    return {
        "id": run.id,
        "name": run.workflow,
        "node_id": _node_id("WFR", run.id),
        "head_branch": run.branch,
        "head_sha": run.sha,
        "path": f".github/workflows/{run.workflow.lower().replace(' ', '-')}.yml",
        "run_number": run.number,
        "run_attempt": run.attempt,
        "event": "push",
        "status": status,
        "conclusion": conclusion,
        "url": f"{_API}/repos/{run.repository}/actions/runs/{run.id}",
        "jobs_url": f"{_API}/repos/{run.repository}/actions/runs/{run.id}/jobs",
        "html_url": f"{_WEB}/{run.repository}/actions/runs/{run.id}",
        "created_at": _moment(run.created_at),
        "updated_at": _moment(max((job.completed_at or job.started_at or job.created_at) for job in jobs)),
        "run_started_at": _moment(run.created_at),
        "repository": repository_json(repository, owner),
    }


def run_status(jobs: list[SimulatedJob], now: datetime) -> tuple[str, str | None]:
    """A run is in progress as soon as one of its jobs has begun, even while others still wait for a runner."""
    statuses = {shown(job, now)[0] for job in jobs}
    if statuses == {"completed"}:
        conclusions = {job.conclusion for job in jobs}
        for worst in ("failure", "timed_out", "cancelled"):
            if worst in conclusions:
                return "completed", worst
        return "completed", "success"
    if statuses & {"in_progress", "completed"}:
        return "in_progress", None
    return ("queued" if "queued" in statuses else "waiting"), None


# Runners


def runner_json(runner: SimulatedRunner, now: datetime, lag: float = 0.0) -> dict[str, Any] | None:
    """The runner as it was `lag` seconds ago; None where it was not there."""
    seen = [sighting for sighting in runner.observations if sighting.at <= now - timedelta(seconds=lag)]
    if not seen or seen[-1].gone:
        return None
    return {
        "id": runner.id,
        "name": runner.name,
        "os": runner.os,
        "status": "online" if seen[-1].online else "offline",
        "busy": seen[-1].busy,
        "ephemeral": True,
        "runner_group_id": runner.group_id,
        "labels": [
            {"id": number, "name": label, "type": "read-only" if label.lower() in _READ_ONLY else "custom"}
            for number, label in enumerate(runner.labels, 1)
        ],
    }


def encoded_jit_config(runner: SimulatedRunner) -> str:
    """What the runner program is started with: settings and a credential, in the nesting of the real one."""
    settings = {"AgentId": str(runner.id), "AgentName": runner.name, "PoolId": "1", "Ephemeral": "True"}
    credentials = {"Scheme": "OAuth", "Data": {"ClientId": runner.credential}}
    return _packed({".runner": _packed(settings), ".credentials": _packed(credentials)})


def credential_in(encoded: str) -> str:
    """The credential inside a JIT config; raises ValueError for anything else."""
    try:
        return str(_unpacked(_unpacked(encoded)[".credentials"])["Data"]["ClientId"])
    except (KeyError, TypeError, msgspec.DecodeError) as error:
        raise ValueError("this is no JIT config") from error


def _packed(value: dict[str, Any]) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()


def _unpacked(text: str) -> dict[str, Any]:
    return msgspec.json.decode(base64.b64decode(text, validate=True), type=dict[str, Any])


# Webhooks


def event_json(state: GitHubState, job: SimulatedJob, action: str, now: datetime) -> dict[str, Any]:
    """The payload of a `workflow_job` event."""
    repository = state.repositories[job.repository.lower()]
    owner = state.accounts[repository.owner.lower()]
    payload: dict[str, Any] = {
        "action": action,
        "workflow_job": job_json(job, state.runs[job.run_id], now),
        "repository": repository_json(repository, owner),
        "sender": account_json(owner),
        "installation": {
            "id": owner.installation_id,
            "node_id": _node_id("MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u", owner.installation_id),
        },
    }
    if owner.kind == "Organization":
        payload["organization"] = {
            "login": owner.login,
            "id": owner.id,
            "node_id": _node_id("O", owner.id),
            "url": f"{_API}/orgs/{owner.login}",
        }
    return payload


def installation_event_json(
    state: GitHubState, account: SimulatedAccount, action: str, names: Sequence[str] = ()
) -> dict[str, Any]:
    """The body of an `installation` or an `installation_repositories` event; `names` are repositories that it tells of."""
    repositories = [
        {"id": one.id, "node_id": _node_id("R", one.id), "name": one.name, "full_name": one.full_name, "private": one.private}
        for one in state.repositories.values()
        if one.owner == account.login and (not names or one.full_name in names)
    ]  # fmt: skip
    body: dict[str, Any] = {
        "action": action,
        "installation": installation_json(state, account),
        "sender": account_json(account),
    }
    if action in ("added", "removed"):
        other = "removed" if action == "added" else "added"
        return body | {
            "repository_selection": "selected",
            f"repositories_{action}": repositories,
            f"repositories_{other}": [],
            "requester": None,
        }
    return body | {"repositories": repositories, "requester": None}


def attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "guid": attempt.guid,
        "delivered_at": rfc3339_micro(attempt.delivered_at),
        "redelivery": attempt.redelivery,
        "duration": round(attempt.duration, 2),
        "status": attempt.status,
        "status_code": attempt.status_code,
        "event": attempt.event,
        "action": attempt.action,
        "installation_id": attempt.installation_id,
        "repository_id": attempt.repository_id,
        "throttled_at": None,
    }
