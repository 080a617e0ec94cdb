"""Processes that die where they stand, and come back without a memory."""

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from paddock.simulator.errors import SimulationError
from paddock.simulator.faults import Crash, FaultMoment
from paddock.simulator.interruptions import Interruption, interruptions
from paddock.simulator.process import World, simulate
from paddock.simulator.seeds import simulated


def ledger_app(entries: list[str], *, seconds: float = 0.0) -> Starlette:
    async def write(request: Request) -> JSONResponse:
        await asyncio.sleep(seconds)
        entries.append(request.path_params["name"])
        return JSONResponse({})

    async def read(_request: Request) -> JSONResponse:
        return JSONResponse(entries)

    return Starlette(routes=[Route("/{name}", write, methods=["PUT"]), Route("/", read)])


@simulated(seeds=10)
async def test_a_crash_leaves_no_further_effects_even_from_finally_blocks(world: World):
    entries: list[str] = []
    local: list[str] = []
    transport = world.transport(ledger_app(entries))

    async def main():
        client = httpx2.AsyncClient(transport=transport, base_url="http://ledger")

        async def child():
            try:
                while True:
                    await client.put("/beat")
                    await asyncio.sleep(10)
            finally:
                local.append("child")
                await client.put("/child-clean-up")

        task = asyncio.create_task(child())
        try:
            await task
        finally:
            local.append("main")
            await client.put("/main-clean-up")

    process = world.process("operator", main)
    await asyncio.sleep(25)
    process.crash()
    assert not process.running
    await asyncio.sleep(1000)
    assert entries == ["beat", "beat", "beat"]
    assert local == [], "not even the memory of the dead changes"


@pytest.mark.parametrize(("moment", "left"), [(FaultMoment.BEFORE, []), (FaultMoment.AFTER, ["one"])])
def test_a_crash_fault_kills_the_process_on_the_named_side_of_the_effect(moment, left):
    entries: list[str] = []
    went_on: list[str] = []

    async def scenario(world: World):
        world.faults.inject(Crash(moment), nth=1)

        async def main():
            async with httpx2.AsyncClient(
                transport=world.transport(ledger_app(entries)), base_url="http://l"
            ) as client:
                try:
                    await client.put("/one")
                    went_on.append("after the call")
                finally:
                    went_on.append("finally")

        process = world.process("operator", main)
        await process.ended()
        await asyncio.sleep(60)
        assert process.starts == 1
        assert len(world.trace.of("process.crash", by="operator")) == 1
        assert went_on == []

    simulate(scenario, seed=1)
    assert entries == left


def test_what_python_runs_of_a_dead_process_when_the_run_is_over_reaches_nothing():
    entries: list[str] = []
    worlds: list[World] = []

    async def scenario(world: World):
        worlds.append(world)
        transport = world.transport(ledger_app(entries))

        async def store() -> None:
            entries.append("stored by the dead")

        async def main():
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await world.faults.call("store", store)
                finally:
                    await httpx2.AsyncClient(transport=transport, base_url="http://l").put("/sent-by-the-dead")

        world.process("operator", main)
        await asyncio.sleep(1)

    simulate(scenario, seed=1)
    assert entries == []
    assert worlds[0].faults.calls == []


@simulated(seeds=5)
async def test_a_request_whose_client_crashed_still_has_its_effect(world: World):
    entries: list[str] = []
    transport = world.transport(ledger_app(entries, seconds=30))

    async def main():
        await httpx2.AsyncClient(transport=transport, base_url="http://l", timeout=60).put("/one")

    process = world.process("operator", main)
    await asyncio.sleep(10)
    process.crash()
    await asyncio.sleep(30)
    assert entries == ["one"]


@simulated(seeds=5)
async def test_a_process_is_started_again_after_its_crash_and_remembers_nothing(world: World):
    beats: list[tuple[float, int]] = []

    async def main():
        for count in range(1000):
            beats.append((world.clock.monotonic(), count))
            await asyncio.sleep(10)

    process = world.process("operator", main, restart_after=5)
    await asyncio.sleep(15)
    process.crash()
    await process.started(2)
    assert world.clock.monotonic() == 20
    await asyncio.sleep(15)
    assert beats == [(0, 0), (10, 1), (20, 0), (30, 1)]


@simulated(seeds=5)
async def test_a_server_process_that_crashes_resets_its_clients_and_refuses_until_it_is_back(world: World):
    async def hang(_request: Request) -> PlainTextResponse:
        await asyncio.sleep(1000)
        return PlainTextResponse("")

    async def serve():
        await asyncio.Event().wait()

    server = world.process("server", serve)
    transport = world.transport(Starlette(routes=[Route("/", hang), Route("/ok", lambda _request: None)]), host=server)
    async with httpx2.AsyncClient(transport=transport, base_url="http://server", timeout=None) as client:
        asyncio.get_running_loop().call_later(30, server.crash)
        with pytest.raises(httpx2.ReadError, match="reset"):
            await client.get("/")
        assert world.clock.monotonic() == 30
        with pytest.raises(httpx2.ConnectError):
            await client.get("/")
        server.start()
        assert (await client.get("/unknown")).status_code == 404


@simulated(seeds=5)
async def test_a_process_that_is_stopped_may_clean_up(world: World):
    entries: list[str] = []
    transport = world.transport(ledger_app(entries))

    async def main():
        try:
            await asyncio.Event().wait()
        finally:
            async with httpx2.AsyncClient(transport=transport, base_url="http://l") as client:
                await client.put("/goodbye")

    process = world.process("operator", main, restart_after=1)
    await asyncio.sleep(10)
    await process.stop()
    await asyncio.sleep(10)
    assert entries == ["goodbye"]
    assert not process.running


def test_a_process_that_fails_fails_the_run():
    async def scenario(world: World):
        async def main():
            raise KeyError("bug")

        world.process("operator", main)
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="process operator failed") as caught:
        simulate(scenario, seed=9)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "seed 9" in caught.value.__notes__
    assert any("process.failed" in note for note in caught.value.__notes__)


def test_a_process_that_fails_and_is_started_again_does_not_fail_the_run():
    async def scenario(world: World):
        async def main():
            await asyncio.sleep(10)
            raise ConnectionError("the database is away")

        process = world.process("operator", main, restart_after=5)
        await asyncio.sleep(42)
        return process.starts

    outcome = simulate(scenario, seed=9)
    assert outcome.result == 3
    assert len(outcome.world.trace.of("process.failed")) == 3


def test_what_dead_processes_left_behind_is_buried_in_silence(recwarn):
    async def scenario(world: World):
        async def main():
            async def numbers():
                try:
                    yield 1
                    await asyncio.sleep(1000)
                finally:
                    await asyncio.sleep(1)

            try:
                async for _ in numbers():
                    pass
            finally:
                await asyncio.sleep(5)

        world.process("operator", main, restart_after=1)
        for _ in range(5):
            await asyncio.sleep(10)
            world.processes["operator"].crash()

    simulate(scenario, seed=1)
    assert [str(warning.message) for warning in recwarn] == []


def steps_to_done(calls: tuple[str, ...], runs: list[tuple[str, ...]]):
    """A process that makes these calls one after the other, each again until it succeeds, and starts over when it dies."""

    async def scenario(world: World) -> list[str]:
        entries: list[str] = []
        transport = world.transport(ledger_app(entries))
        done = asyncio.Event()

        async def main():
            async with httpx2.AsyncClient(transport=transport, base_url="http://l") as client:
                for name in calls:
                    while True:
                        try:
                            await client.put(f"/{name}")
                            break
                        except httpx2.TransportError:
                            await asyncio.sleep(1)
            done.set()

        world.process("operator", main, restart_after=5)
        await done.wait()
        runs.append(tuple(entries))
        return entries

    return scenario


def test_interruptions_enumerate_every_call_exactly_once_for_each_kind():
    runs: list[tuple[str, ...]] = []
    cases = interruptions(steps_to_done(("a", "b", "c"), runs), seed=3)
    done = [(case.call.name, case.kind) for case in cases]
    assert done == [(name, kind) for name in ("PUT /a", "PUT /b", "PUT /c") for kind in Interruption]
    assert len(runs) == 1 + len(cases)
    effects = {(case.call.name, case.kind): case.outcome.result for case in cases}
    assert effects["PUT /b", Interruption.CRASH_BEFORE] == ["a", "a", "b", "c"]
    assert effects["PUT /b", Interruption.CRASH_AFTER] == ["a", "b", "a", "b", "c"]
    assert effects["PUT /b", Interruption.LOSE_ANSWER] == ["a", "b", "b", "c"]
    assert effects["PUT /b", Interruption.FAIL_BEFORE] == ["a", "b", "c"]


def test_interruptions_reach_effects_that_are_not_http():
    async def scenario(world: World) -> int:
        total = 0
        done = asyncio.Event()

        async def main():
            nonlocal total
            async with world.faults.effect("ssh wipe"):
                total += 1
            done.set()

        world.process("operator", main, restart_after=1)
        await done.wait()
        return total

    crashes = (Interruption.CRASH_BEFORE, Interruption.CRASH_AFTER)
    cases = interruptions(scenario, kinds=crashes)
    assert [(case.kind, case.outcome.result) for case in cases] == [
        (Interruption.CRASH_BEFORE, 1),
        (Interruption.CRASH_AFTER, 2),
    ]


def test_calls_of_no_process_are_not_crashed():
    async def scenario(world: World) -> None:
        async def act() -> None:
            return None

        await asyncio.gather(world.faults.call("probe", act), return_exceptions=True)

    cases = interruptions(scenario)
    assert [case.kind for case in cases] == [Interruption.LOSE_ANSWER, Interruption.FAIL_BEFORE]


def test_a_scenario_that_does_not_survive_is_reported_with_the_call_and_the_kind():
    async def scenario(world: World) -> None:
        paid = 0
        done = asyncio.Event()

        async def main():
            nonlocal paid

            async def pay() -> None:
                nonlocal paid
                paid += 1

            await world.faults.call("pay", pay)
            done.set()

        world.process("shop", main, restart_after=1)
        await done.wait()
        assert paid == 1

    with pytest.raises(AssertionError) as caught:
        interruptions(scenario, seed=2)
    assert "interrupted: crash after call 1 of shop: pay" in caught.value.__notes__
    assert "seed 2" in caught.value.__notes__
