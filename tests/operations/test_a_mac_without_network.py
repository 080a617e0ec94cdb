"""The network of one Mac's VMs dies after jobs were handed over there: it is avoided, named and rebooted, and the fleet goes on."""

import asyncio

from integration.schemas import Schemas
from operations.judges import ended, status
from operations.world import LABEL, OperationsWorld

from paddock.base.clock import SystemClock
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import OWNER_LABEL
from paddock.runners.ledger.database import prepare
from paddock.runners.pools.nodes import marked_of
from paddock.simulator.github import SimulatedJob
from paddock.simulator.pods import Hang
from paddock.simulator.process import World, simulate
from paddock.simulator.tart import SimulatedRunner

_OTHERS = ("blue", "cyan")


async def _accounts(fleet: OperationsWorld) -> None:
    for login in _OTHERS:
        account = fleet.github.add_organization(login, "app")
        await fleet.ledger.accounts.enrol(account.id, login, account.installation_id)
        await fleet.ledger.allow_list.allow(account.id, login, by="test", why="as the test needs it")
        await fleet.ledger.limits.set(
            account.id, "macos", vcpus=4000, memory_mb=14_336_000, by="test", why="a large account"
        )


async def _keep_busy(fleet: OperationsWorld, jobs: list[SimulatedJob], wanted: int) -> None:
    """So many jobs are open at any time, of each account in turn."""
    while True:
        for _ in range(wanted - sum(job.status != "completed" for job in jobs)):
            login = ("acme", *_OTHERS)[len(jobs) % 3]
            # Long beside the minutes in which a runner is found to hang: where another of its account is free sooner, that one has
            # the job, and nothing is proven of the Mac.
            jobs.append(fleet.github.submit(f"{login}/app", labels=(LABEL,), duration=1200.0, name=f"job {len(jobs)}"))
        await fleet.clock.sleep(5.0)


def test_a_mac_whose_network_dies_under_its_jobs_is_avoided_named_and_rebooted_and_the_fleet_goes_on(
    schemas: Schemas,
) -> None:
    schema = schemas.take()
    asyncio.run(prepare(schemas.dsn, schema=schema, clock=SystemClock()))

    async def run(world: World) -> None:
        fleet, jobs = OperationsWorld(world, schemas.dsn, schema, macs=4, expect_nodes=True), list[SimulatedJob]()
        await fleet.begin()
        await _accounts(fleet)
        here = fleet.macs.here
        await fleet.eventually(
            "every place is taken",
            lambda: len(here) == 4 and all(len(mac.tart.running()) == 2 for mac in here.values()),
        )
        pushing = asyncio.create_task(_keep_busy(fleet, jobs, 6))
        await fleet.clock.sleep(300)
        bad = min(here.values(), key=lambda mac: mac.machine.metadata.name)
        name, runner = bad.machine.metadata.name, bad.tart._runner
        assert isinstance(runner, SimulatedRunner)
        # Its VMs get ready, are handed their jobs, and reach nothing from then on; a boot of the Mac mends that.
        runner.runner_faults.next = [Hang.RETRIES_NOISILY] * 1000
        fleet.cloud.on_power.append(
            lambda host, on: runner.runner_faults.next.clear() if host.id == bad.server_id else None
        )
        began = fleet.clock.now()

        def node() -> Node:
            return next(each for each in fleet.store.present(Node) if each.metadata.name == name)

        def at_work() -> list[str]:
            pods = fleet.store.present(Pod)
            return [
                pod.metadata.name for pod in pods if pod.spec.node_name == name and OWNER_LABEL in pod.metadata.labels
            ]

        await fleet.eventually("it is marked", lambda: marked_of(node()) is not None, within=5400)
        mark = marked_of(node())
        assert mark is not None
        assert "never had their job" in mark.sentence
        handed = set(at_work())

        async def named() -> bool:
            return any(name in one.about and mark.sentence in one.sentence for one in (await status(fleet)).problems)

        await fleet.eventually("it is named", named, within=300)

        def rebooted() -> bool:
            assert set(at_work()) <= handed, "no further job was given to it"
            return bad.server_id in fleet.macs.rebooted

        await fleet.eventually("it is rebooted once nobody works there", rebooted, within=3600)
        assert not fleet.macs.under_a_job

        def back() -> bool:
            machine = next(each for each in fleet.store.present(Machine) if each.metadata.name == name)
            return machine.status.ready and not node().spec.unschedulable and bool(at_work())

        await fleet.eventually("it works again", back, within=1800)
        assert fleet.macs.rebooted == [bad.server_id], "no other Mac was"
        await ended(pushing)
        await fleet.eventually(
            "every job has ended", lambda: all(job.status == "completed" for job in jobs), within=3600
        )
        assert {job.conclusion for job in jobs if job.created_at > began} == {"success"}, "no job was lost"
        fleet.end()

    simulate(run, seed=1)
    asyncio.run(schemas.give_back(schema))
