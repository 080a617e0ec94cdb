"""`paddock rewind WHEN`: what was open at a moment of the past, and what was written down around it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.exit_codes import FAILED
from paddock.cli.ledger_kinds import Row, moment
from paddock.cli.output import as_json, as_yaml, say, table
from paddock.cli.progress import showing

__all__ = ["command", "when"]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SHOWN_JOBS = 40
_SHOWN_LINES = 40


def when(text: str, now: datetime) -> datetime:
    """`20m` (ago), `03:12` (the last time it was that late), or a date and time; UTC unless it says otherwise."""
    if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    if clock := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", text):
        hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3] or 0)
        if hour < 24 and minute < 60 and second < 60:
            today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
            return today if today <= now else today - timedelta(days=1)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is no moment: write 20m, 03:12, 2026-11-15T03:12 or 2026-11-15T03:12:00+01:00"
        ) from None
    at = at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    if at > now:
        raise click.UsageError(f"{text} lies ahead: the log knows only what was")
    return at


@click.command("rewind")
@click.argument("moment_", metavar="WHEN")
@click.option(
    "--around", default=120, show_default=True, type=click.IntRange(0, 3600), help="Seconds of log around it."
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@reach_flags
def command(moment_: str, around: int, output: str, reach: Reach) -> None:
    """Show which jobs waited and ran at WHEN, why, what became of them, and what happened around that moment.

    WHEN is `20m` (ago), `03:12`, or `2026-11-15T03:12`; in UTC unless it says otherwise. It reads the ledger's log, which is
    never rewritten; hosts and machines are not in it.
    """
    from paddock.base.clock import SystemClock

    now = SystemClock().now()
    run(_rewind(when(moment_, now), around, output, reach))


async def _rewind(at: datetime, around: int, output: str, reach: Reach) -> int:
    from paddock.base.clock import rfc3339

    async with connected(reach) as reached, showing("reading the log"):
        found = await reached.ledger.get(f"at/{rfc3339(at)}?around={around}")
    if found is None:
        raise Problem(f"the dispatch service at {reached.ledger.where} cannot rewind: update it")
    match output:
        case "json":
            say(as_json(found))
        case "yaml":
            say(as_yaml(found))
        case _:
            say("\n".join(_drawn(found)))
    return 0 if found["known"] else FAILED


def _drawn(found: Row) -> list[str]:
    """The sentence, then pools, jobs, Pods being retired and the log, each only where there is something."""
    then = found["then"]
    lines = [found["sentence"]]
    if then["pools"]:
        rows = [[one["pool"], *(str(one[key]) for key in ("queued", "claimed", "running"))] for one in then["pools"]]
        lines += ["", table([["POOL", "WAITED", "CLAIMED", "RAN"], *rows])]
    if jobs := then["jobs"]:
        rows = [_job_row(job) for job in jobs[:_SHOWN_JOBS]]
        lines += ["", table([["JOB", "STATE", "SINCE", "REPOSITORY", "NAME", "POOL", "BECAME"], *rows])]
        lines += [f"and {len(jobs) - _SHOWN_JOBS} more: -o json has them"] if len(jobs) > _SHOWN_JOBS else []
    for fence in then["fences"]:
        lines.append(f"Pod {fence['pod_name'] or fence['pod_uid']} was being retired: {fence['why']}")
    if log := then["lines"]:
        lines += ["", "the log around that moment", *(_line(line) for line in log[:_SHOWN_LINES])]
        lines += [f"  and {len(log) - _SHOWN_LINES} more: -o json has them"] if len(log) > _SHOWN_LINES else []
    return lines


_THEN = {"queued": "waited", "waiting": "held back", "unserved": "unserved", "claimed": "claimed", "running": "ran"}
_NOW = {
    "queued": "waits still",
    "waiting": "held back still",
    "unserved": "unserved still",
    "claimed": "claimed",
    "running": "runs still",
}


def _job_row(job: Row) -> list[str]:
    name = job["job_name"] or job["workflow_name"]
    ended = job["conclusion"] or _NOW.get(str(job["now"]), "-")
    state = _THEN.get(job["state"], str(job["state"]))
    return [str(job["job_id"]), state, _clock(job["since"]), job["repository"], name or "-", job["pool"], ended]


def _line(line: dict[str, Any]) -> str:
    about = f"job {line['job_id']}" if line["job_id"] else f"Pod {line['pod_name'] or line['pod_uid']}"
    moved = f"{line['subject']} {line['was'] or 'new'} → {line['became']}"
    return f"  {_clock(line['at'])}  {about}: {moved} ({line['by']}: {line['why']})"


def _clock(text: str) -> str:
    at = moment(text)
    return f"{at:%H:%M:%S}" if at is not None else ""
