"""The same seed gives the same trace, byte for byte, in this interpreter and in any other."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from paddock.simulator.faults import Crash, Delay, Duplicate, Fail, FaultMoment, LoseAnswer
from paddock.simulator.loop import run
from paddock.simulator.process import World, simulate
from paddock.simulator.trace import Trace


async def a_busy_day(world: World) -> None:
    """Three processes, latencies, a storm of faults with crashes, watches, and cancel scopes over sets of tasks."""
    entries: list[str] = []

    async def write(request: Request) -> JSONResponse:
        entries.append(request.path_params["name"])
        world.trace.record("written", name=entries[-1], size=len(entries), unordered={"b", "a", "c"})
        return JSONResponse({}, 200 if len(entries) % 7 else 500)

    async def watch(_request: Request) -> StreamingResponse:
        async def lines():
            while True:
                yield f"{len(entries)}\n"
                await asyncio.sleep(3)

        return StreamingResponse(lines())

    app = Starlette(routes=[Route("/{name}", write, methods=["PUT"]), Route("/watch", watch)])
    faults = (
        Fail(),
        Fail(503),
        LoseAnswer("timeout"),
        Duplicate(),
        Delay(2),
        Crash(FaultMoment.BEFORE),
        Crash(FaultMoment.AFTER),
    )
    world.faults.inject(*faults, method="PUT", probability=0.2, until=150)

    def main(name: str):
        async def work() -> None:
            transport = world.transport(app, latency=(0.01, 0.2), purpose=f"latency of {name}")
            async with httpx2.AsyncClient(transport=transport, base_url="http://cloud") as client:

                async def follow() -> None:
                    async with client.stream("GET", "/watch") as response:
                        async for line in response.aiter_lines():
                            world.trace.record("seen", size=line)

                async def put(number: int) -> None:
                    try:
                        await client.put(f"/{name}-{number}")
                    except httpx2.TransportError as error:
                        world.trace.record("error", kind=type(error).__name__)

                while True:
                    async with anyio.create_task_group() as group:
                        for _ in range(3):
                            group.start_soon(follow)
                        for number in range(3):
                            group.start_soon(put, number)
                        await asyncio.sleep(10)
                        group.cancel_scope.cancel()

        return work

    for name in ("one", "two", "three"):
        world.process(name, main(name), restart_after=7)
    await asyncio.sleep(200)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_twice_in_one_interpreter():
    first, second = (simulate(a_busy_day, seed=42).trace for _ in range(2))
    assert first == second
    assert first.count("process.crash") > 2
    assert simulate(a_busy_day, seed=43).trace != first


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_in_interpreters_with_different_hash_seeds():
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_trace as t;"
        "sys.stdout.write(t.simulate(t.a_busy_day, seed=42).trace)"
    )
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "77")
    ]
    assert traces[0] == traces[1] == simulate(a_busy_day, seed=42).trace


def test_entries_are_rendered_as_lines_with_time_process_event_and_fields():
    async def main():
        trace = Trace()
        await asyncio.sleep(12.5)
        trace.record(
            "claimed", host="mac 1", count=2, moment=datetime(2026, 1, 1, tzinfo=UTC), tags={"b", "a"}, empty=""
        )
        trace.record("released", by="operator", ok=True, why={"z": 1, "a": None}, text="two\nlines")
        return trace

    trace = run(main, seed=1)
    assert trace.text() == (
        '     12.500000 world claimed host="mac 1" count=2 moment=2026-01-01T00:00:00.000000Z tags="{a,b}" empty=""\n'
        '     12.500000 operator released ok=True why="{a:None,z:1}" text="two\\nlines"\n'
    )
    assert [entry.process for entry in trace.of("released")] == ["operator"]
    assert trace.of("released", by="world") == []


def test_a_value_whose_text_could_differ_between_runs_is_refused():
    async def main():
        Trace().record("bad", thing=object())

    with pytest.raises(TypeError, match="trace field 'thing' is a object"):
        run(main, seed=1)
