"""From a change to a reconcile, and what becomes of its result."""

import asyncio
import random
from collections import Counter
from itertools import pairwise

import pytest
import structlog
from unit.kube.fake_api import FakeApi
from unit.kube.things import COLLECTION, Thing, client_of, raw, running, until
from unit.kube.virtual_time import virtual

from paddock.base.backoff import Backoff
from paddock.base.clock import LoopClock
from paddock.kube.controller import (
    Controller,
    Done,
    Request,
    RequeueAfter,
    Result,
    TerminalError,
    its_controller,
    step_aside,
)
from paddock.kube.errors import ThrottledError
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics


class World:
    def __init__(self, reconcile, **options) -> None:
        self.api = FakeApi()
        self.metrics = KubeMetrics()
        self.informer = Informer(client_of(self.api), Thing, clock=LoopClock(), rng=random.Random(1))
        self.seen: list[str] = []

        async def recorded(request: Request) -> Result:
            self.seen.append(request.name)
            return await reconcile(request)

        self.controller = Controller(
            "test", recorded, clock=LoopClock(), rng=random.Random(1), metrics=self.metrics, **options
        )

    def running(self):
        return running(self.informer.run(), self.controller.run())

    def outcomes(self, outcome: str) -> float:
        labels = {"controller": "test", "outcome": outcome}
        return self.metrics.registry.get_sample_value("paddock_reconcile_total", labels) or 0


async def done(_request: Request) -> Result:
    return Done()


@virtual
async def test_every_object_is_looked_at_once_at_the_start_and_again_when_it_changes():
    world = World(done, workers=3)
    world.controller.watches(world.informer)
    for name in "ab":
        world.api.put(COLLECTION, raw(name))
    async with world.running():
        await until(lambda: sorted(world.seen) == ["a", "b"])
        world.api.put(COLLECTION, raw("b", size=2))
        await until(lambda: sorted(world.seen) == ["a", "b", "b"])
        world.api.remove(COLLECTION, "a", "ns")
        await until(lambda: Counter(world.seen)["a"] == 2)
        await asyncio.sleep(100)
    assert len(world.seen) == 4
    assert world.outcomes("done") == 4


@virtual
async def test_requeue_after_comes_back_in_time():
    at: list[float] = []

    async def reconcile(_request: Request) -> Result:
        at.append(asyncio.get_running_loop().time())
        return RequeueAfter(30) if len(at) < 4 else Done()

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    async with world.running():
        await asyncio.sleep(200)
    assert [round(later - earlier) for earlier, later in pairwise(at)] == [30, 30, 30]


def test_a_requeue_after_nothing_is_refused_because_a_worker_would_spin():
    with pytest.raises(ValueError, match="more than 0"):
        RequeueAfter(0)


@virtual
async def test_one_bad_object_is_retried_with_backoff_and_never_stops_the_others():
    async def reconcile(request: Request) -> Result:
        if request.name == "bad":
            raise ZeroDivisionError
        return Done()

    world = World(reconcile, backoff=Backoff(base=1, cap=60, jitter=0))
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("bad"))
    with structlog.testing.capture_logs() as logs:
        async with world.running():
            await asyncio.sleep(100)
            world.api.put(COLLECTION, raw("good"))
            await until(lambda: "good" in world.seen)
    assert Counter(world.seen)["bad"] == 7, "at 0, 1, 3, 7, 15, 31 and 63 seconds"
    assert world.outcomes("error") == 7
    assert {line["event"] for line in logs} == {"could not be reconciled"}


@virtual
async def test_a_terminal_error_is_not_retried_until_the_object_changes():
    async def reconcile(_request: Request) -> Result:
        raise TerminalError("the zone does not exist")

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    with structlog.testing.capture_logs():
        async with world.running():
            await asyncio.sleep(1000)
            assert world.seen == ["a"]
            world.api.put(COLLECTION, raw("a", size=2))
            await until(lambda: world.seen == ["a", "a"])
    assert world.outcomes("terminal") == 2


@virtual
async def test_what_the_server_asks_for_is_waited_for():
    async def reconcile(_request: Request) -> Result:
        raise ThrottledError("slow down", code=429, retry_after=40)

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    with structlog.testing.capture_logs():
        async with world.running():
            await asyncio.sleep(39)
            assert len(world.seen) == 1
            await asyncio.sleep(2)
            assert len(world.seen) == 2


@virtual
async def test_a_reconcile_that_takes_too_long_is_ended_and_retried():
    async def reconcile(_request: Request) -> Result:
        await asyncio.sleep(1000)
        return Done()

    world = World(reconcile, timeout=20.0)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    with structlog.testing.capture_logs():
        async with world.running():
            await asyncio.sleep(30)
    assert world.outcomes("timeout") == 1
    assert len(world.seen) == 2


@virtual
async def test_a_worker_survives_a_cancellation_that_was_not_meant_for_it():
    async def reconcile(request: Request) -> Result:
        if len(world.seen) == 1:
            raise asyncio.CancelledError
        return Done()

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    with structlog.testing.capture_logs():
        async with world.running():
            await until(lambda: world.outcomes("done") == 1)


@virtual
async def test_a_reconciler_that_returns_nonsense_is_told_so():
    async def reconcile(_request: Request) -> Result:
        return None  # type: ignore[return-value]

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    with structlog.testing.capture_logs() as logs:
        async with world.running():
            await until(lambda: bool(logs))
    assert "must return Done or RequeueAfter" in str(logs[0]["exc_info"])


@virtual
async def test_sources_map_objects_to_their_controller_and_predicates_filter():
    world = World(done)
    world.controller.watches(
        world.informer, its_controller("Parent"), predicate=lambda change: change.obj.spec.size < 10
    )
    owner = {"apiVersion": "v1", "kind": "Parent", "name": "mum", "uid": "u", "controller": True}
    async with world.running():
        world.api.put(COLLECTION, raw("orphan"))
        world.api.put(COLLECTION, raw("child", ownerReferences=[owner]))
        world.api.put(COLLECTION, raw("large", size=11, ownerReferences=[{**owner, "name": "aunt"}]))
        await asyncio.sleep(10)
    assert world.seen == ["mum"]


@virtual
async def test_the_old_owner_hears_of_a_move_too():
    world = World(done)
    world.controller.watches(world.informer, lambda obj: [Request("", f"size-{obj.spec.size}")])
    world.api.put(COLLECTION, raw("a", size=1))
    async with world.running():
        await until(lambda: world.seen == ["size-1"])
        world.api.put(COLLECTION, raw("a", size=2))
        await asyncio.sleep(1)
    assert sorted(world.seen) == ["size-1", "size-1", "size-2"]


@virtual
async def test_a_mapper_that_raises_keeps_nobody_else_out():
    def mapper(obj: Thing):
        if obj.metadata.name == "bad":
            raise ZeroDivisionError
        return [Request(obj.metadata.namespace, obj.metadata.name)]

    world = World(done)
    world.controller.watches(world.informer, mapper)
    for name in ("bad", "good"):
        world.api.put(COLLECTION, raw(name))
    with structlog.testing.capture_logs():
        async with world.running():
            await until(lambda: world.seen == ["good"])


@virtual
async def test_a_second_run_looks_at_everything_again():
    world = World(done)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    async with running(world.informer.run()):
        for count in (1, 2):
            async with running(world.controller.run()):
                await until(lambda n=count: len(world.seen) == n)
        world.api.put(COLLECTION, raw("a", size=5))
        await asyncio.sleep(10)
        assert len(world.seen) == 2, "while it does not run, nothing is queued"


@virtual
async def test_stopping_finishes_what_is_in_hand_and_no_more():
    ended: list[str] = []

    async def reconcile(request: Request) -> Result:
        await asyncio.sleep(5)
        ended.append(request.name)
        return Done()

    world = World(reconcile)
    world.controller.watches(world.informer)
    for name in "abc":
        world.api.put(COLLECTION, raw(name))
    async with running(world.informer.run()):
        run = asyncio.create_task(world.controller.run())
        await until(lambda: len(world.seen) == 1)
        await world.controller.stop()
        await asyncio.wait_for(run, 1)
    assert ended == ["a"]


@virtual
async def test_log_lines_of_a_reconcile_say_which_object_they_are_about():
    bound: list[dict] = []

    async def reconcile(_request: Request) -> Result:
        bound.append(structlog.contextvars.get_contextvars())
        return Done()

    world = World(reconcile)
    world.controller.watches(world.informer)
    world.api.put(COLLECTION, raw("a"))
    async with world.running():
        await until(lambda: bool(bound))
    assert bound == [{"controller": "test", "namespace": "ns", "name": "a"}]


@virtual
async def test_a_reconcile_that_steps_aside_holds_up_nobody_and_waits_for_a_worker_behind_it():
    at_once = most = 0

    async def reconcile(request: Request) -> Result:
        nonlocal at_once, most
        if request.name.startswith("slow"):
            async with step_aside():
                await asyncio.sleep(100)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1
        return Done()

    world = World(reconcile, workers=2)
    world.controller.watches(world.informer)
    for number in range(10):
        world.api.put(COLLECTION, raw(f"slow-{number}"))
    async with world.running():
        await until(lambda: len(world.seen) == 10)
        world.api.put(COLLECTION, raw("quick"))
        world.api.put(COLLECTION, raw("slow-0", size=2))
        await asyncio.sleep(3)
        assert world.outcomes("done") == 1, "the quick one is done, while ten wait"
        assert Counter(world.seen)["slow-0"] == 1, "and no object is looked at twice at once"
        await asyncio.sleep(300)
    assert world.outcomes("done") == 12
    assert most == 2, "what follows needs a worker again"
