"""The ledger lost rows, as after a restore from a backup: jobs that GitHub counts get runners at once, and never too many."""

import pytest
from simulation.branches import interrupted_calls
from simulation.runners.scale_sets.queue_world import QueueWorld, scenario

from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import simulate

AT_ONCE = 60.0
SESSION_LIFE = 35.0
"""How long the session of a process that died may be in the way of the next."""


async def restored(queue: QueueWorld) -> None:
    """Dispatch comes back with a ledger that knows nothing of what was assigned since."""
    queue.serve = True
    queue.world.processes["dispatch"].crash()
    queue.book.rows.clear()


async def _two_wait(queue: QueueWorld) -> None:
    queue.serve = False
    queue.start()
    queue.submit(2, seconds=30.0)
    await queue.until("both are assigned", lambda: len(queue.book.rows) >= 2, within=300.0)
    await queue.until("and acknowledged", lambda: not queue.scale_set.messages, within=60.0)
    await restored(queue)


async def _both_run_once(queue: QueueWorld) -> None:
    await _two_wait(queue)
    await queue.until("all is settled", queue.settled)
    assert [(job.conclusion, job.starts) for job in queue.jobs] == [("success", 1)] * 2
    assert sum(row.conclusion == "success" for row in queue.book.rows.values()) == 2


def test_jobs_whose_rows_were_lost_start_within_a_minute_and_are_named_by_their_runners() -> None:
    async def act(queue: QueueWorld) -> None:
        await _two_wait(queue)
        back = queue.world.clock.monotonic()
        await queue.until("both run", lambda: all(job.starts for job in queue.jobs), within=300.0)
        assert queue.world.clock.monotonic() - back < SESSION_LIFE + AT_ONCE
        await queue.until("all is settled", queue.settled)
        assert [(job.conclusion, job.starts, job.assignments) for job in queue.jobs] == [("success", 1, 1)] * 2
        assert [row.conclusion for row in queue.book.rows.values()] == ["success"] * 2
        assert (queue.book.made, len(queue.github.state.runners)) == (2, 2)

    simulate(scenario(act), seed=7)


def test_a_job_that_runs_on_a_runner_that_was_forgotten_brings_no_other() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        queue.submit(2, seconds=600.0)
        await queue.until("both run", lambda: all(job.starts for job in queue.jobs), within=300.0)
        await queue.until("and that is acknowledged", lambda: not queue.scale_set.messages, within=60.0)
        await restored(queue)
        await queue.until("all is settled", queue.settled)
        assert queue.book.made == 0
        assert [job.starts for job in queue.jobs] == [1, 1]

    simulate(scenario(act), seed=7)


def test_messages_that_are_late_bring_no_row_of_their_own() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.serve = False
        queue.start()
        await queue.until("it is listened to", lambda: queue.book.source.state == "Listening", within=120.0)
        # GitHub keeps what it has to say to itself for a while: the count alone shows the job.
        queue.submit(1, seconds=30.0)
        await queue.until("it is assigned", lambda: queue.jobs[0].assignments == 1, within=60.0)
        held, queue.scale_set.said = queue.scale_set.said, []
        taken, queue.scale_set.messages = queue.scale_set.messages, []
        queue.book.rows.clear()
        await queue.until("a row was made", lambda: queue.book.made == 1, within=AT_ONCE)
        queue.scale_set.said += held
        queue.scale_set.messages += taken
        queue.github.scale_sets.wake(queue.scale_set.id)
        queue.serve = True
        queue.world.processes["dispatch"].crash()
        await queue.until("all is settled", queue.settled)
        assert (queue.jobs[0].conclusion, queue.jobs[0].starts, queue.jobs[0].assignments) == ("success", 1, 1)
        assert queue.book.made == 1
        assert len(queue.book.rows) == 1

    simulate(scenario(act), seed=7)


def test_a_count_that_is_stuck_keeps_a_mac_busy_for_minutes_an_hour_and_not_for_ever() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.phantom_jobs = 1
        queue.start()
        await queue.world.clock.sleep(2 * 3600.0)
        # Ten minutes in vain, half an hour of rest.
        assert 2 <= queue.book.made <= 3
        queue.github.behaviour.phantom_jobs = 0
        queue.submit(1, seconds=30.0)
        await queue.until("all is settled", queue.settled)
        assert queue.jobs[0].conclusion == "success"

    simulate(scenario(act), seed=7)


def test_when_the_job_behind_a_nameless_row_is_cancelled_the_row_ends() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.silent_cancel = True
        await _two_wait(queue)
        queue.serve = False
        queue.world.processes["dispatch"].crash()
        await queue.until("rows were made", lambda: queue.book.made == 2, within=SESSION_LIFE + AT_ONCE)
        for job in queue.jobs:
            queue.github.cancel(job.id)
        await queue.until("they are closed", queue.settled, within=120.0)
        assert [row.conclusion for row in queue.book.rows.values()] == ["cancelled"] * 2

    simulate(scenario(act), seed=7)


def test_wherever_the_process_dies_at_the_ledger_lost_rows_are_made_up_for_and_no_job_runs_twice() -> None:
    at_the_ledger = interrupted_calls(
        scenario(_both_run_once),
        seed=3,
        kinds=[Interruption.CRASH_AFTER],
        only=lambda call: call.name.startswith("ledger") and call.name != "ledger note",
    )
    assert "ledger make nameless" in {each.name for each in at_the_ledger}


@pytest.mark.slow
@pytest.mark.parametrize("kind", Interruption)
def test_wherever_it_is_interrupted_lost_rows_are_made_up_for(kind: Interruption) -> None:
    assert len(interrupted_calls(scenario(_both_run_once), seed=4, kinds=[kind])) > 20
