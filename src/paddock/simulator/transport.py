"""HTTP without sockets: an httpx2 transport that runs an ASGI app in the same loop, and streams.

Bodies pass chunk by chunk in both directions through bounded pipes, so watches and server-sent events work and a slow
reader slows the writer. It serves the virtual-time loop and an ordinary one alike.

The app sees what uvicorn would show it: a client that leaves is told as `http.disconnect`, later sends fail with
OSError, and the handler is *not* cancelled, so a request whose client gave up still has its effect.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextvars import Context
from functools import partial
from types import TracebackType
from typing import Any, Protocol

import httpx2

from paddock.base.clock import Clock, LoopClock
from paddock.simulator.pipe import Pipe
from paddock.simulator.process_life import ProcessLife, require_alive

__all__ = ["App", "Host", "InProcessTransport"]

Message = MutableMapping[str, Any]
App = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

_PORTS = {"http": 80, "https": 443}


class Host(Protocol):
    """Where an app runs: its handlers are tasks of this life, and its connections break when the life ends."""

    @property
    def life(self) -> ProcessLife | None:
        """The present life; None while the host is down, when connections are refused."""
        ...


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Requests to one app.

    `latency` is the range of seconds from which the way there and the way back are drawn, once each a request. The
    read timeout of a request bounds the wait for the head and for each chunk, the connect timeout the way there.
    Requests from a dead process raise `CrashedError`; requests to a host that is down raise ConnectError.
    An app that fails before it answers, or in the midst of its answer, gives ReadError; the app's own error is the
    cause, and is kept in `app_errors`.
    """

    def __init__(
        self,
        app: App,
        *,
        host: Host | None = None,
        rng: random.Random | None = None,
        latency: tuple[float, float] = (0.0, 0.0),
        clock: Clock | None = None,
        client: tuple[str, int] = ("127.0.0.1", 50000),
        room: int = 16,
    ) -> None:
        if latency[1] > 0 and rng is None:
            raise ValueError("latency is drawn from `rng`: pass a seeded generator")
        if not 0 <= latency[0] <= latency[1]:
            raise ValueError(f"latency must be a range (low, high) of seconds, not {latency}")
        self.app_errors: list[Exception] = []
        self._app = app
        self._host = host
        self._rng = rng
        self._latency = latency
        self._clock: Clock = clock or LoopClock()
        self._client = client
        self._room = room
        self._exchanges: dict[_Exchange, asyncio.Task[None]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        life = require_alive()
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        if self._latency[1] > 0:
            too_long = partial(httpx2.ConnectTimeout, "the way there took too long", request=request)
            async with _within(limits.get("connect"), too_long):
                await self._travel()
        server = self._host.life if self._host else None
        if self._host is not None and server is None:
            raise httpx2.ConnectError(f"nothing listens at {request.url.host}", request=request)
        exchange = _Exchange(request, self._room, read_limit=limits.get("read"))
        exchange.endings.append(life.on_end(exchange.disconnect) if life else _nothing)
        exchange.endings.append(server.on_end(exchange.reset) if server else _nothing)
        self._start(exchange, self._scope(request), server)
        try:
            await exchange.send_body()
            async with _within(exchange.read_limit, exchange.timed_out):
                status, headers = await exchange.head()
                await self._travel()
        except BaseException:
            exchange.disconnect()
            raise
        return httpx2.Response(
            status, headers=headers, stream=_Body(exchange), extensions={"http_version": b"HTTP/1.1"}
        )

    async def aclose(self) -> None:
        """Break every open exchange. Handlers that belong to no host are cancelled and awaited here."""
        tasks = list(self._exchanges.values()) if self._host is None else []
        for exchange in list(self._exchanges):
            exchange.disconnect()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _travel(self) -> None:
        if self._rng is not None and self._latency[1] > 0:
            await self._clock.sleep(self._rng.uniform(*self._latency))

    def _start(self, exchange: "_Exchange", scope: dict[str, Any], server: ProcessLife | None) -> None:
        name = f"{scope['method']} {scope['path']}"
        # Nothing of the client's context crosses the wire, least of all its life: a handler outlives its client.
        context = server.context() if server is not None else Context()
        self._exchanges[exchange] = asyncio.get_running_loop().create_task(
            self._serve(exchange, scope), name=name, context=context
        )

    async def _serve(self, exchange: "_Exchange", scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
            exchange.finish(RuntimeError("the app returned without an answer"))
        except Exception as error:  # noqa: BLE001 - whatever an app raises ends its connection, not the server
            if not (exchange.disconnected and isinstance(error, OSError)):
                self.app_errors.append(error)
            exchange.finish(error)
        except BaseException:
            exchange.reset()
            raise
        finally:
            self._exchanges.pop(exchange, None)

    def _scope(self, request: httpx2.Request) -> dict[str, Any]:
        url = request.url
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.split(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": self._client,
            "server": (url.host, url.port or _PORTS.get(url.scheme)),
            "state": {},
            "extensions": {},
        }
        if url.scheme == "https":
            # What the ASGI TLS extension promises for TLS 1.3 with TLS_AES_128_GCM_SHA256 and no client certificate.
            tls = {"server_cert": None, "client_cert_chain": [], "client_cert_name": None, "client_cert_error": None}
            scope["extensions"]["tls"] = {**tls, "tls_version": 0x0304, "cipher_suite": 0x1301}
        return scope


class _Exchange:
    """One request and its answer, seen from both sides."""

    def __init__(self, request: httpx2.Request, room: int, *, read_limit: float | None) -> None:
        self.request = request
        self.read_limit = read_limit
        self.body_in = Pipe(room)
        self.body_out = Pipe(room)
        self.disconnected = False
        self.endings: list[Callable[[], None]] = []
        self._head: tuple[int, list[tuple[bytes, bytes]]] | None = None
        self._error: Exception | None = None
        self._answered = asyncio.Event()
        self._request_read = False
        self._over = asyncio.Event()

    def timed_out(self) -> httpx2.ReadTimeout:
        return httpx2.ReadTimeout(f"no answer within {self.read_limit} s", request=self.request)

    # The client's side.

    async def send_body(self) -> None:
        stream = self.request.stream
        assert isinstance(stream, httpx2.AsyncByteStream), "an async client sends an async stream"
        async for chunk in stream:
            if self._over.is_set():
                break  # The whole answer came before the end of the body: the app will not read on.
            if chunk:
                await self.body_in.put(chunk)
        self.body_in.close()

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        await self._answered.wait()
        if self._head is None:
            raise self._error or httpx2.ReadError("no answer", request=self.request)
        return self._head

    def disconnect(self) -> None:
        """The client has gone, by itself or because its process died."""
        if self._over.is_set():
            return
        self.disconnected = True
        self._end(OSError("the client has disconnected"))

    # The app's side.

    async def receive(self) -> Message:
        if not self._request_read and not self.disconnected:
            try:
                chunk = await self.body_in.get()
            except OSError:
                return {"type": "http.disconnect"}
            self._request_read = chunk is None
            return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self.disconnected:
            raise OSError("the client has disconnected")
        match message["type"]:
            case "http.response.start":
                if self._head is not None:
                    raise RuntimeError("the app started its answer twice")
                self._head = (message["status"], list(message.get("headers", [])))
                self._answered.set()
            case "http.response.body":
                if self._head is None:
                    raise RuntimeError("the app sent a body before the start of its answer")
                if (chunk := message.get("body", b"")) and self.request.method != "HEAD":
                    await self.body_out.put(chunk)
                if not message.get("more_body", False):
                    self._end(None)
            case other:
                raise RuntimeError(f"the transport does not know the ASGI message {other!r}")

    def finish(self, error: Exception) -> None:
        """The app has returned or failed; without a complete answer, the client gets a ReadError because of `error`."""
        if self._over.is_set():
            return
        broken = httpx2.ReadError(f"the app broke off: {error!r}", request=self.request)
        broken.__cause__ = error
        self._end(broken)

    def reset(self) -> None:
        """The app's process has died: the client sees a reset connection, chunks on their way are lost."""
        if self._over.is_set():
            return
        error = httpx2.ReadError("the connection was reset", request=self.request)
        self.body_out.break_off(error)
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self._error = error
        self._over.set()
        self._answered.set()
        for withdraw in self.endings:
            withdraw()
        self.endings.clear()
        self.body_in.close(error)
        self.body_out.close(error)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange = self._exchange
        while True:
            require_alive()
            if exchange.body_out.ready:
                chunk = await exchange.body_out.get()
            else:
                async with _within(exchange.read_limit, exchange.timed_out):
                    chunk = await exchange.body_out.get()
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        self._exchange.disconnect()


class _within:  # noqa: N801 - it is used as a statement
    """Raise this error instead of waiting longer."""

    __slots__ = ("_error", "_limit")

    def __init__(self, seconds: float | None, error: Callable[[], Exception]) -> None:
        self._limit = asyncio.timeout(seconds)
        self._error = error

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._error() from None


def _nothing() -> None:
    """Nothing to withdraw."""
