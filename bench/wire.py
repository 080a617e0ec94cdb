"""The leanest HTTPS client that can load two servers alike: what it costs is small beside what they do."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Self
from urllib.parse import urlsplit

__all__ = ["Connection", "Door", "all_done"]

_LIMIT = 64 * 1024 * 1024


class Door:
    """Where a server is and how to be let in."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 443
        self.tls = ssl.create_default_context(cadata=authority)
        self.token = token


class Connection:
    """One kept-alive connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: Door) -> None:
        self._reader = reader
        self._writer = writer
        self._door = door

    @classmethod
    async def open(cls, door: Door) -> Self:
        reader, writer = await asyncio.open_connection(door.host, door.port, ssl=door.tls, limit=_LIMIT)
        return cls(reader, writer, door)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return  # the other side was faster

    async def ask(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        """The body of the answer; RuntimeError unless it is a success."""
        code, headers = await self.begin(method, path, body, media)
        if headers.get(b"transfer-encoding") == b"chunked":
            parts = []
            while chunk := await self.chunk():
                parts.append(chunk)
            answer = b"".join(parts)
        else:
            answer = await self._reader.readexactly(int(headers.get(b"content-length", b"0")))
        if code >= 300:
            raise RuntimeError(f"{method} {path}: {code} {answer[:300]!r}")
        return answer

    async def begin(
        self, method: str, path: str, body: bytes = b"", media: str = "application/json"
    ) -> tuple[int, dict[bytes, bytes]]:
        """Send a request and read the head of the answer."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._door.host}:{self._door.port}\r\n"
            f"authorization: Bearer {self._door.token}\r\naccept: application/json\r\n"
            f"content-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        return int(first.split(b" ", 2)[1]), headers

    async def chunk(self) -> bytes:
        """One chunk of a chunked answer; empty at its end."""
        size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]


async def all_done(
    door: Door, count: int, work: Callable[[Connection, int], Awaitable[object]], workers: int = 8
) -> float:
    """Seconds that so many workers need for `count` pieces of work, each on a connection of its own."""
    connections = [await Connection.open(door) for _ in range(workers)]
    numbers = iter(range(count))

    async def worker(connection: Connection) -> None:
        for number in numbers:
            await work(connection, number)

    try:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in connections:
                group.create_task(worker(connection))
        return time.perf_counter() - began
    finally:
        for connection in connections:
            await connection.close()
