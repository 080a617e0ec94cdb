"""HTTP manners: bodies are bounded in size and time, answers are JSON that no proxy caches, refusals say why."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

__all__ = ["Handler", "RefusedError", "answer", "decode", "guarded", "number_of", "read_body", "refusal"]

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class RefusedError(Exception):
    """The request cannot be served as it is: `response` says why. Return it."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"refused with {response.status_code}")
        self.response = response


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON. Never cached: what the ledger says is old as soon as it is said."""
    return Response(
        msgspec.json.encode(value),
        status,
        headers={"Cache-Control": "no-store", **(headers or {})},
        media_type="application/json",
    )


def refusal(
    status: int, reason: str, sentence: str, *, field: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that says what is wrong: `reason` for programs, `sentence` for people, `field` where one is at fault."""
    body = {"error": sentence, "reason": reason} | ({} if field is None else {"field": field})
    return answer(body, status, headers)


async def read_body(request: Request, *, limit: int, seconds: float) -> bytes:
    """The raw body, or RefusedError: 413 as soon as more than `limit` bytes are announced or seen, 408 after `seconds`.

    The listener ends the connection after either, because the rest of the body is not read.
    """
    too_large = RefusedError(refusal(413, "too_large", f"the body is larger than {limit} bytes: send less"))
    announced = request.headers.get("content-length", "")
    # More digits than the limit has need not become a number.
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > limit):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        sentence = f"the body did not arrive within {seconds:g} seconds: send it again"
        raise RefusedError(refusal(408, "too_slow", sentence)) from None
    except ClientDisconnect:
        raise RefusedError(refusal(400, "hung_up", "the client hung up before its body had arrived")) from None
    return bytes(body)


def decode(raw: bytes, kind: type[T]) -> T:
    """The body as a value of that kind, or RefusedError: 400 with a sentence that names the field."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        sentence = str(error) if isinstance(error, msgspec.ValidationError) else "the body is not JSON"
        raise RefusedError(refusal(400, "bad_field", sentence, field=_field(sentence))) from None


def _field(sentence: str) -> str | None:
    # msgspec names the place as a path behind "$", or a missing field between backticks.
    place = sentence.rpartition("`$.")[2].rstrip("`") if "`$." in sentence else ""
    missing = sentence.partition("required field `")[2].partition("`")[0]
    return ".".join(part for part in (place, missing) if part) or None


def guarded(handler: Handler, *away: type[Exception]) -> Handler:
    """The handler, with refusals turned into their answers, and each of `away` into 503 with Retry-After."""

    async def served(request: Request) -> Response:
        try:
            return await handler(request)
        except RefusedError as refused:
            return refused.response
        except away:
            sentence = "the ledger cannot be asked now, or takes too long: ask again"
            return refusal(503, "no_ledger", sentence, headers={"Retry-After": "2"})

    return served


def number_of(request: Request, name: str, otherwise: int, least: int, most: int) -> int:
    """The number that the query gives, within bounds; RefusedError names the parameter."""
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        sentence = f"{name} is {text[:40]!r}: give a whole number from {least} to {most}"
        raise RefusedError(refusal(400, "bad_field", sentence, field=name))
    return int(text)
