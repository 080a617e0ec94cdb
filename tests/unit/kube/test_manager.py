"""How a process starts and stops, and what survives what."""

import asyncio
import random
from itertools import pairwise

import pytest
import structlog
from unit.kube.fake_api import Answer, FakeApi, status
from unit.kube.things import COLLECTION, Thing, client_of, raw, running, until
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock
from paddock.kube.controller import Controller, Done, Request, Result
from paddock.kube.informer import Informer
from paddock.kube.leader import LeaderElectionConfig, LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics


@pytest.fixture(autouse=True)
def quiet():
    with structlog.testing.capture_logs() as logs:
        yield logs


class Process:
    def __init__(self, api: FakeApi, *, elect: bool = False, identity: str = "a", seconds: float = 0.0) -> None:
        clock, rng = LoopClock(), random.Random(identity)
        self.log: list[str] = []
        self.metrics = KubeMetrics()
        self.informer = Informer(client_of(api), Thing, clock=clock, rng=rng)
        config = LeaderElectionConfig(name="paddock", namespace="ns", identity=identity)
        elector = LeaderElector(client_of(api), config, clock=clock, rng=rng)
        self.manager = Manager(clock=clock, rng=rng, metrics=self.metrics, elector=elector if elect else None)

        async def reconcile(request: Request) -> Result:
            self.log.append(f"begin {request.name}")
            await asyncio.sleep(seconds)
            self.log.append(f"end {request.name}")
            return Done()

        self.controller = Controller("things", reconcile, clock=clock, rng=rng).watches(self.informer)
        self.manager.add_controller(self.controller)

    def failures(self, name: str) -> float:
        return self.metrics.registry.get_sample_value("paddock_runnable_failures_total", {"runnable": name}) or 0

    def noted(self, name: str):
        async def run() -> None:
            self.log.append(f"start {name}")
            try:
                await asyncio.Event().wait()
            finally:
                self.log.append(f"stop {name}")

        return run


@virtual
async def test_nothing_runs_before_the_caches_are_synced():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    api.faults.append(lambda _call: Answer(404, b"404 page not found"))
    process = Process(api)
    process.manager.add_runnable("web", process.noted("web"))
    assert not process.manager.readyz().ok
    async with running(process.manager.run()):
        await asyncio.sleep(100)
        assert process.log == []
        assert process.manager.healthz().ok
        ready = process.manager.readyz()
        assert not ready.ok
        assert "install the CustomResourceDefinitions" in ready.text
        assert list(process.manager.problems()) == [COLLECTION]
        api.faults.clear()
        await until(lambda: sorted(process.log) == ["begin a", "end a", "start web"], within=60)
        assert process.manager.readyz().ok


@virtual
async def test_a_stop_ends_everything_in_reverse_and_lets_a_reconcile_finish():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    process = Process(api, elect=True, seconds=5)
    process.manager.add_runnable("web", process.noted("web"))
    process.manager.add_runnable("sweep", process.noted("sweep"), leader_only=True)
    run = asyncio.create_task(process.manager.run())
    await until(lambda: "begin a" in process.log, within=30)
    process.manager.stop()
    await asyncio.wait_for(run, 20)
    assert process.log.index("end a") < process.log.index("stop sweep") < process.log.index("stop web")
    assert api.objects["leases.coordination.k8s.io", "ns", "paddock"]["spec"]["holderIdentity"] == ""
    assert not process.manager.healthz().ok


@virtual
async def test_being_cancelled_is_a_clean_stop_too():
    api = FakeApi()
    process = Process(api, elect=True)
    process.manager.add_runnable("sweep", process.noted("sweep"), leader_only=True)
    async with running(process.manager.run()):
        await until(lambda: process.log == ["start sweep"], within=30)
    assert process.log == ["start sweep", "stop sweep"]
    assert api.objects["leases.coordination.k8s.io", "ns", "paddock"]["spec"]["holderIdentity"] == ""


@virtual
async def test_only_the_leader_runs_controllers_and_a_successor_takes_over():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    first, second = Process(api, elect=True), Process(api, elect=True, identity="b")
    second.manager.add_runnable("web", second.noted("web"))
    run = asyncio.create_task(first.manager.run())
    await until(lambda: "end a" in first.log, within=30)
    async with running(second.manager.run()):
        await asyncio.sleep(60)
        assert second.log == ["start web"]
        assert second.manager.readyz().ok
        first.manager.stop()
        await run
        await until(lambda: "end a" in second.log, within=30)


@virtual
async def test_a_loss_of_leadership_stops_the_leaders_work_at_once_and_nothing_else():
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    process = Process(api, elect=True, seconds=1000)
    process.manager.add_runnable("web", process.noted("web"))
    process.manager.add_runnable("sweep", process.noted("sweep"), leader_only=True)
    async with running(process.manager.run()):
        await until(lambda: "begin a" in process.log, within=30)
        api.faults.append(lambda call: status(500, "InternalError") if "leases" in call.path else None)
        await until(lambda: "stop sweep" in process.log, within=30)
        await asyncio.sleep(60)
        assert "end a" not in process.log
        assert "stop web" not in process.log
        api.faults.clear()
        await until(lambda: process.log.count("begin a") == 2, within=60)


@virtual
async def test_a_runnable_that_fails_is_started_again_with_backoff():
    api = FakeApi()
    process = Process(api)
    starts: list[float] = []

    async def fragile() -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) < 5:
            raise ZeroDivisionError
        await asyncio.Event().wait()

    async def confused() -> None:
        raise asyncio.CancelledError

    process.manager.add_runnable("fragile", fragile)
    process.manager.add_runnable("confused", confused)
    process.manager.add_runnable("web", process.noted("web"))
    async with running(process.manager.run()):
        await asyncio.sleep(60)
        assert len(starts) == 5
        assert process.failures("fragile") == 4
        assert process.failures("confused") >= 4
        assert process.log == ["start web"]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 0.8


@virtual
async def test_a_periodic_action_keeps_its_pace_through_failures():
    api = FakeApi()
    process = Process(api)
    rounds: list[float] = []

    async def sweep() -> None:
        rounds.append(asyncio.get_running_loop().time())
        if len(rounds) % 2:
            raise ZeroDivisionError

    process.manager.add_periodic("sweep", sweep, every=60)
    async with running(process.manager.run()):
        await asyncio.sleep(600)
    gaps = [later - earlier for earlier, later in pairwise(rounds)]
    assert 9 <= len(rounds) <= 11
    assert all(60 <= gap <= 66 for gap in gaps)
    assert process.failures("sweep") >= 4


@virtual
async def test_a_stop_that_comes_before_the_start_is_not_lost():
    process = Process(FakeApi(), elect=True)
    process.manager.stop()
    await asyncio.wait_for(process.manager.run(), 10)
    assert process.log == []
