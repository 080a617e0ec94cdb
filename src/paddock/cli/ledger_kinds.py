"""What the ledger keeps, as lists: jobs, claims, accounts, what was healed and what was killed. Rows are the service's JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from paddock.cli.connections import Problem, Reached
from paddock.cli.kind import Kind
from paddock.cli.output import Column

__all__ = ["LEDGER_KINDS", "Row", "ago", "field", "jobs", "moment", "rows"]

Row = dict[str, Any]
_MOST = 1000
_RECENT = 50


async def rows(reached: Reached, path: str, seconds: float | None = None) -> Any:
    """What is listed at that path; Problem where the service is too old to have it. `seconds` for what may take longer."""
    found = await reached.ledger.get(path, seconds)
    if found is None:
        raise Problem(
            f"the dispatch service at {reached.ledger.where} does not list {path.partition('?')[0]}: update it"
        )
    return found


def moment(text: str | None) -> datetime | None:
    """A moment of the service's JSON."""
    from paddock.base.clock import parse_rfc3339

    return parse_rfc3339(text) if text else None


async def jobs(reached: Reached, _: str = "") -> list[Row]:
    """What waits, in the order in which it waits; what runs; and what ended last."""
    waiting, running, recent = await asyncio.gather(
        rows(reached, f"queue?limit={_MOST}"),
        rows(reached, f"running?limit={_MOST}"),
        rows(reached, f"recent?limit={_RECENT}"),
    )
    shown = [
        *({**job, "state": "waiting", "since": job["enqueued_at"]} for job in waiting),
        *({**job, "state": "running", "since": job["executing_since"] or job["started_at"]} for job in running),
        *({**job, "state": job["conclusion"], "since": job["completed_at"]} for job in recent),
    ]
    # The three answers are of three moments: a job that moved on between them is shown where it was seen last.
    return list({job["job_id"]: job for job in shown}.values())


def _listing(path: str) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    async def read(reached: Reached, _: str) -> Sequence[Row]:
        return await rows(reached, path)

    return read


def ago(name: str, now: datetime) -> Callable[[Row], str]:
    """How long ago that was."""
    from paddock.base.explanation import span

    def cell(row: Row) -> str:
        at = moment(row.get(name))
        return span(now - at) if at is not None else ""

    return cell


def field(name: str) -> Callable[[Row], object]:
    """What the row has under that name."""
    return lambda row: row.get(name)


def _job_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("JOB", field("job_id")),
        Column("STATE", field("state")),
        Column("FOR", ago("since", now), ticking=True),
        Column("REPOSITORY", field("repository")),
        Column("NAME", lambda job: job.get("job_name") or job.get("workflow_name")),
        Column("POOL", field("pool")),
        Column("POD", lambda job: job.get("pod_name") or job.get("runner_name")),
        Column("WAITS BECAUSE", lambda job: str(job.get("reason", "")).replace("_", " ")),
        Column("ACCOUNT", field("login"), wide=True),
        Column("WORKFLOW", field("workflow_name"), wide=True),
        Column("WHY", field("why"), wide=True),
    )


def _claim_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("POD", field("pod_name")),
        Column("STATE", field("state")),
        Column("FOR", ago("claimed_at", now), ticking=True),
        Column("JOB", field("job_id")),
        Column("POOL", field("pool")),
        Column("RUNNER", field("runner_name")),
        Column("EXECUTES", lambda claim: claim.get("executing_since") is not None),
        Column("MISSING", ago("missing_since", now), ticking=True),
        Column("VCPU", field("vcpus"), wide=True),
        Column("MEMORY MB", field("memory_mb"), wide=True),
        Column("GENERATION", field("generation"), wide=True),
        Column("WHY", lambda claim: f"{claim.get('by')}: {claim.get('why')}", wide=True),
    )


def _account_columns(_: datetime) -> Sequence[Column[Row]]:
    return (
        Column("ACCOUNT", field("login")),
        Column("PLATFORM", field("platform")),
        Column("VCPU", lambda one: f"{one['used_vcpus']} of {one['limit_vcpus']}"),
        Column("MEMORY GB", lambda one: f"{one['used_memory_mb'] / 1024:g} of {one['limit_memory_mb'] / 1024:g}"),
        Column("HOLDS", field("claims")),
        Column("QUEUED", field("queued")),
        Column("MAY RUN JOBS", lambda one: one.get("listed") or "not on the list"),
        Column("ID", field("account_id"), wide=True),
        Column("INSTALLATION", field("installation_id"), wide=True),
    )


def _kill_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("AGO", ago("at", now), ticking=True),
        Column("PATH", field("path")),
        Column("POD", field("pod_name")),
        Column("JOB", field("job_id")),
        Column("ACCOUNT", field("account")),
        Column("MACHINE", field("machine")),
        Column("WHY", field("why"), wide=True),
    )


def _heal_columns(now: datetime) -> Sequence[Column[Row]]:
    from paddock.base.explanation import span

    def lasted(heal: Row) -> str:
        from datetime import timedelta

        return span(timedelta(seconds=heal["seconds"])) if heal.get("seconds") else ""

    return (
        Column("ID", field("id")),
        Column("AGO", ago("at", now), ticking=True),
        Column("KIND", field("kind")),
        Column("SUBJECT", field("subject")),
        Column("DONE", lambda heal: heal.get("done_at") is not None),
        Column("LASTED", lasted),
        Column("WHAT", field("sentence")),
        Column("JOB", field("job_id"), wide=True),
        Column("EVIDENCE", lambda heal: ", ".join(f"{k}={v}" for k, v in heal["evidence"].items()), wide=True),
    )


def _same(row: Row) -> Row:
    return row


def _account_title(account: Row) -> str:
    return f"{account['login']}/{account['platform']}"


LEDGER_KINDS: tuple[Kind, ...] = (
    Kind("jobs", ("job",), jobs, _job_columns, lambda job: str(job["job_id"]), _same, labelled=False, called="Job"),
    Kind(
        "claims",
        ("claim",),
        _listing("claims"),
        _claim_columns,
        lambda one: one["pod_name"],
        _same,
        labelled=False,
        called="Claim",
    ),
    Kind(
        "accounts",
        ("account",),
        _listing("accounts"),
        _account_columns,
        _account_title,
        _same,
        labelled=False,
        called="Account",
    ),
    Kind(
        "heals",
        ("heal",),
        _listing("heals"),
        _heal_columns,
        lambda heal: str(heal["id"]),
        _same,
        labelled=False,
        called="Heal",
    ),
    Kind(
        "kills",
        ("kill",),
        _listing("kills"),
        _kill_columns,
        lambda kill: kill["kill_key"],
        _same,
        labelled=False,
        called="Kill",
    ),
)
