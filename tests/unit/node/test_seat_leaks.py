"""Which seats for VMs are lost, for how long, and when a build of macOS is to blame."""

from pathlib import Path

from doubles.clocks import SteppedClock

from paddock.node.files import DiskFiles
from paddock.node.host import HostFacts
from paddock.node.seat_leaks import SeatLeaks, leaked_seats


class Mac:
    def __init__(self, folder: Path) -> None:
        self.clock = SteppedClock()
        self.path = folder / "leaks.json"
        self.boot, self.os = 1, "macOS 26.3 (25D125)"

    async def agent(self) -> SeatLeaks:
        now = self.clock.now()
        facts = HostFacts("machine", f"boot-{self.boot}", now, 8, 16 * 1024**3, self.os)
        leaks = SeatLeaks(DiskFiles(), self.path, self.clock, facts)
        await leaks.load()
        return leaks


def test_a_refusal_beside_fewer_vms_than_seats_is_a_leak_of_that_many() -> None:
    assert [leaked_seats(alive) for alive in (0, 1, 2, 3)] == [2, 1, 0, 0]


async def test_a_leak_stays_over_restarts_of_the_agent_until_the_mac_boots(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    leaks = await mac.agent()
    assert (leaks.seats, leaks.now()) == (0, "")
    assert await leaks.note(1) == 1
    assert await leaks.note(1) == 0, "the same leak is counted once"
    assert await leaks.note(0) == 0
    leaks = await mac.agent()
    assert leaks.seats == 1
    assert leaks.now() == (
        "macOS 26.3 (25D125) counts 1 VM that is gone since 2026-06-01 12:00 UTC, so that the Mac runs 1: "
        "a reboot gives the rest back, and comes as soon as no job runs there"
    )
    assert await leaks.note(2) == 1
    mac.boot += 1
    assert ((await mac.agent()).seats, (await mac.agent()).now()) == (0, "")


async def test_more_than_one_leak_a_day_names_the_build(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    await (await mac.agent()).note(1)
    assert (await mac.agent()).often() == ""
    mac.clock.step(20 * 3600.0)
    mac.boot += 1
    await (await mac.agent()).note(1)
    assert (await mac.agent()).often().startswith("macOS 26.3 (25D125) did not give 2 seats for VMs back within a day")
    mac.clock.step(5 * 3600.0)
    assert (await mac.agent()).often() == "", "the first is older than a day"
    mac.os = "macOS 26.6 (25G5)"
    await (await mac.agent()).note(2)
    assert "26.3" not in (await mac.agent()).often(), "each build is counted for itself"


async def test_a_file_of_nonsense_loses_nothing_but_what_the_next_refusal_tells_again(tmp_path: Path) -> None:
    mac = Mac(tmp_path)
    mac.path.write_bytes(b"\xff{")
    assert (await mac.agent()).seats == 0
