"""Open pages are sent what changed, once, and a page that does not read is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from paddock.base.clock import LoopClock
from paddock.simulator.loop import run
from paddock.web.live import Live


class Desk:
    """What is rendered, and how often it was."""

    def __init__(self) -> None:
        self.parts = {"strip": "<p>1</p>", "fleet": "<p>a</p>"}
        self.renders = 0

    def render(self) -> dict[str, str]:
        self.renders += 1
        return dict(self.parts)


def told(frame: bytes) -> dict[str, str]:
    event, data, *_ = frame.decode().splitlines()
    assert event == "event: parts"
    return msgspec.json.decode(data.removeprefix("data: "))


async def started(desk: Desk) -> tuple[Live, asyncio.Task[None]]:
    live = Live(desk.render, LoopClock())
    return live, asyncio.create_task(live.run())


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def soon(stream: AsyncIterator[bytes], within: float = 10.0) -> dict[str, str]:
    async with asyncio.timeout(within):
        return told(await anext(stream))


def test_a_page_gets_everything_first_and_then_only_what_changed() -> None:
    async def main() -> None:
        desk = Desk()
        live, task = await started(desk)
        stream = live.stream()
        assert await soon(stream) == desk.parts
        desk.parts["strip"] = "<p>2</p>"
        live.touch()
        assert await soon(stream) == {"strip": "<p>2</p>"}
        await stopped(task)

    run(main, seed=1)


def test_nothing_is_sent_when_nothing_changed() -> None:
    async def main() -> None:
        live, task = await started(Desk())
        stream = live.stream()
        await soon(stream)
        for _ in range(5):
            live.touch()
            await asyncio.sleep(1)
        async with asyncio.timeout(60):
            assert (await anext(stream)).startswith(b":")  # a heartbeat, so that proxies keep the connection
        await stopped(task)

    run(main, seed=1)


def test_changes_that_come_together_are_rendered_once() -> None:
    async def main() -> None:
        desk = Desk()
        live, task = await started(desk)
        stream = live.stream()
        await soon(stream)
        await asyncio.sleep(1)
        before = desk.renders
        for number in range(100):
            desk.parts["strip"] = f"<p>{number}</p>"
            live.touch()
        assert await soon(stream) == {"strip": "<p>99</p>"}
        assert desk.renders - before <= 2
        await stopped(task)

    run(main, seed=1)


def test_nothing_is_rendered_while_nobody_looks() -> None:
    async def main() -> None:
        desk = Desk()
        live, task = await started(desk)
        for _ in range(10):
            live.touch()
            await asyncio.sleep(1)
        assert desk.renders == 0
        await stopped(task)

    run(main, seed=1)


def test_a_page_that_opens_takes_no_change_away_from_one_that_is_open() -> None:
    async def main() -> None:
        desk = Desk()
        live, task = await started(desk)
        first = live.stream()
        await soon(first)
        desk.parts["fleet"] = "<p>b</p>"
        second = live.stream()
        assert (await soon(second))["fleet"] == "<p>b</p>"
        live.touch()
        assert await soon(first) == {"fleet": "<p>b</p>"}
        await stopped(task)

    run(main, seed=1)


def test_a_page_that_does_not_read_is_let_go_and_the_others_are_not() -> None:
    async def main() -> None:
        desk = Desk()
        live, task = await started(desk)
        slow, quick = live.stream(), live.stream()
        await soon(slow)
        await soon(quick)
        for number in range(100):
            desk.parts["strip"] = f"<p>{number}</p>"
            live.touch()
            assert await soon(quick) == {"strip": f"<p>{number}</p>"}
        frames = [frame async for frame in slow]
        assert len(frames) <= 64
        await stopped(task)

    run(main, seed=1)


def test_the_end_closes_every_stream() -> None:
    async def main() -> None:
        live, task = await started(Desk())
        stream = live.stream()
        await soon(stream)
        live.end()
        async with asyncio.timeout(1):
            assert [frame async for frame in stream] == []
        await stopped(task)

    run(main, seed=1)


def test_a_text_with_line_ends_stays_one_frame() -> None:
    async def main() -> None:
        desk = Desk()
        desk.parts["strip"] = "<p>one\n\ntwo</p>"
        live, task = await started(desk)
        assert await soon(live.stream()) == desk.parts
        await stopped(task)

    run(main, seed=1)
