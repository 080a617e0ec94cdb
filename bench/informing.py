"""How many events a second pass through the real client and informer, from a server that costs nothing."""

import asyncio
import time
from collections.abc import Iterator

import msgspec

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.informer import Informer

from .objects import listing
from .table import Row, amount

__all__ = ["informing"]

_EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def informing(quick: bool) -> Iterator[Row]:
    count = 4_000 if quick else 20_000
    distinct = listing(1_000)["items"]
    lines: list[bytes] = []
    for number in range(count):
        item = distinct[number % len(distinct)]
        item["metadata"]["resourceVersion"] = str(number + 2)
        kind = "ADDED" if number < len(distinct) else "MODIFIED"
        lines.append(msgspec.json.encode({"type": kind, "object": item}) + b"\n")
    seconds = asyncio.run(_through_the_informer(lines))
    began = time.perf_counter()
    for line in lines:
        msgspec.json.decode(line)
    bare = time.perf_counter() - began
    note = (
        f"{count:,} events over loopback, server in the same process; {seconds / bare:.1f}× the time of msgspec alone"
    )
    yield Row("kube", "informer", amount(count / seconds), "events/s", note)


async def _through_the_informer(lines: list[bytes]) -> float:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                if b"watch=" not in request.split(b"\r\n", 1)[0]:
                    writer.write(_HEAD + b"content-length: %d\r\n\r\n" % len(_EMPTY) + _EMPTY)
                    continue
                writer.write(_HEAD + b"transfer-encoding: chunked\r\n\r\n")
                for start in range(0, len(lines), 50):
                    chunk = b"".join(lines[start : start + 50])
                    writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    done = asyncio.Event()
    seen = 0

    def count(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == len(lines):
            done.set()

    async with server, Client(Config(f"http://127.0.0.1:{port}")) as client:
        informer = Informer(client, ScalewayAppleSiliconHost, clock=SystemClock(), rng=seeded(1))
        informer.add_handler(count)
        began = time.perf_counter()
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(done.wait(), 120)
        seconds = time.perf_counter() - began
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(informer.reader.list()) == min(1_000, len(lines))
    return seconds
