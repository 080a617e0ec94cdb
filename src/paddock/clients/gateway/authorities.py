"""By which authorities a Mac checks the gateway: those in a file, and no other. None that browsers trust can vouch for it."""

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import httpx2

__all__ = ["LARGEST_ANSWER", "Authorities", "GatewayTransport"]

LARGEST_ANSWER: Final = 1 << 20
_MOST: Final = 8
_LARGEST: Final = 64 * 1024
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


class Authorities:
    """The file is read at each use, because bootstrap may replace it; while it cannot be used, the last good one counts.

    `write` replaces a file whole or not at all, and returns once the disk has it.
    """

    def __init__(self, path: Path, write: Callable[[Path, bytes], None]) -> None:
        self._path, self._write = path, write
        self._content = b""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext | None:
        """The same one until the file changes; None while there was never a usable file."""
        content = self._read()
        if content and content != self._content and (made := _context(content)) is not None:
            self._content, self._context = content, made
        return self._context

    def store(self, named: Sequence[str]) -> bool:
        """Keep the authorities that the gateway named; whether anything changed. Raises OSError: then those before stay in use.

        They are on the disk before they are used. What is stored is never replaced by what shares nothing with it: such
        authorities are added, so that no answer can shut this Mac out.
        """
        fresh, held = _split("\n".join(named)), _split(self._read().decode("ascii", "replace")) or []
        if not fresh or len(fresh) > _MOST or any(_context(each.encode()) is None for each in fresh):
            return False
        wanted = fresh if not held or set(fresh) & set(held) else [*fresh, *held][:_MOST]
        if set(wanted) == set(held):
            return False
        self._write(self._path, "".join(wanted).encode())
        return True

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes()[:_LARGEST]
        except OSError:
            return b""


def _split(text: str) -> list[str] | None:
    """Each certificate in one form, so that two can be compared; None where one is none."""
    try:
        return [
            ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{each}{_END}".strip()))
            for each in (part.partition(_BEGIN)[2] for part in text.split(_END)[:-1])
        ]
    except ValueError:
        return None


def _context(content: bytes) -> ssl.SSLContext | None:
    try:
        return ssl.create_default_context(cadata=content.decode("ascii"))
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None


class GatewayTransport(httpx2.AsyncBaseTransport):
    """Connects with the authorities that are stored now. It asks the environment for nothing, and reads no answer without end."""

    def __init__(
        self,
        authorities: Authorities,
        connect: Callable[[ssl.SSLContext], httpx2.AsyncBaseTransport] | None = None,
    ) -> None:
        self._authorities = authorities
        self._connect = connect or _connect
        self._context: ssl.SSLContext | None = None
        self._inner: httpx2.AsyncBaseTransport | None = None
        self._former: list[httpx2.AsyncBaseTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        context = self._authorities.context()
        if context is None:
            raise httpx2.ConnectError("no authority is stored by which the gateway could be checked")
        if self._inner is None or context is not self._context:
            if self._inner is not None:
                # Requests may be under way there; it happens once in years, so it is kept until the end.
                self._former.append(self._inner)
            self._context, self._inner = context, self._connect(context)
        answer = await self._inner.handle_async_request(request)
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            await answer.aclose()
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_Bounded(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        for each in (*self._former, self._inner):
            if each is not None:
                await each.aclose()


def _connect(context: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
    return httpx2.AsyncHTTPTransport(verify=context, trust_env=False)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LARGEST_ANSWER
        async for part in self._inner:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {LARGEST_ANSWER} bytes")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
