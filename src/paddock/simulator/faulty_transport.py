"""The fault layer for HTTP: a transport around another one."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx2

from paddock.simulator.faults import (
    Crash,
    CutStream,
    Delay,
    Duplicate,
    EffectCall,
    Fail,
    Fault,
    FaultMoment,
    Faults,
    Late,
    LoseAnswer,
)
from paddock.simulator.process_life import require_alive

__all__ = ["FaultyTransport"]

_DEFAULT_TIMEOUT = 5.0


class FaultyTransport(httpx2.AsyncBaseTransport):
    """Requests through `inner`, each announced to `faults` as `METHOD /path` and disturbed as the plan says.

    A lost answer, and a crash after the call, come only once the app has had the whole request and has answered; an
    answer of known length is read to its end first.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        call, fault = self._faults.announce(f"{request.method} {path}", method=request.method, path=path)
        try:
            response = await self._disturbed(request, call, fault)
        except httpx2.TransportError as error:
            self._faults.note("answer", n=call.number, error=type(error).__name__)
            raise
        self._faults.note("answer", n=call.number, status=response.status_code)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _disturbed(self, request: httpx2.Request, call: EffectCall, fault: Fault | None) -> httpx2.Response:
        match fault:
            case Fail(status, retry_after):
                return _refusal(request, status, retry_after)
            case Crash(moment=FaultMoment.BEFORE):
                await self._faults.crash(call)
            case Crash():
                # A call that fails by itself may still be the last thing its process did.
                with suppress(httpx2.TransportError):
                    await self._perform(request)
                await self._faults.crash(call)
            case Delay(seconds):
                await self._faults.sleep(seconds)
            case Late(seconds):
                # The body is read now: its source may be gone by then.
                await request.aread()
                self._faults.later(seconds, lambda: self._perform(request))
                await self._time_out(request)
            case LoseAnswer(error):
                await self._perform(request)
                if error == "timeout":
                    await self._time_out(request)
                raise httpx2.ReadError("the answer was lost", request=request)
            case Duplicate(answer):
                return await self._twice(request, keep_first=answer == "first")
            case CutStream(chunks, clean):
                return _cut(await self._inner.handle_async_request(request), request, chunks, clean=clean)
            case None:
                pass
        return await self._inner.handle_async_request(request)

    async def _perform(self, request: httpx2.Request) -> None:
        """Let the request have its effect, and throw the answer away."""
        response = await self._inner.handle_async_request(request)
        if "content-length" in response.headers:
            await response.aread()
        # A stream without a length may be a watch, which has no end to wait for.
        await response.aclose()

    async def _twice(self, request: httpx2.Request, *, keep_first: bool) -> httpx2.Response:
        await request.aread()
        if not keep_first:
            await self._perform(request)
            return await self._inner.handle_async_request(request)
        first = await self._inner.handle_async_request(request)
        await self._perform(request)
        return first

    async def _time_out(self, request: httpx2.Request) -> None:
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        await self._faults.sleep(timeouts.get("read") or _DEFAULT_TIMEOUT)
        raise httpx2.ReadTimeout("the answer was lost", request=request)


def _refusal(request: httpx2.Request, status: int | None, retry_after: int | None) -> httpx2.Response:
    if status is None:
        raise httpx2.ConnectError("the connection was refused", request=request)
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    # A proxy answers for the app, in its own format: clients must not need JSON in a 5xx.
    return httpx2.Response(status, headers=headers, html=f"<h1>{status}</h1>", request=request)


def _cut(response: httpx2.Response, request: httpx2.Request, chunks: int, *, clean: bool) -> httpx2.Response:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    stream = _CutBody(response.stream, request, chunks, clean=clean)
    extensions: dict[str, Any] = dict(response.extensions)
    headers = response.headers.raw
    if clean:
        # A quiet end is only possible for a body without a length.
        headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return httpx2.Response(response.status_code, headers=headers, stream=stream, extensions=extensions)


class _CutBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, request: httpx2.Request, chunks: int, *, clean: bool) -> None:
        self._inner = inner
        self._request = request
        self._chunks = chunks
        self._clean = clean

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._chunks
        if left > 0:
            async for chunk in self._inner:
                require_alive()
                yield chunk
                left -= 1
                if left == 0:
                    break
            else:
                return
        await self._inner.aclose()
        if not self._clean:
            raise httpx2.ReadError("the stream was cut", request=self._request)

    async def aclose(self) -> None:
        await self._inner.aclose()
