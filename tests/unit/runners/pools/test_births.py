"""Pods are made a few at a time: one after the other a pool of many would take minutes on a slow server."""

import asyncio
import random
from typing import Any

import pytest
from doubles.clocks import SteppedClock
from unit.runners.pools.built import node, planned, pool

from paddock.kube.errors import ForbiddenError, UnavailableError
from paddock.runners.pools.effects import PoolContext, PoolEffects
from paddock.runners.pools.memory import PoolMemory
from paddock.runners.pools.settings import PoolSettings

SETTINGS = PoolSettings(dispatch_url="https://paddock.example")


class Server:
    """Answers after a turn of the loop, and refuses the Pods whose turn is in `refused`."""

    def __init__(self, refused: dict[int, Exception] | None = None) -> None:
        self.refused = refused or {}
        self.pods, self.now, self.most = 0, 0, 0
        self.together: list[int] = []
        self.deleted = 0

    async def create(self, obj: dict[str, Any], _where: Any) -> dict[str, Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        turn = self.pods
        self.pods += obj["kind"] == "Pod"
        try:
            await asyncio.sleep(0)
            self.together.append(self.now)
            if obj["kind"] == "Pod" and (error := self.refused.get(turn)) is not None:
                raise error
        finally:
            self.now -= 1
        return {"metadata": {"uid": f"uid of {obj['metadata']['name']}"}}

    async def merge_patch(self, *_: Any, **__: Any) -> None:
        return None

    async def delete(self, *_: Any, **__: Any) -> None:
        self.deleted += 1


def effects(server: Server) -> tuple[PoolEffects, PoolMemory]:
    clock: Any = SteppedClock()
    anything: Any = server
    memory = PoolMemory(clock, SETTINGS)
    context = PoolContext(
        client=anything,
        retirement=anything,
        settings=SETTINGS,
        recorder=anything,
        clock=clock,
        rng=random.Random(1),
    )
    return PoolEffects(context, memory), memory


def twenty() -> Any:
    many = pool(replicas=20)
    return many, planned(many, [], *(node(f"n{number}") for number in range(10)))


async def test_the_first_is_made_alone_and_the_others_eight_at_a_time() -> None:
    server = Server()
    made, _ = effects(server)
    many, plan = twenty()
    assert plan.create == 20
    await made.create(many, plan)
    assert (server.pods, server.most, server.together[0]) == (20, 8, 1)


async def test_what_the_server_refuses_is_asked_for_once_and_counts_no_place() -> None:
    server = Server({0: ForbiddenError("no")})
    made, memory = effects(server)
    many, plan = twenty()
    with pytest.raises(ForbiddenError):
        await made.create(many, plan)
    assert (server.pods, server.deleted, memory.reserved(many, ())) == (1, 1, [])


async def test_of_a_batch_only_what_may_have_been_made_keeps_its_place() -> None:
    server = Server({3: UnavailableError("away"), 4: ForbiddenError("no")})
    made, memory = effects(server)
    many, plan = twenty()
    with pytest.raises(UnavailableError):
        await made.create(many, plan)
    assert server.pods == 9
    # Seven were made and are not in a list yet, one may have been; the refused one and those never tried count nothing.
    assert len(memory.reserved(many, ())) == 8
