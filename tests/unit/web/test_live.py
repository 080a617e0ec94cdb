"""Open pages are sent what changed, once, and a page that does not read is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec
import pytest

from paddock.base.clock import LoopClock
from paddock.simulator.loop import run
from paddock.web.live import MOST_PAGES, Draw, Live, Part

T = TypeVar("T")


class Rig:
    """What is shown, and how often it was looked at."""

    def __init__(self) -> None:
        self.parts = {"summary": "<p>1</p>", "fleet": "<p>a</p>"}
        self.looks = 0

    def look(self) -> Draw:
        self.looks += 1
        parts = dict(self.parts)
        return lambda: {name: Part.of(text) for name, text in parts.items()}


async def at_once(work: Callable[[], T]) -> T:
    """Virtual time knows no threads."""
    return work()


def told(frame: bytes) -> dict[str, str]:
    _, event, data, *_ = frame.decode().splitlines()
    assert event == "event: parts"
    return msgspec.json.decode(data.removeprefix("data: "))


async def started(rig: Rig) -> tuple[Live, asyncio.Task[None]]:
    live = Live(rig.look, LoopClock(), "run", at_once)
    return live, asyncio.create_task(live.run())


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def soon(stream: AsyncIterator[bytes], within: float = 10.0) -> dict[str, str]:
    async with asyncio.timeout(within):
        return told(await anext(stream))


def test_a_page_without_a_version_gets_everything_first_and_then_only_what_changed() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        stream = live.stream()
        assert await soon(stream) == rig.parts
        rig.parts["summary"] = "<p>2</p>"
        live.touch()
        assert await soon(stream) == {"summary": "<p>2</p>"}
        await stopped(task)

    run(main, seed=1)


def test_a_page_that_was_just_loaded_is_not_sent_again_what_it_has() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        loaded = await live.now()
        assert await soon(live.stream(loaded.version)) == {}
        rig.parts["fleet"] = "<p>b</p>"
        live.touch()
        assert await soon(live.stream(loaded.version)) == {"fleet": "<p>b</p>"}
        await stopped(task)

    run(main, seed=1)


def test_the_version_of_another_run_means_nothing() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        await live.now()
        for strange in ("other-1", "run-", "run-x", "1", f"run-{'9' * 5000}"):
            assert await soon(live.stream(strange)) == rig.parts
        await stopped(task)

    run(main, seed=1)


def test_a_part_is_left_out_where_the_part_that_holds_it_is_sent() -> None:
    async def main() -> None:
        inner, outer = ["a"], ["x"]

        def look() -> dict[str, Part]:
            grid = Part(lambda: f"<ul>{inner[0]}</ul>", outer[0])
            group = Part(lambda: f"<li>{inner[0]}</li>", outer[0], "grid")
            return {"grid": grid, "group": group, "tile": Part(lambda: inner[0], inner[0], "group")}

        live = Live(lambda: look, LoopClock(), "run", at_once)
        version = (await live.now()).version
        inner[0] = "b"
        live.touch()
        assert await soon(live.stream(version)) == {"tile": "b"}
        outer[0] = "y"
        live.touch()
        assert await soon(live.stream(version)) == {"grid": "<ul>b</ul>"}

    run(main, seed=1)


def test_nothing_is_sent_when_nothing_changed() -> None:
    async def main() -> None:
        live, task = await started(Rig())
        stream = live.stream()
        await soon(stream)
        for _ in range(5):
            live.touch()
            await asyncio.sleep(1)
        async with asyncio.timeout(60):
            assert (await anext(stream)).startswith(b":")  # a heartbeat, so that proxies keep the connection
        await stopped(task)

    run(main, seed=1)


def test_changes_that_come_together_are_looked_at_once() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        stream = live.stream()
        await soon(stream)
        await asyncio.sleep(1)
        before = rig.looks
        for number in range(100):
            rig.parts["summary"] = f"<p>{number}</p>"
            live.touch()
        assert await soon(stream) == {"summary": "<p>99</p>"}
        assert rig.looks - before <= 2
        await stopped(task)

    run(main, seed=1)


def test_nothing_is_looked_at_while_nobody_looks() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        for _ in range(10):
            live.touch()
            await asyncio.sleep(1)
        assert rig.looks == 0
        await stopped(task)

    run(main, seed=1)


def test_a_page_that_opens_takes_no_change_away_from_one_that_is_open() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        first = live.stream()
        await soon(first)
        rig.parts["fleet"] = "<p>b</p>"
        await asyncio.sleep(1)
        second = live.stream()
        assert (await soon(second))["fleet"] == "<p>b</p>"
        live.touch()
        assert await soon(first) == {"fleet": "<p>b</p>"}
        await stopped(task)

    run(main, seed=1)


def test_a_page_that_does_not_read_is_let_go_and_the_others_are_not() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        slow, quick = live.stream(), live.stream()
        await soon(slow)
        await soon(quick)
        for number in range(100):
            rig.parts["summary"] = f"<p>{number + 2}</p>"
            live.touch()
            assert await soon(quick) == {"summary": f"<p>{number + 2}</p>"}
        frames = [frame async for frame in slow]
        assert len(frames) <= 64
        await stopped(task)

    run(main, seed=1)


def test_the_end_closes_every_stream() -> None:
    async def main() -> None:
        live, task = await started(Rig())
        stream = live.stream()
        await soon(stream)
        live.end()
        async with asyncio.timeout(1):
            assert [frame async for frame in stream] == []
        await stopped(task)

    run(main, seed=1)


def test_pages_that_open_together_share_one_look_and_miss_nothing() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        await asyncio.sleep(1)
        first = await live.now()
        rig.parts["summary"] = "<p>2</p>"
        live.touch()
        second = await live.now()
        assert (second.version, rig.looks) == (first.version, 1)
        # Its stream tells it at once what came since.
        assert await soon(live.stream(second.version)) == {"summary": "<p>2</p>"}
        await stopped(task)

    run(main, seed=1)


def test_requests_are_answered_while_a_page_is_drawn_and_whoever_asks_meanwhile_shares_the_next_look() -> None:
    async def main() -> None:
        rig, let_go, drawing = Rig(), asyncio.Event(), asyncio.Event()

        async def apart(work: Callable[[], T]) -> T:
            drawing.set()
            await let_go.wait()
            return work()

        live = Live(rig.look, LoopClock(), "run", apart)
        first = asyncio.create_task(live.now())
        await drawing.wait()
        await asyncio.sleep(1)  # the loop goes on although the look does not
        others = [asyncio.create_task(live.now()) for _ in range(5)]
        rig.parts["summary"] = "<p>2</p>"
        live.touch()
        await asyncio.sleep(1)
        let_go.set()
        assert (await first).parts["summary"].html() == "<p>1</p>"
        shown = await asyncio.gather(*others)
        assert {one.parts["summary"].html() for one in shown} == {"<p>2</p>"}
        assert rig.looks == 2

    run(main, seed=1)


def test_a_page_that_opens_while_another_is_told_is_told_too() -> None:
    async def main() -> None:
        rig, let_go = Rig(), asyncio.Event()
        let_go.set()

        async def apart(work: Callable[[], T]) -> T:
            await let_go.wait()
            return work()

        live = Live(rig.look, LoopClock(), "run", apart)
        task = asyncio.create_task(live.run())
        first = live.stream()
        await soon(first)
        let_go.clear()
        rig.parts["summary"] = "<p>2</p>"
        live.touch()
        await asyncio.sleep(0.5)  # its look is being drawn
        second = live.stream()
        opening = asyncio.create_task(soon(second))
        await asyncio.sleep(0.5)
        let_go.set()
        assert await soon(first) == {"summary": "<p>2</p>"}
        assert (await opening)["summary"] == "<p>2</p>"
        await stopped(task)

    run(main, seed=1)


def test_a_look_that_fails_is_made_again() -> None:
    async def main() -> None:
        rig = Rig()
        draws = iter([False, True, True])

        async def apart(work: Callable[[], T]) -> T:
            if not next(draws):
                raise RuntimeError("cannot be drawn")
            return work()

        live = Live(rig.look, LoopClock(), "run", apart)
        with pytest.raises(RuntimeError):
            await live.now()
        assert (await live.now()).parts["summary"].html() == "<p>1</p>"

    run(main, seed=1)


def test_a_time_that_grows_is_no_change_and_anything_beside_it_is() -> None:
    def part(text: str, word: str = "busy") -> Part:
        return Part.of(f'<p>{word} <time class="since" datetime="2026-01-01T00:00:00Z" title="x">{text}</time></p>')

    assert part("3 s").key == part("4 s").key
    assert part("3 s").key != part("3 s", "ready").key
    assert part("4 s").html().endswith(">4 s</time></p>")


def test_only_so_many_pages_are_streamed_to_and_one_that_closes_makes_room() -> None:
    async def main() -> None:
        rig = Rig()
        live, task = await started(rig)
        streams = [live.stream() for _ in range(MOST_PAGES)]
        for stream in streams:
            assert not live.full
            await soon(stream)
        assert live.full
        await streams[0].aclose()  # type: ignore[attr-defined]
        assert not live.full
        await stopped(task)

    run(main, seed=1)
