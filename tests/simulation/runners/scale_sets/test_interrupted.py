"""A listener is interrupted at every call and every write: no job is lost, none runs twice, no message is left."""

from collections.abc import Awaitable, Callable

import pytest
from simulation.branches import interrupted_calls
from simulation.runners.scale_sets.queue_world import QueueWorld, scenario

from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import simulate

CRASHES = (Interruption.CRASH_BEFORE, Interruption.CRASH_AFTER)
TROUBLE = (Interruption.LOSE_ANSWER, Interruption.FAIL_BEFORE)


async def _settled_once(queue: QueueWorld) -> None:
    await queue.until("all is settled", queue.settled)
    many = len(queue.jobs)
    assert [job.conclusion for job in queue.jobs] == ["success"] * many
    assert [job.starts for job in queue.jobs] == [1] * many
    assert [row.conclusion for row in queue.book.rows.values() if row.conclusion == "success"] == ["success"] * many


async def _one_job(queue: QueueWorld) -> None:
    queue.start()
    queue.submit(1, seconds=20.0)
    await _settled_once(queue)


async def _three_jobs(queue: QueueWorld) -> None:
    queue.start()
    queue.submit(2)
    await queue.until("a job runs", lambda: any(job.starts for job in queue.jobs))
    queue.submit(1)
    await _settled_once(queue)


async def _offers_that_are_acquired(queue: QueueWorld) -> None:
    queue.github.behaviour.acquire_flow = True
    await _three_jobs(queue)


def test_undisturbed_three_jobs_succeed_through_the_queue() -> None:
    outcome = simulate(scenario(_three_jobs), seed=1)
    names = {call.path.rpartition("/")[2] or call.name for call in outcome.world.faults.calls}
    assert {"generatejitconfig", "sessions", "runner-registration"} <= names


def test_wherever_the_process_dies_the_job_runs_once() -> None:
    assert len(interrupted_calls(scenario(_one_job), seed=3, kinds=[Interruption.CRASH_AFTER])) > 15


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [pytest.param(CRASHES, id="crash"), pytest.param(TROUBLE, id="lost or failed")])
@pytest.mark.parametrize("flow", [_three_jobs, _offers_that_are_acquired])
def test_wherever_it_is_interrupted_every_job_runs_once(
    flow: Callable[[QueueWorld], Awaitable[None]], kinds: tuple[Interruption, ...]
) -> None:
    assert len(interrupted_calls(scenario(flow), seed=2, kinds=kinds)) > 50
