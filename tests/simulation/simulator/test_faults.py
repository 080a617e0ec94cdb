"""Faults at effects: before, after, twice, late, and cut in the middle."""

import asyncio
from dataclasses import dataclass, field

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from paddock.base.rng import seeded
from paddock.simulator.errors import SimulationError
from paddock.simulator.faults import (
    AnswerLostError,
    Crash,
    CutStream,
    Delay,
    Duplicate,
    EffectFailedError,
    Fail,
    FaultMoment,
    Faults,
    Late,
    LoseAnswer,
)
from paddock.simulator.loop import run
from paddock.simulator.process import World, simulate


@dataclass
class Cloud:
    """A ledger of renames, each with the time of its arrival."""

    renames: list[tuple[float, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.renames]

    def app(self) -> Starlette:
        async def rename(request: Request) -> JSONResponse:
            name = (await request.json())["name"]
            self.renames.append((asyncio.get_running_loop().time(), name))
            return JSONResponse({"name": name, "count": len(self.renames)})

        async def watch(_request: Request) -> StreamingResponse:
            async def lines():
                for number in range(100):
                    yield f"event {number}\n"
                    await asyncio.sleep(1)

            return StreamingResponse(lines())

        return Starlette(routes=[Route("/servers/{id}", rename, methods=["PATCH"]), Route("/watch", watch)])


def cloudy(scenario) -> Cloud:
    """Run a scenario that gets a world, a client of a simulated cloud, and the cloud itself."""
    cloud = Cloud()

    async def inside(world: World) -> None:
        async with httpx2.AsyncClient(transport=world.transport(cloud.app()), base_url="http://cloud") as client:
            await scenario(world, client, cloud)

    simulate(inside, seed=1)
    return cloud


def test_an_answer_lost_after_the_effect_is_an_error_and_the_effect_stays():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(LoseAnswer(), method="PATCH", path="/servers/*", nth=1)
        with pytest.raises(httpx2.ReadError):
            await client.patch("/servers/1", json={"name": "mine"})
        assert cloud.names == ["mine"]
        assert (await client.patch("/servers/1", json={"name": "again"})).status_code == 200

    assert cloudy(scenario).names == ["mine", "again"]


def test_an_answer_lost_to_a_timeout_costs_the_clients_patience():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(LoseAnswer("timeout"))
        with pytest.raises(httpx2.ReadTimeout):
            await client.patch("/servers/1", json={"name": "mine"}, timeout=7)
        assert world.clock.monotonic() == 7

    assert cloudy(scenario).renames == [(0.0, "mine")]


@pytest.mark.parametrize(("status", "retry_after"), [(500, None), (503, None), (429, 30)])
def test_a_refusal_has_no_effect_and_says_when_to_come_back(status, retry_after):
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(Fail(status, retry_after=retry_after))
        answer = await client.patch("/servers/1", json={"name": "mine"})
        assert answer.status_code == status
        assert answer.headers.get("retry-after") == (str(retry_after) if retry_after else None)

    assert cloudy(scenario).names == []


def test_a_refused_connection_has_no_effect():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(Fail())
        with pytest.raises(httpx2.ConnectError):
            await client.patch("/servers/1", json={"name": "mine"})

    assert cloudy(scenario).names == []


def test_a_duplicated_request_arrives_twice_and_is_answered_once():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(Duplicate("first"), nth=1)
        world.faults.inject(Duplicate("second"), nth=1)
        assert (await client.patch("/servers/1", json={"name": "a"})).json()["count"] == 1
        assert (await client.patch("/servers/1", json={"name": "b"})).json()["count"] == 4

    assert cloudy(scenario).names == ["a", "a", "b", "b"]


def test_a_delayed_request_arrives_late_and_is_answered():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(Delay(20))
        assert (await client.patch("/servers/1", json={"name": "mine"})).status_code == 200

    assert cloudy(scenario).renames == [(20.0, "mine")]


def test_a_late_request_arrives_after_its_caller_has_given_up_and_even_died():
    cloud = Cloud()

    async def scenario(world: World):
        world.faults.inject(Late(60))

        async def caller():
            async with httpx2.AsyncClient(transport=world.transport(cloud.app()), base_url="http://cloud") as client:
                await client.patch("/servers/1", json={"name": "mine"}, timeout=10)

        process = world.process("caller", caller)
        await asyncio.sleep(5)
        process.crash()
        await asyncio.sleep(100)

    simulate(scenario, seed=1)
    assert cloud.renames == [(60.0, "mine")]


@pytest.mark.parametrize("clean", [False, True])
def test_a_stream_is_cut_after_some_chunks(clean):
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(CutStream(3, clean=clean), path="/watch")
        seen: list[str] = []
        error = None
        async with client.stream("GET", "/watch") as response:
            try:
                async for line in response.aiter_lines():
                    seen.append(line)  # noqa: PERF401 - what came before the error is the point
            except httpx2.ReadError as caught:
                error = caught
        assert seen == ["event 0", "event 1", "event 2"]
        assert (error is None) is clean

    cloudy(scenario)


def test_rules_choose_by_predicate_count_time_and_probability():
    async def main():
        faults = Faults(seeded(1))
        faults.inject(Fail(), name="ssh *", where=lambda call: call.name.endswith("reboot"), times=1)
        faults.inject(Fail(), LoseAnswer(), name="store *", probability=0.5, until=100)

        async def act() -> str:
            return "ok"

        assert await faults.call("ssh uptime", act) == "ok"
        with pytest.raises(EffectFailedError):
            await faults.call("ssh reboot", act)
        assert await faults.call("ssh reboot", act) == "ok"
        results = await asyncio.gather(*(faults.call("store put", act) for _ in range(100)), return_exceptions=True)
        kinds = {type(result) for result in results}
        assert kinds == {str, EffectFailedError, AnswerLostError}
        await asyncio.sleep(100)
        assert [await faults.call("store put", act) for _ in range(50)] == ["ok"] * 50
        return tuple(type(result).__name__ for result in results)

    assert run(main, seed=1) == run(main, seed=1)


def test_effects_that_are_not_http_can_fail_before_and_lose_their_answer_after():
    class HostUnreachableError(Exception):
        pass

    async def main():
        faults = Faults(seeded(1))
        done: list[str] = []

        async def act() -> int:
            done.append("act")
            return len(done)

        faults.inject(Fail(), name="fail")
        faults.inject(LoseAnswer("timeout"), name="lose")
        faults.inject(Duplicate("second"), name="twice")
        faults.inject(Late(9), name="late")
        with pytest.raises(HostUnreachableError):
            await faults.call("fail", act, error=lambda failure: HostUnreachableError(str(failure)))
        assert done == []
        with pytest.raises(AnswerLostError):
            await faults.call("lose", act, timeout=3)
        assert (len(done), asyncio.get_running_loop().time()) == (1, 3)
        assert await faults.call("twice", act) == 3
        with pytest.raises(AnswerLostError):
            await faults.call("late", act, timeout=2)
        assert len(done) == 3
        await asyncio.sleep(10)
        assert len(done) == 4

        with pytest.raises(EffectFailedError):
            async with faults.effect("fail"):
                done.append("never")
        with pytest.raises(AnswerLostError):
            async with faults.effect("lose"):
                done.append("block")
        assert done == ["act"] * 4 + ["block"]
        assert [call.name for call in faults.calls] == ["fail", "lose", "twice", "late", "fail", "lose"]

    run(main, seed=1)


def test_a_crash_outside_every_process_is_a_mistake_of_the_test():
    async def scenario(world: World, client: httpx2.AsyncClient, cloud: Cloud):
        world.faults.inject(Crash(FaultMoment.BEFORE))
        await client.patch("/servers/1", json={"name": "mine"})

    with pytest.raises(SimulationError, match="no process made it"):
        cloudy(scenario)
