"""How the simulated GitHub writes its things as JSON: the fields of the real API and of its webhooks."""

import base64
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from paddock.base.clock import rfc3339_micro
from paddock.simulator.github.state import (
    Attempt,
    GitHubState,
    Run,
    Sighting,
    SimulatedAccount,
    SimulatedGroup,
    SimulatedJob,
    SimulatedRepository,
    SimulatedRunner,
    Step,
)
from paddock.simulator.github.wire_places import (
    API,
    WEB,
    account_json,
    installation_json,
    node_id,
    repository_json,
    when,
)

__all__ = [
    "attempt_json",
    "credential_in",
    "encoded_jit_config",
    "event_json",
    "group_json",
    "installation_event_json",
    "job_json",
    "renamed_event_json",
    "run_json",
    "runner_json",
    "shown",
    "sighting_of",
]

_READ_ONLY = frozenset({"self-hosted", "macos", "linux", "windows", "arm64", "x64"})


def group_json(login: str, group: SimulatedGroup) -> dict[str, Any]:
    url = f"{API}/orgs/{login}/actions/runner-groups/{group.id}"
    chosen = {"selected_repositories_url": f"{url}/repositories"} if group.visibility == "selected" else {}
    return {
        "id": group.id,
        "name": group.name,
        "visibility": group.visibility,
        "default": group.default,
        "inherited": False,
        "allows_public_repositories": group.allows_public,
        "runners_url": f"{url}/runners",
        **chosen,
        "restricted_to_workflows": False,
        "selected_workflows": [],
        "workflow_restrictions_read_only": False,
    }


# Jobs


def shown(job: SimulatedJob, now: datetime) -> tuple[str, int | None, str | None]:
    """The status, runner id and runner name that a read shows, which for a while may be those of before."""
    if job.status == "in_progress" and job.flapping_until is not None and now < job.flapping_until:
        return "queued", None, None
    return job.status, job.runner_id or None, job.runner_name or None


def job_json(job: SimulatedJob, run: Run, now: datetime) -> dict[str, Any]:
    status, runner_id, runner_name = shown(job, now)
    url = f"{API}/repos/{job.repository}/actions/jobs/{job.id}"
    return {
        "id": job.id,
        "run_id": run.id,
        "workflow_name": run.workflow,
        "head_branch": run.branch,
        "run_url": f"{API}/repos/{job.repository}/actions/runs/{run.id}",
        "run_attempt": run.attempt,
        "node_id": node_id("CR", job.id),
        "head_sha": run.sha,
        "url": url,
        "html_url": f"{WEB}/{job.repository}/actions/runs/{run.id}/job/{job.id}",
        "status": status,
        "conclusion": job.conclusion,
        "created_at": when(job.created_at),
        # As with the real one, a job that has not begun shows the moment of its creation here.
        "started_at": when(job.started_at if status != "queued" and job.started_at else job.created_at),
        "completed_at": when(job.completed_at),
        "name": job.name,
        "steps": [] if status == "queued" else [step_json(step) for step in job.steps if step.started_at is not None],
        "check_run_url": f"{API}/repos/{job.repository}/check-runs/{job.id}",
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
        "started_at": when(step.started_at),
        "completed_at": when(step.completed_at),
    }


def run_json(
    run: Run, jobs: list[SimulatedJob], repository: SimulatedRepository, owner: SimulatedAccount, now: datetime
) -> dict[str, Any]:
    status, conclusion = run_status(jobs, now)
    url = f"{API}/repos/{run.repository}/actions/runs/{run.id}"
    suite = run.id + 1
    author = {"name": owner.login, "email": f"{owner.login}@example.com"}
    shown_as = repository_json(repository, owner)
    return {
        "id": run.id,
        "name": run.workflow,
        "node_id": node_id("WFR", run.id),
        "head_branch": run.branch,
        "head_sha": run.sha,
        "path": f".github/workflows/{run.workflow.lower().replace(' ', '-')}.yml",
        "run_number": run.number,
        "run_attempt": run.attempt,
        "event": "push",
        "status": status,
        "conclusion": conclusion,
        "display_title": run.workflow,
        "workflow_id": _workflow_id(run),
        "check_suite_id": suite,
        "check_suite_node_id": node_id("CS", suite),
        "pull_requests": [],
        "url": url,
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "previous_attempt_url": None,
        "workflow_url": f"{API}/repos/{run.repository}/actions/workflows/{_workflow_id(run)}",
        "check_suite_url": f"{API}/repos/{run.repository}/check-suites/{suite}",
        "html_url": f"{WEB}/{run.repository}/actions/runs/{run.id}",
        "actor": account_json(owner),
        "triggering_actor": account_json(owner),
        "referenced_workflows": [],
        "head_commit": {
            "id": run.sha,
            "tree_id": run.sha[::-1],
            "message": run.workflow,
            "timestamp": when(run.created_at),
            "author": author,
            "committer": author,
        },
        "head_repository": shown_as,
        "created_at": when(run.created_at),
        "updated_at": when(max((job.completed_at or job.started_at or job.created_at) for job in jobs)),
        "run_started_at": when(run.created_at),
        "repository": shown_as,
    }


def _workflow_id(run: Run) -> int:
    """The same for every run of a workflow."""
    return zlib.crc32(f"{run.repository}/{run.workflow}".encode()) + 1


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


def sighting_of(runner: SimulatedRunner, now: datetime, lag: float = 0.0) -> Sighting | None:
    """What lists show of the runner that are `lag` seconds late; None where it was not there."""
    then = now - timedelta(seconds=lag) if lag else now
    seen = next((each for each in reversed(runner.observations) if each.at <= then), None)
    return None if seen is None or seen.gone else seen


def runner_json(runner: SimulatedRunner, seen: Sighting) -> dict[str, Any]:
    return {
        "id": runner.id,
        "name": runner.name,
        "os": runner.os,
        "status": "online" if seen.online else "offline",
        "busy": seen.busy,
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
            "node_id": node_id("MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u", owner.installation_id),
        },
    }
    if owner.kind == "Organization":
        payload["organization"] = {
            "login": owner.login,
            "id": owner.id,
            "node_id": node_id("O", owner.id),
            "url": f"{API}/orgs/{owner.login}",
            **_organization_links(owner.login),
            "avatar_url": account_json(owner)["avatar_url"],
            "description": None,
        }
    return payload


def _organization_links(login: str) -> dict[str, str]:
    url = f"{API}/orgs/{login}"
    paths = {
        "repos_url": "repos",
        "events_url": "events",
        "hooks_url": "hooks",
        "issues_url": "issues",
        "members_url": "members{/member}",
        "public_members_url": "public_members{/member}",
    }
    return {name: f"{url}/{path}" for name, path in paths.items()}


def renamed_event_json(account: SimulatedAccount, former: str) -> dict[str, Any]:
    """The body of an `installation_target` event: the account where the App is installed has another login."""
    installation = {"id": account.installation_id, "node_id": node_id("IN", account.installation_id)}
    return {
        "action": "renamed",
        "account": account_json(account)
        | ({"description": None, **_organization_links(account.login)} if account.kind == "Organization" else {}),
        "changes": {"login": {"from": former}},
        "installation": installation,
        "sender": account_json(account),
        "target_type": account.kind,
    }


def installation_event_json(
    state: GitHubState, account: SimulatedAccount, action: str, names: Sequence[str] = ()
) -> dict[str, Any]:
    """The body of an `installation` or an `installation_repositories` event; `names` are repositories that it tells of."""
    repositories = [
        {"id": one.id, "node_id": node_id("R", one.id), "name": one.name, "full_name": one.full_name, "private": one.private}
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
