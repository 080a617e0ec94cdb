"""`paddock get jobs --ended`: jobs that ended, and what they come to by account or repository, with their cost.

Dispatch counts, and says what it cost (`runners/http/job_costs.py`), the page's jobs as well: here it is printed.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
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
        return [{**job, **_cost(job)} for job in await rows(reached, path, _SECONDS)]

    return read


def _sums(by: str, choice: Choice) -> Callable[[Reached, str], Awaitable[Sequence[Row]]]:
    async def read(reached: Reached, _: str) -> Sequence[Row]:
        answer = await rows(reached, f"ended?by={by}&{choice.query}", _SECONDS)
        _say_how_far(answer, choice)
        internal = ("mac_pod_seconds", "mac_pod_price")
        shown: list[Row] = [
            {**{name: value for name, value in one.items() if name not in internal}, **_cost(one)}
            for one in answer["sums"]
        ]
        return sorted(shown, key=lambda one: (-(one["mac_minutes"] or 0.0), -one["jobs"], one["name"]))

    return read


def _cost(one: Row) -> Row:
    """A dispatch of a release before says nothing of it."""
    seconds = one.get("mac_seconds")
    return {"mac_minutes": None if seconds is None else round(seconds / 60, 1), "euros": one.get("euros")}


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
    if unpriced := sum(one.get("unpriced", 0) for one in answer["sums"]):
        told = f"of {unpriced} jobs the price of their Mac was not recorded: they are in MAC MIN and not in EUROS"
        say(f"paddock: {told}", err=True)
    if answer.get("left_off"):
        told = f"only the {len(answer['sums'])} with most of the Macs' time are listed: --account or --repository names one"
        say(f"paddock: {told}", err=True)


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
