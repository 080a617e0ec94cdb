"""`/api/v1/history`: the numbers of the fleet over the last hour, day, week or month, column by column, with what to mark."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.http_requests import answer, guarded, refusal
from paddock.runners.http.readonly import PREFIX
from paddock.runners.ledger import Heal, Ledger, LedgerError
from paddock.runners.ledger.incidents import Incident
from paddock.runners.ledger.samples import HOUR, MINUTE, QUARTER, Sample

__all__ = ["WINDOWS", "FleetHistory", "Mark", "history_of", "history_route"]

WINDOWS: Final = {
    "1h": (timedelta(hours=1), MINUTE),
    "24h": (timedelta(days=1), MINUTE),
    "7d": (timedelta(days=7), QUARTER),
    "30d": (timedelta(days=30), HOUR),
}
"""How far back each window reaches, and the step of its rows: at most 1,440 of them."""
_MARKS: Final = 200
_RESULTS: Final = {"success": ("success",), "failure": ("failure", "timed_out"), "cancelled": ("cancelled",)}
"""What a chart tells apart, and the conclusions of GitHub that it is made of; whatever else there is, is other."""
_OTHER: Final = "other"


class Mark(Struct, frozen=True, kw_only=True):
    """Something that happened, in seconds since 1970; `until` is None where it was a moment, or lasts."""

    kind: str
    at: float
    until: float | None
    text: str


class FleetHistory(Struct, frozen=True, kw_only=True):
    """Columns of equal length, oldest first. `until` is the moment of the answer."""

    window: str
    since: float
    until: float
    currency: str
    at: list[float]
    macs: dict[str, list[float]]
    waiting: list[float]
    running: list[float]
    wait_p50: list[float | None]
    wait_p95: list[float | None]
    heals: list[int]
    ended: dict[str, list[int]]
    """Jobs that ended, by result: success, failure, cancelled and other, all of them always there."""
    per_hour: list[float]
    marks: list[Mark]


def history_of(
    window: str, since: datetime, until: datetime, rows: list[Sample], incidents: list[Incident], heals: list[Heal]
) -> FleetHistory:
    """The columns and the marks. Pure."""
    states = sorted({state for row in rows for state in row.macs})
    return FleetHistory(
        window=window,
        since=since.timestamp(),
        until=until.timestamp(),
        currency=next((row.currency for row in reversed(rows) if row.currency), "EUR"),
        at=[row.at.timestamp() for row in rows],
        macs={state: [row.macs.get(state, 0.0) for row in rows] for state in states},
        waiting=[round(row.waiting, 2) for row in rows],
        running=[round(row.running, 2) for row in rows],
        wait_p50=[_rounded(row.wait_p50) for row in rows],
        wait_p95=[_rounded(row.wait_p95) for row in rows],
        heals=[row.heals for row in rows],
        ended={word: [_ended(row, word) for row in rows] for word in (*_RESULTS, _OTHER)},
        per_hour=[round(row.per_hour, 4) for row in rows],
        marks=sorted([*map(_of_incident, incidents), *map(_of_heal, heals)], key=lambda mark: mark.at)[-_MARKS:],
    )


def history_route(ledger: Ledger, clock: Clock) -> Route:
    async def history(request: Request) -> Response:
        window, now = request.query_params.get("window", "1h"), clock.now()
        if window not in WINDOWS:
            sentence = f"window is one of {', '.join(WINDOWS)}, not {window[:20]!r}"
            return refusal(400, "bad_field", sentence, field="window")
        reach, step = WINDOWS[window]
        since = now - reach
        heals = [one for one in await ledger.heals.newest(_MARKS) if one.at >= since and one.done_at is not None]
        rows = await ledger.samples.since(since, step)
        # What was over within a step is nothing that a chart of this scale could show.
        incidents = [
            one
            for one in await ledger.incidents.between(since, now, limit=5 * _MARKS)
            if one.kind == "restart" or (one.until or now) - one.at >= step
        ]
        return answer(history_of(window, since, now, rows, incidents, heals))

    return Route(f"{PREFIX}/history", guarded(history, LedgerError), methods=["GET"])


def _of_incident(one: Incident) -> Mark:
    until = one.until.timestamp() if one.until is not None and one.kind != "restart" else None
    text = one.sentence if one.kind == "restart" else f"{one.about}: {one.sentence}"
    return Mark(kind=one.kind, at=one.at.timestamp(), until=until, text=text)


def _of_heal(one: Heal) -> Mark:
    return Mark(kind="heal", at=one.at.timestamp(), until=None, text=one.sentence)


def _ended(row: Sample, word: str) -> int:
    if word == _OTHER:
        return sum(row.ended.values()) - sum(_ended(row, told) for told in _RESULTS)
    return sum(row.ended.get(conclusion, 0) for conclusion in _RESULTS[word])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
