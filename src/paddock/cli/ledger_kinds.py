"""What the ledger keeps, as lists: jobs, claims, accounts and what was healed. Rows are the service's JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from paddock.cli.connections import Problem, Reached
from paddock.cli.kind import Kind
from paddock.cli.output import Column

__all__ = ["ENDED_BY", "ENDED_JOBS", "LEDGER_KINDS", "Row", "ended_jobs", "jobs", "moment", "rows"]

Row = dict[str, Any]
_MOST = 1000
_RECENT = 50


async def rows(reached: Reached, path: str) -> list[Row]:
    """The list at that path; Problem where the service is too old to have it."""
    found = await reached.ledger.get(path)
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


async def ended_jobs(reached: Reached, _: str = "") -> list[Row]:
    """What ended last, with what it took: how long it waited and ran, how long it had its Mac, and what that cost."""
    from paddock.hosts.api import ScalewayAppleSiliconHost
    from paddock.runners.api import RunnerPool

    recent, hosts, pools = await asyncio.gather(
        rows(reached, f"recent?limit={_MOST}"),
        reached.client.list(ScalewayAppleSiliconHost),
        reached.client.list(RunnerPool),
    )
    prices = [price for host in hosts.items if (price := _price(host.status.price_per_hour))]
    an_hour = sum(prices) / len(prices) if prices else None
    shares = {pool.metadata.name: pool.share_of_mac for pool in pools.items}
    return [
        {
            **job,
            "mac_minutes": _minutes(job.get("pod_seconds")),
            "euros": _euros(job.get("pod_seconds"), an_hour, shares.get(job.get("pool", ""), 0.5)),
        }
        for job in recent
    ]


def _summed(field: str) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    """What the jobs that ended last come to, by account or by repository; who took most comes first."""

    async def read(reached: Reached, _: str) -> Sequence[Row]:
        sums: dict[str, Row] = {}
        for job in await ended_jobs(reached):
            name = str(job.get(field) or "")
            one = sums.setdefault(
                name, {"name": name, "jobs": 0, "succeeded": 0, "mac_minutes": 0.0, "euros": None, "since": None}
            )
            one["jobs"] += 1
            one["succeeded"] += job.get("conclusion") == "success"
            one["mac_minutes"] = round(one["mac_minutes"] + (job["mac_minutes"] or 0.0), 1)
            if job["euros"] is not None:
                one["euros"] = round((one["euros"] or 0.0) + job["euros"], 4)
            one["since"] = min(filter(None, (one["since"], job.get("completed_at"))), default=None)
        return sorted(sums.values(), key=lambda one: (-one["mac_minutes"], one["name"]))

    return read


def _price(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds / 60, 1)


def _euros(seconds: float | None, an_hour: float | None, share: float) -> float | None:
    """The job's share of a Mac, at the mean price of the fleet's Macs."""
    return None if seconds is None or an_hour is None or not share else round(seconds / 3600 * an_hour * share, 4)


def _listing(path: str) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    async def read(reached: Reached, _: str) -> Sequence[Row]:
        return await rows(reached, path)

    return read


def _for(field: str, now: datetime) -> Callable[[Row], str]:
    """How long ago that was."""
    from paddock.base.explanation import span

    def cell(row: Row) -> str:
        at = moment(row.get(field))
        return span(now - at) if at is not None else ""

    return cell


def _field(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _job_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("JOB", _field("job_id")),
        Column("STATE", _field("state")),
        Column("FOR", _for("since", now), ticking=True),
        Column("REPOSITORY", _field("repository")),
        Column("NAME", lambda job: job.get("job_name") or job.get("workflow_name")),
        Column("POOL", _field("pool")),
        Column("POD", lambda job: job.get("pod_name") or job.get("runner_name")),
        Column("WAITS BECAUSE", lambda job: str(job.get("reason", "")).replace("_", " ")),
        Column("ACCOUNT", _field("login"), wide=True),
        Column("WORKFLOW", _field("workflow_name"), wide=True),
        Column("WHY", _field("why"), wide=True),
    )


def _ended_columns(now: datetime) -> Sequence[Column[Row]]:
    from datetime import timedelta

    from paddock.base.explanation import span

    def lasted(field: str) -> Callable[[Row], str]:
        return lambda job: "" if job.get(field) is None else span(timedelta(seconds=job[field]))

    return (
        Column("JOB", _field("job_id")),
        Column("RESULT", _field("conclusion")),
        Column("AGO", _for("completed_at", now), ticking=True),
        Column("REPOSITORY", _field("repository")),
        Column("NAME", lambda job: job.get("job_name") or job.get("workflow_name")),
        Column("POOL", _field("pool")),
        Column("WAITED", lasted("waited_seconds")),
        Column("RAN", lasted("ran_seconds")),
        Column("MAC MIN", _field("mac_minutes")),
        Column("EUROS", lambda job: "" if job.get("euros") is None else f"{job['euros']:.3f}"),
        Column("ACCOUNT", _field("login"), wide=True),
        Column("STARTED", _field("started_at"), wide=True),
        Column("POD", lambda job: job.get("pod_name") or job.get("runner_name"), wide=True),
    )


ENDED_JOBS = Kind(
    "jobs", ("job",), ended_jobs, _ended_columns, lambda job: str(job["job_id"]), lambda row: row, labelled=False
)


def _sum_columns(title: str) -> Callable[[datetime], Sequence[Column[Row]]]:
    return lambda now: (
        Column(title, _field("name")),
        Column("JOBS", _field("jobs")),
        Column("SUCCEEDED", _field("succeeded")),
        Column("MAC MIN", _field("mac_minutes")),
        Column("EUROS", lambda one: "" if one["euros"] is None else f"{one['euros']:.2f}"),
        Column("SINCE", _for("since", now), ticking=True),
    )


def _sums(name: str, field: str, title: str) -> Kind:
    return Kind(
        name, (), _summed(field), _sum_columns(title), lambda one: str(one["name"]), lambda row: row, labelled=False
    )


ENDED_BY: dict[str, Kind] = {
    "account": _sums("accounts with jobs that ended", "login", "ACCOUNT"),
    "repository": _sums("repositories with jobs that ended", "repository", "REPOSITORY"),
}
"""Sums over the jobs that ended last, at most a thousand; SINCE is when the oldest of them ended."""


def _claim_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("POD", _field("pod_name")),
        Column("STATE", _field("state")),
        Column("FOR", _for("claimed_at", now), ticking=True),
        Column("JOB", _field("job_id")),
        Column("POOL", _field("pool")),
        Column("RUNNER", _field("runner_name")),
        Column("EXECUTES", lambda claim: claim.get("executing_since") is not None),
        Column("MISSING", _for("missing_since", now), ticking=True),
        Column("VCPU", _field("vcpus"), wide=True),
        Column("MEMORY MB", _field("memory_mb"), wide=True),
        Column("GENERATION", _field("generation"), wide=True),
        Column("WHY", lambda claim: f"{claim.get('by')}: {claim.get('why')}", wide=True),
    )


def _account_columns(_: datetime) -> Sequence[Column[Row]]:
    return (
        Column("ACCOUNT", _field("login")),
        Column("PLATFORM", _field("platform")),
        Column("VCPU", lambda one: f"{one['used_vcpus']} of {one['limit_vcpus']}"),
        Column("MEMORY GB", lambda one: f"{one['used_memory_mb'] / 1024:g} of {one['limit_memory_mb'] / 1024:g}"),
        Column("HOLDS", _field("claims")),
        Column("QUEUED", _field("queued")),
        Column("MAY RUN JOBS", lambda one: one.get("listed") or "not on the list"),
        Column("ID", _field("account_id"), wide=True),
        Column("INSTALLATION", _field("installation_id"), wide=True),
    )


def _heal_columns(now: datetime) -> Sequence[Column[Row]]:
    from paddock.base.explanation import span

    def lasted(heal: Row) -> str:
        from datetime import timedelta

        return span(timedelta(seconds=heal["seconds"])) if heal.get("seconds") else ""

    return (
        Column("ID", _field("id")),
        Column("AGO", _for("at", now), ticking=True),
        Column("KIND", _field("kind")),
        Column("SUBJECT", _field("subject")),
        Column("DONE", lambda heal: heal.get("done_at") is not None),
        Column("LASTED", lasted),
        Column("WHAT", _field("sentence")),
        Column("JOB", _field("job_id"), wide=True),
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
)
