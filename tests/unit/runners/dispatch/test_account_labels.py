"""The account's label gives way to jobs that are being handed over, for seconds and not for ever."""

import asyncio
from typing import Any

from paddock.base.clock import LoopClock
from paddock.runners.dispatch.account_labels import AccountLabels
from paddock.simulator.loop import run


class Written:
    """As much of `Assignments` as this needs: when each label was written."""

    def __init__(self, takes: float = 0.0) -> None:
        self.at: dict[str, float] = {}
        self._takes = takes

    async def name_account(self, pod: Any, claim: Any) -> None:
        del claim
        await asyncio.sleep(self._takes)
        self.at[pod] = asyncio.get_running_loop().time()


def labels_of(written: Written) -> AccountLabels:
    return AccountLabels(written, LoopClock())  # pyright: ignore[reportArgumentType] - all that it uses is there


def after(labels: AccountLabels, pod: str) -> None:
    labels.after(pod, None)  # pyright: ignore[reportArgumentType] - only handed on


def test_a_label_is_written_at_once_when_nothing_is_handed_over():
    async def scenario() -> None:
        labels = labels_of(written := Written())
        after(labels, "pod-1")
        await asyncio.sleep(0.01)
        assert written.at == {"pod-1": 0.0}

    run(scenario, seed=1)


def test_a_label_waits_for_the_jobs_that_are_being_handed_over():
    async def scenario() -> None:
        labels = labels_of(written := Written())
        with labels.serving():
            after(labels, "pod-1")
            await asyncio.sleep(3)
            assert not written.at
        await asyncio.sleep(0.01)
        assert written.at == {"pod-1": 3.0}

    run(scenario, seed=1)


def test_no_label_waits_longer_than_five_seconds_however_many_jobs_come():
    async def scenario() -> None:
        labels = labels_of(written := Written())
        with labels.serving():
            for number in range(20):
                after(labels, f"pod-{number}")
            await asyncio.sleep(5.1)
            assert len(written.at) == 20
        await labels.settle()

    run(scenario, seed=1)


def test_at_the_end_what_was_put_off_is_written_and_what_hangs_is_left_out():
    async def scenario() -> None:
        quick, stuck = labels_of(written := Written(takes=1)), labels_of(Written(takes=3600))
        after(quick, "pod-1")
        after(stuck, "pod-2")
        await quick.settle()
        assert "pod-1" in written.at
        await stuck.settle()
        await quick.settle()  # repeatable
        assert asyncio.get_running_loop().time() < 10

    run(scenario, seed=1)
