"""The embedded API beside the real kube-apiserver: the same objects, the same load, the same run."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from .objects import HOSTS, host, status
from .servers import Server, embedded_server, real_server
from .table import Row, amount
from .wire import Connection, all_done

__all__ = ["serving"]

_MERGE = "application/merge-patch+json"
_WATCHERS = 20


@dataclass(frozen=True, slots=True)
class _Size:
    objects: int
    timed: int
    patches: int
    fanned: int


@dataclass(slots=True)
class _Found:
    creates: float = 0.0
    patches: float = 0.0
    listing: float = 0.0
    fanout: float = 0.0
    memory_before: float = 0.0
    memory: float = 0.0


def serving(quick: bool) -> Iterator[Row]:
    size = _Size(1_000, 500, 500, 100) if quick else _Size(10_000, 2_000, 2_000, 200)
    with embedded_server() as server:
        ours = asyncio.run(_measure(server, size))
    try:
        with real_server() as server:
            real = asyncio.run(_measure(server, size))
    except Exception as error:  # noqa: BLE001 - whatever keeps the real one away is told in the table, in its words
        yield Row("api", "kube-apiserver", "-", "", f"not measured: {str(error).splitlines()[0]}")
        real = None
    how = "8 workers, HTTPS, durable, one machine for server and client"
    for what, unit, mine, theirs, note in (
        ("creates", "/s", ours.creates, real.creates if real else 0, how),
        ("status patches", "/s", ours.patches, real.patches if real else 0, how),
        (f"LIST of {size.objects:,}", "ms", ours.listing, real.listing if real else 0, "in pages of 500, best of 3"),
        ("watch fan-out", "events/s", ours.fanout, real.fanout if real else 0, f"{_WATCHERS} watchers, 8 writers"),
        (
            f"memory at {size.objects:,} objects",
            "MB",
            ours.memory,
            real.memory if real else 0,
            f"with its database; {ours.memory_before:.0f} MB before"
            + (f", kube-apiserver {real.memory_before:.0f} MB" if real else ""),
        ),
    ):
        beside = f"{mine / theirs:.2f}× kube-apiserver ({amount(theirs)} {unit}); " if theirs else ""
        yield Row("api", what, amount(mine), unit, beside + note)


async def _measure(server: Server, size: _Size) -> _Found:
    found, door = _Found(), server.door

    async def create(connection: Connection, number: int) -> None:
        await connection.ask("POST", HOSTS, msgspec.json.encode(host(number)))

    async def patch(connection: Connection, number: int, turn: int = 0) -> None:
        body = msgspec.json.encode({"status": status(number, turn)})
        await connection.ask("PATCH", f"{HOSTS}/host-{number:05}/status", body, _MERGE)

    await all_done(door, 50, lambda connection, number: create(connection, 90_000 + number))  # warm
    found.memory_before = server.memory()
    found.creates = size.timed / await all_done(door, size.timed, create)
    found.patches = size.patches / await all_done(door, size.patches, patch)
    rest = size.objects - size.timed
    await all_done(door, rest, lambda connection, number: create(connection, size.timed + number))
    found.listing = 1000 * min([await _list(server) for _ in range(3)])
    found.fanout = await _fan_out(server, size.fanned)
    found.memory = server.memory()
    return found


async def _list(server: Server) -> float:
    connection = await Connection.open(server.door)
    began = time.perf_counter()
    more = ""
    while True:
        page = msgspec.json.decode(await connection.ask("GET", f"{HOSTS}?limit=500{more}"), type=_Page)
        if not page.metadata.get("continue"):
            break
        more = f"&continue={page.metadata['continue']}"
    seconds = time.perf_counter() - began
    await connection.close()
    return seconds


class _Page(msgspec.Struct):
    metadata: dict[str, object]


async def _fan_out(server: Server, count: int) -> float:
    """Events a second that reach all watchers together."""
    opener = await Connection.open(server.door)
    page = msgspec.json.decode(await opener.ask("GET", f"{HOSTS}?limit=1"), type=_Page)
    await opener.close()
    version = page.metadata["resourceVersion"]
    watchers = [await Connection.open(server.door) for _ in range(_WATCHERS)]

    async def watch(connection: Connection) -> None:
        seen = 0
        while seen < count:
            seen += (await connection.chunk()).count(b'{"type":"MODIFIED"')

    async def patch(connection: Connection, number: int) -> None:
        body = msgspec.json.encode({"status": status(number, 7)})
        await connection.ask("PATCH", f"{HOSTS}/host-{number:05}/status", body, _MERGE)

    for connection in watchers:
        code, _ = await connection.begin("GET", f"{HOSTS}?watch=true&resourceVersion={version}")
        assert code == 200
    began = time.perf_counter()
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        for connection in watchers:
            group.create_task(watch(connection))
        group.create_task(all_done(server.door, count, patch))
    seconds = time.perf_counter() - began
    for connection in watchers:
        await connection.close()
    return _WATCHERS * count / seconds
