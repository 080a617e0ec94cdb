"""A full disk ends no work of the agent, and heals as soon as there is something that may go."""

import asyncio
import errno
import io
from pathlib import Path

import structlog
from simulation.node.node_world import DATA, NodeWorld

from paddock.base import logs
from paddock.node.host import Disk
from paddock.node.machines import Vm
from paddock.simulator.faults import Fail
from paddock.simulator.process import World, simulate


class LogOnFullDisk(io.StringIO):
    """The agent's log: while the disk is full, no line can be written."""

    full = False

    def flush(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_the_heartbeat_goes_on_after_a_full_disk_and_an_outage_of_the_api_at_once() -> None:
    stream = LogOnFullDisk()

    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        stream.full = True
        world.faults.inject(Fail(), process="agent", where=lambda call: call.path.startswith(("/api/v1", "/apis")))
        await world.clock.sleep(60.0)
        stream.full = False
        world.faults.clear()
        await world.clock.sleep(60.0)
        first = await mac.lease()
        await world.clock.sleep(600.0)
        last = await mac.lease()
        assert first is not None
        assert last is not None
        assert last.spec.renew_time != first.spec.renew_time, "the Lease is never renewed again"

    before = structlog.get_config()
    logs.set_up(level="info", json=True, stream=stream)
    try:
        simulate(scenario, seed=5)
    finally:
        structlog.configure(**before)


BALLAST = DATA / "vms" / ".ballast"


def fills_the_disk(mac: NodeWorld, vm: str) -> None:
    """The guest filled the Mac's disk through its own clone: only the clone's end frees it."""
    mac.disk.full = True
    real = mac.tart.delete

    async def delete(name: str) -> None:
        await real(name)
        if name == vm:
            mac.disk.full = False

    mac.tart.delete = delete


def test_a_disk_that_a_clone_filled_heals_when_its_vm_has_ended() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        fills_the_disk(mac, mac.vm(uid))
        mac.tart.crash(mac.vm(uid))
        await mac.phase_is("p1", "Failed")
        await mac.eventually("the clone goes", lambda: mac.vm(uid) not in mac.tart.vms)
        assert not mac.disk.full
        await mac.eventually("there is room for the next time", lambda: BALLAST in mac.disk.files)

    simulate(scenario, seed=5)


def test_a_disk_that_a_clone_filled_heals_when_its_pod_is_deleted() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        fills_the_disk(mac, mac.vm(uid))
        await mac.delete("p1")
        await mac.phase_is("p1", "gone")
        assert mac.vm(uid) not in mac.tart.vms

    simulate(scenario, seed=5)


def test_a_guest_that_cannot_be_asked_to_halt_is_powered_off_after_its_grace() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        real = mac.disk.write

        async def write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
            if path.name == "stop":
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            await real(path, content, mode=mode)

        mac.disk.write = write
        began = mac.clock.monotonic()
        await mac.delete("p1")
        await mac.phase_is("p1", "gone")
        assert mac.tart.ledger.stopped == [mac.vm(uid)]
        assert mac.clock.monotonic() - began >= 10.0

    simulate(scenario, seed=5)


def test_what_is_kept_for_an_end_is_not_given_to_a_new_pod() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.eventually("the agent is there", lambda: BALLAST in mac.disk.files)
        mac.disk.full = True
        await mac.pod("p1")
        await world.clock.sleep(120.0)
        assert BALLAST in mac.disk.files
        assert not mac.tart.ledger.runs
        mac.disk.full = False
        await mac.is_ready("p1")

    simulate(scenario, seed=5)


class GreedyPull:
    """A pull that takes a gigabyte a second for `size` seconds; what a killed one took is free after the next `tart list`."""

    def __init__(self, mac: NodeWorld, size: int) -> None:
        self._mac, self._size = mac, size
        self._machines = mac.tart.machines
        self.killed = 0
        self.left = 0
        self.lowest = 1.0
        mac.tart.pull = self.pull
        mac.tart.machines = self.machines

    async def pull(self, image: str) -> None:
        mac, taken = self._mac, 0
        try:
            for _ in range(self._size):
                await mac.clock.sleep(1.0)
                mac.host.disk_free -= 10**9
                taken += 10**9
                self.lowest = min(self.lowest, mac.host.disk_free / mac.host.disk_total)
        except asyncio.CancelledError:
            self.killed += 1
            self.left += taken
            raise
        mac.tart.cache.add(image)

    async def machines(self) -> tuple[Vm, ...]:
        self._mac.host.disk_free += self.left
        self.left = 0
        return await self._machines()


async def waits_for(mac: NodeWorld, name: str) -> str:
    pod = await mac.see(name)
    waiting = pod.status.container_statuses[0].state.waiting if pod is not None else None
    return f"{waiting.reason}: {waiting.message}" if waiting is not None else ""


async def pressure(mac: NodeWorld) -> bool:
    node = await mac.node()
    return node is not None and any(c.type == "DiskPressure" and c.status == "True" for c in node.status.conditions)


def test_a_pull_is_given_up_before_it_takes_the_disk_from_a_vm_that_runs() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.host.disk_free = int(mac.host.disk_total * 0.16)
        greedy = GreedyPull(mac, size=200)
        await mac.pod("p2", image="images.test/large:1")
        await mac.eventually("the Node says so meanwhile", lambda: pressure(mac), within=60.0)
        assert not greedy.killed
        await mac.eventually("the pull is killed", lambda: greedy.killed == 1, within=60.0)
        await world.clock.sleep(1.0)
        assert greedy.lowest > 0.03
        assert greedy.left == 0, "Tart was not asked to clear up"
        said = await waits_for(mac, "p2")
        assert "ErrImagePull" in said
        assert "free some space" in said
        assert await mac.phase("p1") == "Running"
        mac.host.disk_free = int(mac.host.disk_total * 0.6)
        await mac.is_ready("p2", within=900.0)

    simulate(scenario, seed=5)


def test_a_pull_that_fits_is_not_disturbed_and_a_disk_that_cannot_be_looked_at_ends_none() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        greedy = GreedyPull(mac, size=60)
        await mac.pod("p1", image="images.test/large:1")
        await world.clock.sleep(20.0)
        real = mac.host.disk

        async def broken() -> Disk:
            raise OSError(errno.EIO, "Input/output error")

        mac.host.disk = broken
        await world.clock.sleep(20.0)
        mac.host.disk = real
        await mac.is_ready("p1")
        assert not greedy.killed

    simulate(scenario, seed=5)
