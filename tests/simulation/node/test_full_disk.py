"""A full disk ends no work of the agent, and heals as soon as there is something that may go."""

import errno
import io
from pathlib import Path

import structlog
from simulation.node.node_world import DATA, NodeWorld

from paddock.base import logs
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
