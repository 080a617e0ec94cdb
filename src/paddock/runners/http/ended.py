"""`/api/v1/ended`: what the jobs that ended come to and cost, by account or repository; `/api/v1/ended/jobs`: those jobs themselves.

It shows names of repositories of every account: serve it where only operators can reach it.
"""

import re
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.http_requests import Handler, RefusedError, answer, guarded, number_of, refusal
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.http.readonly import PREFIX
from paddock.runners.ledger import LedgerError
from paddock.runners.ledger.ended_jobs import By, Selection, TooLongError
from paddock.runners.ledger.overview import LARGEST_PAGE

__all__ = ["LONGEST_WINDOW", "ended_routes"]

LONGEST_WINDOW: Final = timedelta(days=3650)
"""As long as history can be kept at most."""
_DAY: Final = 86_400
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}")
_BY: Final[dict[str, By]] = {"account": "account", "repository": "repository"}


def ended_routes(costs: JobCosts, clock: Clock) -> list[Route]:
    """Both; `?window=` is in seconds, a day unless told. 400 names the parameter, also where the time was too long to be read."""

    def chosen(request: Request) -> Selection:
        longest = int(LONGEST_WINDOW.total_seconds())
        return Selection(
            since=clock.now() - timedelta(seconds=number_of(request, "window", _DAY, 60, longest)),
            account=_named(request, "account", _ACCOUNT, "acme"),
            repository=_named(request, "repository", _REPOSITORY, "acme/app"),
        )

    async def sums(request: Request) -> Response:
        by = _BY.get(text := request.query_params.get("by", "account"))
        if by is None:
            return refusal(400, "bad_field", f"by is {text[:40]!r}: say account or repository", field="by")
        return answer(await costs.sums(by, chosen(request)))

    async def jobs(request: Request) -> Response:
        limit = number_of(request, "limit", 100, 1, LARGEST_PAGE)
        return answer(await costs.newest(chosen(request), limit))

    handlers: dict[str, Handler] = {"/ended": _in_time(sums), "/ended/jobs": _in_time(jobs)}
    return [Route(PREFIX + path, guarded(handler, LedgerError), methods=["GET"]) for path, handler in handlers.items()]


def _in_time(handler: Handler) -> Handler:
    """The handler; where there was too much to read, the answer says what to ask for instead."""

    async def served(request: Request) -> Response:
        try:
            return await handler(request)
        except TooLongError as error:
            return refusal(400, "too_long", str(error), field="window")

    return served


def _named(request: Request, name: str, shape: re.Pattern[str], example: str) -> str | None:
    text = request.query_params.get(name)
    if text is not None and not shape.fullmatch(text):
        sentence = f"{name} is {text[:40]!r}: write it as GitHub does, such as {example}"
        raise RefusedError(refusal(400, "bad_field", sentence, field=name))
    return text
