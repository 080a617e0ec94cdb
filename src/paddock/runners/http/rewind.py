"""`/api/v1/at/{moment}`: the ledger as it was at a moment of the past, for page and command line."""

from datetime import UTC, datetime, timedelta

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.base.http_requests import answer, guarded, number_of, refusal
from paddock.runners.http.readonly import PREFIX
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.ledger.overview import LARGEST_PAGE
from paddock.runners.ledger.rewind import Then

__all__ = ["Rewound", "rewind_route", "sentence_of"]

_LONGEST_AROUND = 3600


class Rewound(Struct, frozen=True):
    """What was open then, and the same in one sentence. Not `known`: the log does not go back so far."""

    sentence: str
    known: bool
    then: Then


def rewind_route(ledger: Ledger, clock: Clock) -> Route:
    async def rewind(request: Request) -> Response:
        text, now = request.path_params["moment"], clock.now()
        at = _moment(text)
        if at is None:
            sentence = f"{text[:40]!r} is no moment: write it as 2026-11-15T03:12:00Z"
            return refusal(400, "bad_field", sentence, field="moment")
        if at > now:
            return refusal(400, "bad_field", "the moment lies ahead: the log knows only what was", field="moment")
        around = timedelta(seconds=number_of(request, "around", 120, 0, _LONGEST_AROUND))
        then = await ledger.rewind.to(at, around=around, limit=number_of(request, "limit", 200, 1, LARGEST_PAGE))
        known = then.kept_since is not None and at >= then.kept_since
        return answer(Rewound(sentence_of(then, now) if known else _forgotten(then), known, then))

    return Route(f"{PREFIX}/at/{{moment}}", guarded(rewind, LedgerError), methods=["GET"])


def sentence_of(then: Then, now: datetime) -> str:
    """What was open at that moment, with the numbers."""
    queued, claimed = sum(one.queued for one in then.pools), sum(one.claimed for one in then.pools)
    running, fences = sum(one.running for one in then.pools), len(then.fences)
    oldest = max((one.oldest_queued_seconds for one in then.pools if one.queued), default=0.0)
    waited = f" (the oldest for {span(timedelta(seconds=oldest))})" if queued else ""
    retired = f"; {fences} {'Pod was' if fences == 1 else 'Pods were'} being retired" if fences else ""
    return (
        f"at {then.at:%Y-%m-%d %H:%M:%S} UTC, {span(now - then.at)} ago: {_jobs(queued)} waited{waited}, "
        f"{claimed} {'was' if claimed == 1 else 'were'} being handed over, {running} ran{retired}"
    )


def _forgotten(then: Then) -> str:
    kept = then.kept_since
    since = "it is empty" if kept is None else f"it begins at {kept:%Y-%m-%d %H:%M:%S} UTC"
    return f"it is not known any more: the log does not go back to {then.at:%Y-%m-%d %H:%M:%S} UTC, {since}"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo is not None else None
