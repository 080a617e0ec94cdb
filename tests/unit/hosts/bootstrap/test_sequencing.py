import asyncio

import pytest

from paddock.base.clock import LoopClock
from paddock.base.rng import seeded
from paddock.hosts.bootstrap.sequencing import Sequencing, start_delay
from paddock.simulator.loop import run


def virtually(main):
    return run(main, seed=7)


def test_after_a_restart_the_hosts_start_spread_out_and_never_more_than_the_limit_together():
    async def main() -> tuple[list[float], int]:
        clock = LoopClock()
        sequencing = Sequencing(clock, seeded(1), parallel=4, spread=20.0)
        starts: list[float] = []
        most = 0

        async def bootstrap(host: str) -> None:
            nonlocal most
            async with sequencing.turn(host):
                starts.append(clock.monotonic())
                most = max(most, sequencing.running)
                await clock.sleep(1.0)

        await asyncio.gather(*(bootstrap(f"host-{number}") for number in range(40)))
        return starts, most

    starts, most = virtually(main)
    assert most <= 4
    assert len(set(starts)) > 30, "not all at once"
    assert min(starts) < 3.0
    assert max(starts) < 40.0


def test_hosts_that_come_later_are_not_put_off():
    assert start_delay(60.0, 20.0, seeded(1)) == 0.0
    assert 0.0 <= start_delay(0.0, 20.0, seeded(1)) <= 20.0


def test_two_runs_on_one_host_never_overlap_and_do_not_block_others():
    async def main() -> list[str]:
        clock = LoopClock()
        sequencing = Sequencing(clock, seeded(2), parallel=2, spread=0.0)
        seen: list[str] = []

        async def bootstrap(host: str) -> None:
            async with sequencing.turn(host):
                seen.append(f"{host} in")
                await clock.sleep(1.0)
                seen.append(f"{host} out")

        await asyncio.gather(bootstrap("a"), bootstrap("a"), bootstrap("b"))
        assert not sequencing._hosts
        return seen

    seen = virtually(main)
    assert seen.index("b in") < seen.index("a out")
    assert [entry for entry in seen if entry.startswith("a")] == ["a in", "a out", "a in", "a out"]


def test_a_run_that_is_cancelled_gives_its_slot_back():
    async def main() -> bool:
        clock = LoopClock()
        sequencing = Sequencing(clock, seeded(3), parallel=1, spread=0.0)

        async def stuck() -> None:
            async with sequencing.turn("a"):
                await asyncio.Event().wait()

        task = asyncio.ensure_future(stuck())
        await clock.sleep(1.0)
        task.cancel()
        async with asyncio.timeout(5.0), sequencing.turn("b"):
            return True

    assert virtually(main)


def test_a_limit_of_nothing_is_refused():
    async def main() -> None:
        with pytest.raises(ValueError, match="at least 1"):
            Sequencing(LoopClock(), seeded(1), parallel=0)

    virtually(main)
