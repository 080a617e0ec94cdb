"""`paddock get jobs --ended`: jobs that ended, and what they come to by account or repository, with their cost.

The ledger counts; the shares of a Mac and the prices are the cluster's. A job on a Mac costs its share of it, one of two
places unless its pool shares no Mac, at the mean price of the fleet's Macs, for as long as its Pod was its account's. A job on
Linux has no Mac, and no price that is known here.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import click

from paddock.cli.connections import Reached
from paddock.cli.kind import Kind
from paddock.cli.ledger_kinds import Row, ago, field, moment, rows
from paddock.cli.output import Column, say

__all__ = ["Choice", "Span", "ended_kind"]

_MOST = 1000
_SECONDS = 30.0
"""The ledger gives up sooner, after 20 s in all, and says so."""
_DAY = timedelta(days=1)
_LONGEST = timedelta(days=3650)
_SHORTEST = timedelta(minutes=1)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_UNKNOWN_POOL = 0.5
"""A pool that is gone is taken for one of two on a Mac."""


class Span(click.ParamType):
    """`24h`, `7d`: how far back."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"(\d{1,9})([smhd])", str(value))
        span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found and int(found[1]) < 10**8 else None
        if span is None or not _SHORTEST <= span <= _LONGEST:
            self.fail(
                f"{value!r} is no time to look back: write 90m, 24h or 7d, from 1m to {_LONGEST.days}d", param, ctx
            )
        return span


@dataclass(frozen=True, slots=True)
class Choice:
    """Which jobs: without any of these, the last thousand that ended."""

    since: timedelta | None = None
    account: str = ""
    repository: str = ""

    @property
    def query(self) -> str:
        """For the service, a day back unless told otherwise."""
        said = {
            "window": int((self.since or _DAY).total_seconds()),
            "account": self.account,
            "repository": self.repository,
        }
        return urlencode({name: value for name, value in said.items() if value})

    def __str__(self) -> str:
        from paddock.base.explanation import span

        whose = [f"of account {self.account}"] if self.account else []
        whose += [f"of repository {self.repository}"] if self.repository else []
        return " ".join((*whose, f"in the last {span(self.since or _DAY)}"))


def ended_kind(by: str | None, choice: Choice) -> Kind:
    """What is listed: jobs, or sums over them."""
    plain: Callable[[Row], Row] = lambda row: row  # noqa: E731 - the field of a Kind
    if by is None:
        name = "jobs" if choice == Choice() else f"jobs that ended {choice}"
        return Kind(name, ("job",), _jobs(choice), _job_columns, lambda job: str(job["job_id"]), plain, labelled=False)
    what = {"account": "accounts", "repository": "repositories"}[by]
    columns = _sum_columns(by.upper())
    return Kind(
        f"{what} with jobs that ended {choice}", (by,), _sums(by, choice), columns, lambda one: one["name"], plain, labelled=False
    )  # fmt: skip


def _jobs(choice: Choice) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    async def read(reached: Reached, _: str) -> Sequence[Row]:
        path = f"recent?limit={_MOST}" if choice == Choice() else f"ended/jobs?limit={_MOST}&{choice.query}"
        ended, cost = await asyncio.gather(rows(reached, path, _SECONDS), _costs(reached))
        shown: list[Row] = []
        for job in ended:
            seconds = job.get("pod_seconds")
            of_mac = (
                None if seconds is None else cost.mac_seconds(job.get("pool", ""), seconds, job.get("platform", ""))
            )
            shown.append({**job, "mac_minutes": _minutes(of_mac), "euros": cost.euros(of_mac)})
        return shown

    return read


def _sums(by: str, choice: Choice) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    async def read(reached: Reached, _: str) -> Sequence[Row]:
        answer, cost = await asyncio.gather(rows(reached, f"ended?by={by}&{choice.query}", _SECONDS), _costs(reached))
        _say_how_far(answer, choice)
        shown: list[Row] = []
        for one in answer["sums"]:
            held: Mapping[str, float] = one.pop("mac_pod_seconds")
            of_macs = [part for pool, seconds in held.items() if (part := cost.mac_seconds(pool, seconds, "macos"))]
            whole = sum(of_macs) if of_macs else None
            shown.append({**one, "mac_minutes": _minutes(whole), "euros": cost.euros(whole)})
        return sorted(shown, key=lambda one: (-(one["mac_minutes"] or 0.0), -one["jobs"], one["name"]))

    return read


def _say_how_far(answer: Row, choice: Choice) -> None:
    """On standard error, where the sums reach less far back, or tell of fewer names, than was asked for: a script reads the rest."""
    from paddock.base.clock import SystemClock
    from paddock.base.explanation import utc

    counted, kept = moment(answer["counted_since"]), moment(answer.get("kept_since"))
    asked = SystemClock().now() - (choice.since or _DAY)
    if counted is not None and counted > asked + _SHORTEST:
        told = f"so many jobs ended that only those since {utc(counted)} are counted: take a shorter --since"
        say(f"paddock: {told}", err=True)
    elif kept is not None and kept > asked + _SHORTEST:
        told = f"the oldest job that the ledger keeps ended at {utc(kept)}; `--keep-jobs-days` of dispatch says how long it keeps them"
        say(f"paddock: {told}", err=True)
    if answer.get("left_off"):
        told = f"only the {len(answer['sums'])} with most of the Macs' time are listed: --account or --repository names one"
        say(f"paddock: {told}", err=True)


@dataclass(frozen=True, slots=True)
class _Costs:
    """Which share of a Mac a job of each pool has, and what a Mac costs an hour, where that is known."""

    shares: Mapping[str, float]
    an_hour: float | None

    def mac_seconds(self, pool: str, seconds: float, platform: str) -> float | None:
        """The share of a Mac, in seconds of a whole one; None where there was no Mac."""
        share = 0.0 if platform == "linux" else self.shares.get(pool, _UNKNOWN_POOL)
        return seconds * share if share else None

    def euros(self, mac_seconds: float | None) -> float | None:
        if mac_seconds is None or self.an_hour is None:
            return None
        return round(mac_seconds / 3600 * self.an_hour, 4)


async def _costs(reached: Reached) -> _Costs:
    from paddock.hosts.api import ScalewayAppleSiliconHost
    from paddock.runners.api import RunnerPool

    hosts, pools = await asyncio.gather(reached.client.list(ScalewayAppleSiliconHost), reached.client.list(RunnerPool))
    prices = [price for host in hosts.items if (price := _price(host.status.price_per_hour))]
    return _Costs(
        {pool.metadata.name: pool.share_of_mac for pool in pools.items}, sum(prices) / len(prices) if prices else None
    )


def _price(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds / 60, 1)


def _lasted(name: str) -> Callable[[Row], str]:
    from paddock.base.explanation import span

    return lambda row: "" if row.get(name) is None else span(timedelta(seconds=row[name]))


def _job_columns(now: datetime) -> Sequence[Column[Row]]:
    return (
        Column("JOB", field("job_id")),
        Column("RESULT", field("conclusion")),
        Column("AGO", ago("completed_at", now), ticking=True),
        Column("REPOSITORY", field("repository")),
        Column("NAME", lambda job: job.get("job_name") or job.get("workflow_name")),
        Column("POOL", field("pool")),
        Column("WAITED", _lasted("waited_seconds")),
        Column("RAN", _lasted("ran_seconds")),
        Column("MAC MIN", field("mac_minutes")),
        Column("EUROS", lambda job: "" if job.get("euros") is None else f"{job['euros']:.3f}"),
        Column("ACCOUNT", field("login"), wide=True),
        Column("STARTED", field("started_at"), wide=True),
        Column("POD", lambda job: job.get("pod_name") or job.get("runner_name"), wide=True),
    )


def _counted(*results: str) -> Callable[[Row], int]:
    return lambda one: sum(one["results"].get(result, 0) for result in results)


def _sum_columns(title: str) -> Callable[[datetime], Sequence[Column[Row]]]:
    told = ("success", "failure", "timed_out", "cancelled")
    return lambda now: (
        Column(title, field("name")),
        Column("JOBS", field("jobs")),
        Column("SUCCEEDED", _counted("success")),
        Column("FAILED", _counted("failure", "timed_out")),
        Column("CANCELLED", _counted("cancelled")),
        Column("WAITED P50", _lasted("waited_p50")),
        Column("P95", _lasted("waited_p95")),
        Column("RAN P50", _lasted("ran_p50")),
        Column("P95", _lasted("ran_p95")),
        Column("MAC MIN", field("mac_minutes")),
        Column("EUROS", lambda one: "" if one["euros"] is None else f"{one['euros']:.2f}"),
        Column("OTHER RESULTS", lambda one: one["jobs"] - _counted(*told)(one), wide=True),
        Column("SINCE", ago("since", now), ticking=True, wide=True),
    )
