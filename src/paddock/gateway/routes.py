"""What Macs ask over HTTP: `POST /mac/v1/report`, `/mac/v1/pods/UID/job`, `/mac/v1/pods/UID/log`.

Who asks is settled before a byte of the body counts; a Mac that was refused is told so in one sentence, and nothing of its request is
repeated anywhere.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
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

log = get_logger("gateway")
_SECONDS: Final = 20.0
"""Within which a body has to arrive."""
_LONGEST_JOB_HOLD: Final = 75.0
_MOST_DIGITS: Final = 18


def mac_routes(gateway: Gateway) -> list[Route]:
    refusals = RefusalLog(log)

    async def identified(request: Request) -> MacIdentity:
        return checked(await gateway.identities.of(_authorization(request)), request)

    def checked(found: MacIdentity | Refused | Later, request: Request) -> MacIdentity:
        match found:
            case Refused(status=status, message=message):
                refusals.refused(request.url.path, message, sender=request.client.host if request.client else "")
                raise RefusedError(_refusal(status, message))
            case Later(status=status, message=message, retry_after=seconds):
                raise RefusedError(_refusal(status, message, seconds))
            case identity:
                return identity

    async def report(request: Request) -> Response:
        mac = await identified(request)
        hold = _seconds(request, "hold", LONGEST_HOLD)
        body = await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS)
        said = await gateway.report(mac, body, hold, _left(request))
        if isinstance(said, Refused | Later):
            raise RefusedError(_refusal(said.status, said.message, getattr(said, "retry_after", 0.0)))
        return answer(said)

    async def job(request: Request) -> Response:
        mac = await identified(request)
        hold = _seconds(request, "hold", _LONGEST_JOB_HOLD)
        asked = decode(await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS), JobRequest)
        uid = bounded.uid(request.path_params["uid"])
        said = await gateway.job(mac, _authorization(request), uid, hold, _left(request), softnet=asked.softnet)
        if said is None:
            return Response(status_code=204)  # it left, and hears nothing of this
        if said.handed is not None:
            handed = said.handed
            config = handed.config.reveal()
            return answer({"encoded_jit_config": config, "owner": handed.owner, "workflow_job_id": handed.job_id})
        if said.status == 204:
            return Response(status_code=204, headers={"Cache-Control": "no-store"})
        return _told(said.status, said.outcome, said.reason, said.retry_after)

    async def add_log(request: Request) -> Response:
        mac = await identified(request)
        first = request.query_params.get("from", "0")
        if not (first.isascii() and first.isdecimal() and len(first) <= _MOST_DIGITS):
            return refusal(400, "bad_field", "from is the number of the first byte of the body", field="from")
        content = await read_body(request, limit=LARGEST_BODY, seconds=_SECONDS)
        ended = request.query_params.get("end") == "true"
        said = await gateway.log(mac, bounded.uid(request.path_params["uid"]), int(first), content, ended=ended)
        if isinstance(said, Refused | Later):
            raise RefusedError(_refusal(said.status, said.message, getattr(said, "retry_after", 0.0)))
        return answer({"next": said})

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


def _told(status: int, outcome: str, reason: str, retry_after: float) -> Response:
    """In the words that whoever waits for a job understands: `error` is the outcome there."""
    headers = {"Cache-Control": "no-store"}
    if retry_after:
        headers["Retry-After"] = str(max(1, round(retry_after)))
    body = msgspec.json.encode({"error": outcome, "reason": reason})
    return Response(body, status, headers=headers, media_type="application/json")


def _refusal(status: int, message: str, retry_after: float = 0.0) -> Response:
    headers = {"Retry-After": str(max(1, round(retry_after)))} if retry_after else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return refusal(status, "later" if retry_after else "refused", message, headers=headers)
