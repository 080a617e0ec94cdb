"""The four watch probes over real sockets, in real time with short backoffs: what a virtual loop cannot show."""

import asyncio
import contextlib
import json
import random

import structlog
from unit.kube.fake_api import Answer, FakeApi, SocketFrontEnd, status
from unit.kube.things import COLLECTION, Thing, raw, running, until

from paddock.base.backoff import Backoff
from paddock.base.clock import SystemClock
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.informer import Informer

QUICK = Backoff(base=0.05, cap=0.4)


def line(obj: dict) -> bytes:
    return json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n"


@contextlib.asynccontextmanager
async def followed(api: FakeApi):
    async with SocketFrontEnd(api) as front, Client(Config(front.url)) as client:
        informer = Informer(client, Thing, clock=SystemClock(), rng=random.Random(1))
        informer.BACKOFF = QUICK
        with structlog.testing.capture_logs():
            async with running(informer.run()):
                await asyncio.wait_for(informer.synced.wait(), 5)
                yield front, informer


def names(informer: Informer[Thing]) -> list[str]:
    return sorted(obj.metadata.name for obj in informer.reader.list())


async def test_a_410_inside_the_stream_with_a_delete_in_the_gap():
    api = FakeApi()
    for name in "ab":
        api.put(COLLECTION, raw(name))
    async with followed(api) as (_, informer):
        await until(lambda: api.count("watch") == 1)
        api.cut_watches()
        api.remove(COLLECTION, "b", "ns")
        api.compact()
        await until(lambda: names(informer) == ["a"])
        await asyncio.sleep(0.2)
        assert informer.relists == 2
        assert len(api.calls) <= 6


async def test_a_server_that_is_gone_and_back():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    async with followed(api) as (front, informer):
        await until(lambda: api.count("watch") == 1)
        await front.stop()
        await until(lambda: informer.problem is not None)
        await asyncio.sleep(0.5)
        api.put(COLLECTION, raw("b"))
        await front.start()
        await until(lambda: names(informer) == ["a", "b"])
        assert len(api.calls) <= 5
        assert front.connections <= 4


async def test_a_watch_that_answers_500():
    api = FakeApi()
    async with followed(api) as (front, informer):
        api.faults.append(lambda call: status(500, "InternalError") if call.verb == "watch" else None)
        api.cut_watches()
        await asyncio.sleep(1.0)
        assert api.count("watch") <= 10
        assert front.connections <= 3, "refusals reuse the connection"
        api.faults.clear()
        api.put(COLLECTION, raw("a"))
        await until(lambda: names(informer) == ["a"])


async def test_a_clean_end():
    api = FakeApi()
    async with followed(api) as (_, informer):
        for number in range(5):
            await until(lambda n=number: api.count("watch") == n + 1)
            api.cut_watches()
        api.put(COLLECTION, raw("a"))
        await until(lambda: names(informer) == ["a"])
        assert api.count("list") == 1


async def test_events_split_across_chunks_and_many_in_one_chunk_arrive_whole():
    api = FakeApi()
    original = api._watch

    def in_pieces(call, *where):
        async def pieces():
            whole = b""
            for name in "abc":
                obj = api.put(COLLECTION, raw(name))
                whole += line(obj)
            for start in range(0, len(whole), 7):
                yield whole[start : start + 7]
            more = b"".join(line(api.put(COLLECTION, raw(name))) for name in "def")
            yield more
            await asyncio.sleep(5)

        api._watch = original  # type: ignore[method-assign]
        return Answer(200, pieces())

    api._watch = in_pieces  # type: ignore[method-assign]
    async with followed(api) as (_, informer):
        await until(lambda: names(informer) == list("abcdef"))
