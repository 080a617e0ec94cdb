"""What Macs ask over HTTP: `POST /mac/v1/report`, `/mac/v1/pods/UID/job`, `/mac/v1/pods/UID/log`.

Who asks is settled before a byte of the body counts; a Mac that was refused is told so in one sentence, and nothing of its request is
repeated anywhere.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.base.http_requests import Handler, RefusedError, answer, decode, read_body, refusal
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.clients.gateway.messages import LARGEST_BODY, LONGEST_HOLD, REPORT, JobRequest, job_path, log_path
from paddock.gateway import bounded
from paddock.gateway.identity import MacIdentity
from paddock.gateway.refusals import Later, Refused
from paddock.gateway.service import Gateway

__all__ = ["mac_routes"]

T = TypeVar("T")
log = get_logger("gateway")
_SECONDS: Final = 20.0
"""Within which a body has to arrive."""
_LONGEST_JOB_HOLD: Final = 75.0
_MOST_DIGITS: Final = 18


def mac_routes(gateway: Gateway) -> list[Route]:
    refusals = RefusalLog(log)

    async def identified(request: Request) -> MacIdentity:
        match found := await gateway.identities.of(_authorization(request)):
            case Refused(status=status, message=message):
                refusals.refused(request.url.path, message, sender=request.client.host if request.client else "")
                raise RefusedError(_refusal(status, "refused", message))
            case Later():
                raise RefusedError(_not_now(found))
            case identity:
                return identity

    async def report(request: Request) -> Response:
        mac = await identified(request)
        hold = _seconds(request, "hold", LONGEST_HOLD)
        body = await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS)
        return answer(_counted(await gateway.report(mac, body, hold, _left(request))))

    async def job(request: Request) -> Response:
        mac = await identified(request)
        hold = _seconds(request, "hold", _LONGEST_JOB_HOLD)
        asked = decode(await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS), JobRequest)
        uid = bounded.uid(request.path_params["uid"])
        found = await gateway.job(mac, _authorization(request), uid, hold, _left(request), softnet=asked.softnet)
        if found is None or found.status == 204:
            return Response(status_code=204, headers={"Cache-Control": "no-store"})  # None: whoever asked has left
        if (handed := found.handed) is not None:
            config = handed.config.reveal()
            return answer({"encoded_jit_config": config, "owner": handed.owner, "workflow_job_id": handed.job_id})
        return _refusal(found.status, found.outcome, found.reason, found.retry_after)

    async def add_log(request: Request) -> Response:
        mac = await identified(request)
        first = request.query_params.get("from", "0")
        if not (first.isascii() and first.isdecimal() and len(first) <= _MOST_DIGITS):
            return refusal(400, "bad_field", "from is the number of the first byte of the body", field="from")
        content = await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS)
        ended = request.query_params.get("end") == "true"
        uid = bounded.uid(request.path_params["uid"])
        return answer({"next": _counted(await gateway.log(mac, uid, int(first), content, ended=ended))})

    return [
        Route(REPORT, _served(report), methods=["POST"]),
        Route(job_path("{uid}"), _served(job), methods=["POST"]),
        Route(log_path("{uid}"), _served(add_log), methods=["POST"]),
    ]


def _served(handler: Handler) -> Handler:
    async def served(request: Request) -> Response:
        try:
            return await handler(request)
        except RefusedError as refused:
            return refused.response

    return served


def _authorization(request: Request) -> str:
    return request.headers.get("authorization", "")


def _left(request: Request) -> Callable[[], Awaitable[None]]:
    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return left


def _seconds(request: Request, name: str, most: float) -> float:
    """What the query asks for, within bounds; a number that nobody understands asks for nothing."""
    try:
        seconds = float(request.query_params.get(name, "0")[:16])
    except ValueError:
        return 0.0
    return min(max(0.0, seconds), most) if math.isfinite(seconds) else 0.0


def _counted(found: T | Refused | Later) -> T:
    match found:
        case Refused(status=status, message=message):
            raise RefusedError(_refusal(status, "refused", message))
        case Later():
            raise RefusedError(_not_now(found))
        case value:
            return value


def _not_now(later: Later) -> Response:
    return _refusal(later.status, "later", later.message, later.retry_after)


def _refusal(status: int, outcome: str, sentence: str, retry_after: float = 0.0) -> Response:
    """In dispatch's words, which every agent understands: `error` is for programs, `reason` for people."""
    headers = {"Retry-After": str(max(1, round(retry_after)))} if retry_after else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return answer({"error": outcome, "reason": sentence}, status, headers)
