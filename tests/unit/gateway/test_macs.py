"""What a Mac reported last counts for as long as its Lease lasts, and who waits for a change is told of it at once."""

import asyncio
from datetime import timedelta

from doubles.clocks import ShiftedClock, SteppedClock
from msgspec.structs import replace
from unit.gateway.macs import MAC, UID, reported
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock
from paddock.gateway.lease import SECONDS
from paddock.gateway.macs import LEASE, Changes, Macs


def test_a_report_is_forgotten_when_its_lease_has_run_out_so_that_no_dead_mac_is_shown_as_alive():
    clock = SteppedClock()
    macs = Macs(clock)
    macs.put(reported())
    clock.step(SECONDS)
    assert macs.newest("mac-1") == reported()
    clock.step(0.5)
    assert macs.newest("mac-1") is None
    assert LEASE == SECONDS


def test_a_wall_clock_that_is_set_back_lets_no_dead_mac_live_on():
    steady = SteppedClock()
    clock = ShiftedClock(steady)
    macs = Macs(clock)
    macs.put(reported())
    clock.ahead = timedelta(hours=-1)
    steady.step(SECONDS + 1)
    assert macs.newest("mac-1") is None


def test_each_report_begins_the_time_anew():
    clock = SteppedClock()
    macs = Macs(clock)
    for sequence in range(1, 6):
        macs.put(reported(sequence=sequence))
        clock.step(30)
        assert macs.newest("mac-1") == reported(sequence=sequence)


def test_an_older_report_that_arrives_late_does_not_take_the_place_of_a_newer_one():
    macs = Macs(SteppedClock())
    for sequence in (2, 1):
        macs.put(reported(sequence=sequence))
    assert macs.newest("mac-1") == reported(sequence=2)
    other = replace(reported(sequence=1), mac=replace(MAC, machine_uid="uid-2"))
    macs.put(other)
    assert macs.newest("mac-1") == other, "another Mac of this name counts anew"


def test_of_a_mac_that_was_let_go_nothing_is_kept():
    macs = Macs(SteppedClock())
    macs.forget("mac-1")
    macs.put(reported())
    macs.forget("mac-1")
    assert macs.newest("mac-1") is None


async def _never() -> None:
    await asyncio.Event().wait()


@virtual
async def test_who_waits_for_a_mac_is_answered_when_something_about_it_differs_and_else_when_the_time_is_over():
    clock = LoopClock()
    changes = Changes(clock)
    shown: list[str] = []
    waiting = asyncio.create_task(changes.until("mac-1", lambda: UID in shown, 20.0, _never))
    await clock.sleep(1.0)
    changes.ring("mac-1")
    changes.ring("mac-2")
    await clock.sleep(1.0)
    assert not waiting.done(), "nothing differs"
    shown.append(UID)
    changes.ring("mac-1")
    assert await waiting
    assert clock.monotonic() < 3.0
    began = clock.monotonic()
    assert not await changes.until("mac-1", lambda: False, 20.0, _never)
    assert clock.monotonic() - began == 20.0
    assert not changes._waiting, "nobody waits any more"


@virtual
async def test_nobody_waits_for_one_who_has_left():
    clock = LoopClock()
    changes = Changes(clock)

    async def left() -> None:
        await clock.sleep(3.0)

    assert not await changes.until("mac-1", lambda: False, 20.0, left)
    assert clock.monotonic() == 3.0
