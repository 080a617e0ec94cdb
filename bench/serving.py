"""The embedded API beside the real kube-apiserver: the same objects, the same load, the same run."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

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
    patches: int
    fanned: int
    rounds: int


@dataclass(slots=True)
class _Found:
    """What was seen of one server: one entry a round."""

    creates: list[float] = field(default_factory=list)
    patches: list[float] = field(default_factory=list)
    listing: list[float] = field(default_factory=list)
    fanout: list[float] = field(default_factory=list)
    memory_before: float = 0.0
    memory: list[float] = field(default_factory=list)


def serving(quick: bool) -> Iterator[Row]:
    size = _Size(1_000, 500, 100, 2) if quick else _Size(10_000, 1_000, 200, 5)
    with ExitStack() as stack:
        servers = [stack.enter_context(embedded_server())]
        try:
            servers.append(stack.enter_context(real_server()))
        except Exception as error:  # noqa: BLE001 - whatever keeps the real one away is told in the table, in its words
            yield Row("api", "kube-apiserver", "-", "", f"not measured: {str(error).splitlines()[0]}")
        ours, *others = asyncio.run(_measure(servers, size))
    real = others[0] if others else None
    how = f"8 workers, HTTPS, durable; in turns, {size.rounds} rounds"
    before = f"with its database; {ours.memory_before:.0f} MB before"
    before += f", kube-apiserver {real.memory_before:.0f} MB" if real else ""
    for what, unit, name, note in (
        ("creates", "/s", "creates", how),
        ("status patches", "/s", "patches", how),
        (f"LIST of {size.objects:,}", "ms", "listing", "in pages of 500"),
        ("watch fan-out", "events/s", "fanout", f"{_WATCHERS} watchers, 8 writers"),
        (f"memory at {size.objects:,} objects", "MB", "memory", before),
    ):
        mine: list[float] = getattr(ours, name)
        theirs: list[float] = getattr(real, name) if real else []
        beside = ""
        if theirs:
            # Round by round, because the machine may have been busier in one round than in another.
            ratio = median(one / other for one, other in zip(mine, theirs, strict=True))
            beside = f"{ratio:.2f}× kube-apiserver ({amount(median(theirs))} {unit}); "
        yield Row("api", what, amount(median(mine)), unit, beside + note)


async def _measure(servers: list[Server], size: _Size) -> list[_Found]:
    """Everything is done to one server and then to the next, round by round; medians are told."""
    found = [_Found() for _ in servers]
    for server, mine in zip(servers, found, strict=True):
        await all_done(server.door, 50, lambda connection, number: _create(connection, 90_000 + number))  # warm
        mine.memory_before = server.memory()
    each, some = size.objects // size.rounds, size.patches // size.rounds
    for turn in range(size.rounds):
        for server, mine in zip(servers, found, strict=True):
            first = turn * each
            seconds = await all_done(server.door, each, lambda c, number, first=first: _create(c, first + number))
            mine.creates.append(each / seconds)
            seconds = await all_done(server.door, some, lambda c, number, first=first: _patch(c, first + number))
            mine.patches.append(some / seconds)
    for _ in range(3):
        for server, mine in zip(servers, found, strict=True):
            mine.listing.append(1000 * await _list(server))
            mine.fanout.append(await _fan_out(server, size.fanned, len(mine.fanout)))
    for server, mine in zip(servers, found, strict=True):
        mine.memory.append(server.memory())
    return found


async def _create(connection: Connection, number: int) -> None:
    await connection.ask("POST", HOSTS, msgspec.json.encode(host(number)))


async def _patch(connection: Connection, number: int, turn: int = 0) -> None:
    body = msgspec.json.encode({"status": status(number, turn)})
    await connection.ask("PATCH", f"{HOSTS}/host-{number:05}/status", body, _MERGE)


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


async def _fan_out(server: Server, count: int, turn: int) -> float:
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

    for connection in watchers:
        code, _ = await connection.begin("GET", f"{HOSTS}?watch=true&resourceVersion={version}")
        assert code == 200
    began = time.perf_counter()
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        for connection in watchers:
            group.create_task(watch(connection))
        group.create_task(all_done(server.door, count, lambda c, number: _patch(c, number, 7 + turn)))
    seconds = time.perf_counter() - began
    for connection in watchers:
        await connection.close()
    return _WATCHERS * count / seconds
