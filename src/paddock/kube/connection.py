"""Requests as bytes: one pooled HTTP client, the identity on each request, a deadline on each, errors by class."""

import asyncio
import contextlib
import functools
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from paddock.base.secrets import Secret
from paddock.kube.config import Config
from paddock.kube.credentials import Identity
from paddock.kube.errors import ConfigError, TransportError, UnauthorizedError, from_response
from paddock.kube.metrics import KubeMetrics

__all__ = ["KubeConnection"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class KubeConnection:
    """Sends requests to one API server.

    A given `transport` replaces the network, so that everything above runs without sockets. Connections are kept alive
    for as many as `pool` parallel calls; watches take theirs from the same pool, which has room for them beside it.
    """

    def __init__(
        self,
        config: Config,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        user_agent: str = "paddock",
        pool: int = 64,
        metrics: KubeMetrics | None = None,
    ) -> None:
        self.config = config
        self._metrics = metrics or KubeMetrics()
        self._transport = transport
        self._user_agent = user_agent
        self.server_date: datetime | None = None
        """What the newest answer said of the server's clock; None where it said nothing."""
        self._pool = pool
        self._http: httpx2.AsyncClient | None = None
        self._usual: list[tuple[str, str]] = []
        """What the client says with each request: what it understands, and who it is."""
        self._shown: tuple[str, Secret | None] = ("", None)
        self._calls: dict[httpx2.AsyncClient, int] = {}
        """How many exchanges are under way on each client."""
        self._retired: list[httpx2.AsyncClient] = []
        """Clients of an identity that was replaced; each is closed behind its last exchange."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> bytes:
        """The body of a successful answer, after at most `timeout` seconds in all; otherwise an error of `errors`."""
        loop = asyncio.get_running_loop()
        began, code = loop.time(), "none"
        try:
            async with asyncio.timeout(timeout):
                for may_retry in (True, False):
                    request = await self._request(
                        method, path, params, body, content_type, _waits(timeout, timeout), headers
                    )
                    client = self._begun()
                    try:
                        response = await client.send(request)
                    finally:
                        await self._ended(client)
                    code = str(response.status_code)
                    self.server_date = _date_of(response)
                    if response.is_success:
                        return response.content
                    error = from_response(response.status_code, response.content, response.headers.get("retry-after"))
                    # A 401 was refused before it could have an effect, so that sending it again is safe.
                    if may_retry and isinstance(error, UnauthorizedError) and self.config.credentials.rejected():
                        continue
                    raise error
        except TimeoutError as error:
            raise TransportError(f"{method} {path}: no answer for {timeout:.3g} s from {self.config.server}") from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise self._failure(method, path, error) from error
        finally:
            self._metrics.requests.labels(method, code).inc()
            self._metrics.request_seconds.labels(method).observe(loop.time() - began)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str], connect_timeout: float
    ) -> AsyncIterator[httpx2.Response]:
        """An open answer whose chunks arrive without end. The caller bounds how long it waits for each chunk; only
        connecting and the answer's headers are bounded here. Network failures come out as TransportError.
        """
        timeout = _waits(connect_timeout, None)
        client: httpx2.AsyncClient | None = None
        try:
            try:
                async with asyncio.timeout(connect_timeout):
                    request = await self._request("GET", path, params, None, "", timeout)
                    client = self._begun()
                    response = await client.send(request, stream=True)
            except TimeoutError as error:
                raise TransportError(
                    f"GET {path}: no answer for {connect_timeout:.3g} s from {self.config.server}"
                ) from error
            except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
                raise self._failure("GET", path, error) from error
            async with self._open_answer(response, path, connect_timeout):
                yield response
        finally:
            if client is not None:
                await self._ended(client)

    @asynccontextmanager
    async def _open_answer(self, response: httpx2.Response, path: str, connect_timeout: float) -> AsyncIterator[None]:
        try:
            if not response.is_success:
                async with asyncio.timeout(connect_timeout):
                    body = await response.aread()
                error = from_response(response.status_code, body, response.headers.get("retry-after"))
                if isinstance(error, UnauthorizedError):
                    self.config.credentials.rejected()  # the next attempt shows a newer identity, if there is one
                raise error
            yield
        except TimeoutError as error:
            raise TransportError(f"GET {path}: the stream of {self.config.server} stalled") from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
            raise self._failure("GET", path, error) from error
        finally:
            with contextlib.suppress(httpx2.HTTPError, OSError):
                await response.aclose()

    async def aclose(self) -> None:
        """Close every connection; a stream that is still open ends with an error."""
        clients = [*self._retired, *([self._http] if self._http is not None else [])]
        self._retired, self._http = [], None
        for client in clients:
            await client.aclose()

    def _failure(self, method: str, path: str, error: BaseException) -> TransportError:
        text = str(error) or type(error).__name__
        return TransportError(f"{method} {path}: {self.config.server} did not answer: {text}")

    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        timeout: dict[str, float | None],
        more: Sequence[tuple[str, str]] = (),
    ) -> httpx2.Request:
        identity = await self.config.credentials.current()
        if self._http is None or (identity.certificate, identity.key) != self._shown:
            old, self._http = self._http, self._open(identity)
            self._usual = [each for each in self._http.headers.items() if each[0].lower() != "accept"]
            self._shown = (identity.certificate, identity.key)
            if old is not None:
                self._retired.append(old)  # calls in flight end on the old one
                await self._close_unused(old)
        # As kubectl: some documents (the keys of tokens) are JSON under another name, and JSON alone is refused there.
        headers = [("Accept", "application/json, */*"), *self.config.impersonate, *more]
        if identity.token is not None:
            token = identity.token.reveal()
            if not (token.isascii() and token.isprintable() and " " not in token):
                # Refused here, because the HTTP library would quote it in its own complaint.
                raise ConfigError(f"the token for {self.config.server} holds characters that no header may carry")
            headers.append(("Authorization", f"Bearer {token}"))
        if body is not None:
            headers.append(("Content-Type", content_type))
        extensions: dict[str, Any] = {"timeout": timeout}
        if self.config.tls_server_name:
            extensions["sni_hostname"] = self.config.tls_server_name
        try:
            address = _address(self.config.server + path, tuple(params.items()) if params else ())
            # Made here and not by the client, whose merging of headers and cookies costs more than all the rest of it.
            headers = [("Host", address.netloc.decode("ascii")), *self._usual, *headers]
            return httpx2.Request(
                method,
                address,
                headers=httpx2.Headers(headers, encoding="utf-8"),
                content=body,
                extensions=extensions,
            )
        except httpx2.InvalidURL as error:
            raise ConfigError(f"server: {self.config.server!r} is not a usable address: {error}") from error

    def _begun(self) -> httpx2.AsyncClient:
        """The client for one exchange; whoever asked says `_ended` behind it."""
        assert self._http is not None, "built with the first request"
        self._calls[self._http] = self._calls.get(self._http, 0) + 1
        return self._http

    async def _ended(self, client: httpx2.AsyncClient) -> None:
        self._calls[client] -= 1
        if not self._calls[client]:
            del self._calls[client]
            if self._retired:
                await self._close_unused(client)

    async def _close_unused(self, client: httpx2.AsyncClient) -> None:
        """Close a client that was replaced once nothing is under way on it, or its connections would stay open for ever."""
        if client not in self._retired or client in self._calls:
            return
        self._retired.remove(client)
        if self._transport is None:  # one that was given is everybody's, and is closed with us
            with contextlib.suppress(httpx2.HTTPError, OSError):
                await client.aclose()

    def _open(self, identity: Identity) -> httpx2.AsyncClient:
        secure = self.config.server.startswith("https:") and self._transport is None
        # Go's clients never send loopback through a proxy of the environment; neither do we.
        loopback = urlsplit(self.config.server).hostname in _LOOPBACK
        return httpx2.AsyncClient(
            verify=_tls(self.config, identity) if secure else False,
            transport=self._transport,
            proxy=self.config.proxy or None,
            trust_env=not loopback,
            headers={"User-Agent": self._user_agent},
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=self._pool, keepalive_expiry=60.0),
        )


@functools.lru_cache(maxsize=4096)
def _address(url: str, params: tuple[tuple[str, str], ...]) -> httpx2.URL:
    """The address, read once: the same few are asked again and again, and reading one costs a tenth of a call."""
    return httpx2.URL(url, params=params) if params else httpx2.URL(url)


def _waits(connect: float, read: float | None) -> dict[str, float | None]:
    """How long each part of an exchange may take, in the transport's words."""
    return {"connect": connect, "read": read, "write": connect, "pool": connect}


def _date_of(response: httpx2.Response) -> datetime | None:
    text = next((value for name, value in response.headers.raw if name.lower() == b"date"), b"")
    return _date(text.decode("latin-1")) if text else None


@functools.lru_cache(maxsize=8)
def _date(text: str) -> datetime | None:
    """Read once a second: many answers carry the same one."""
    try:
        said = parsedate_to_datetime(text)
    except ValueError:
        return None
    return said if said.tzinfo is not None else None


def _tls(config: Config, identity: Identity) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=config.ca or None)
    except ssl.SSLError as error:
        raise ConfigError(f"certificate-authority for {config.server}: is not a usable PEM bundle") from error
    # Python 3.13 began to refuse authorities without the newest extensions, which many clusters still have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if config.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if identity.certificate and identity.key is not None:
        # OpenSSL takes a client certificate from files only: they live for this call, readable by us alone.
        with _private_file(identity.certificate) as certificate, _private_file(identity.key.reveal()) as key:
            try:
                context.load_cert_chain(certificate, key)
            except ssl.SSLError as error:
                raise ConfigError(f"client-certificate for {config.server}: certificate and key do not fit") from error
    return context


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder:
        path = Path(folder) / "pem"
        path.touch(mode=0o600)
        path.write_text(text)
        yield str(path)
