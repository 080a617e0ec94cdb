"""A pool that is changed while its scale set is listened to: changed in place, or replaced when its last job is over."""

from collections.abc import Awaitable, Callable

import pytest
from simulation.branches import interrupted_calls
from simulation.runners.scale_sets.queue_world import LABEL, QueueWorld, pool, scenario

from paddock.base.explanation import utc
from paddock.clients.github import Forbidden
from paddock.clients.github.scaleset_client import ScaleSetClient
from paddock.simulator.faults import Fail
from paddock.simulator.github.scale_sets_api import ScaleSetsApi
from paddock.simulator.interruptions import Interruption
from paddock.simulator.process import simulate
from paddock.simulator.service.response import json_answer

Act = Callable[[QueueWorld], Awaitable[None]]
NEW = "macos-27"


def run(act: Act) -> None:
    simulate(scenario(act), seed=7)


def names(queue: QueueWorld) -> list[str]:
    return [scale_set.name for scale_set in queue.github.state.scale_sets.values()]


async def listening(queue: QueueWorld) -> None:
    queue.start()
    await queue.until("the queue is listened to", lambda: queue.book.source.state == "Listening", within=120.0)


async def succeeds(queue: QueueWorld, *labels: str) -> None:
    jobs = queue.submit(1, seconds=30.0, labels=labels)
    await queue.until("all is settled", queue.settled, within=900.0)
    assert [(job.conclusion, job.starts) for job in jobs] == [("success", 1)]


def test_a_new_dispatch_label_of_an_idle_pool_has_its_set_within_a_minute() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("the new set is there, and no other", lambda: names(queue) == [NEW], within=60.0)
        await succeeds(queue, NEW)
        assert (queue.book.source.state, queue.book.source.sentence) == ("Listening", "")
        assert queue.book.source.replacing_since is None

    run(act)


def test_a_set_under_another_name_takes_no_new_job_serves_its_last_and_goes() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        (running,) = queue.submit(1, seconds=600.0)
        await queue.until("it runs", lambda: running.starts == 1, within=120.0)
        since = queue.world.clock.now()
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("nothing more is asked for", lambda: queue.scale_set.capacity == 0, within=10.0)
        await queue.until("it is said", lambda: bool(queue.book.source.sentence), within=60.0)
        await queue.world.clock.sleep(60.0)  # a poll that was broken off may go on at GitHub for so long
        (late,) = queue.submit(1)
        said = queue.book.source.sentence
        assert f"dispatchLabel from '{LABEL}' to '{NEW}'" in said
        assert f"takes no new jobs since {utc(since)}" in said
        assert "1 assigned job is served to the end, then it is deleted" in said
        assert f"jobs that ask for '{LABEL}' wait at GitHub until a scale set offers it" in said
        await queue.until("the old set is gone", lambda: names(queue) == [NEW], within=900.0)
        assert (running.conclusion, running.starts) == ("success", 1)
        assert running.completed_at is not None
        assert (late.status, late.assignments) == ("queued", 0)
        queue.jobs.remove(late)
        await succeeds(queue, NEW)

    run(act)


def test_a_label_that_is_given_back_before_the_last_job_is_over_keeps_its_set() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        former = queue.scale_set.id
        queue.submit(1, seconds=600.0)
        await queue.until("it runs", lambda: queue.jobs[0].starts == 1, within=120.0)
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("it is replaced", lambda: queue.book.source.replacing_since is not None, within=60.0)
        queue.pool = pool()
        await succeeds(queue, LABEL)
        assert (queue.scale_set.id, queue.book.source.replacing_since) == (former, None)

    run(act)


def test_new_labels_are_given_to_the_set_in_place() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        former, session = queue.scale_set.id, queue.scale_set.session
        queue.pool = pool(runner_labels=("self-hosted", "macOS", "xcode-27"))
        await succeeds(queue, LABEL, "xcode-27")
        assert (queue.scale_set.id, queue.scale_set.session) == (former, session)
        queue.pool = pool(runner_labels=("macOS",))
        await queue.until("fewer are offered", lambda: "xcode-27" not in queue.scale_set.labels, within=60.0)
        assert queue.scale_set.labels == [LABEL, "macOS", "paddock-this-ledger"]
        assert queue.book.source.sentence == ""

    run(act)


def test_labels_that_github_does_not_change_come_with_another_set() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.labels_fixed = True
        await listening(queue)
        former = queue.scale_set.id
        queue.submit(1, seconds=300.0)
        await queue.until("it runs", lambda: queue.jobs[0].starts == 1, within=120.0)
        queue.pool = pool(runner_labels=("self-hosted", "macOS", "xcode-27"))
        await queue.until("it is said", lambda: bool(queue.book.source.sentence), within=60.0)
        assert "the pool changed runnerLabels (with xcode-27)" in queue.book.source.sentence
        assert "wait at GitHub" not in queue.book.source.sentence
        await succeeds(queue, LABEL, "xcode-27")
        assert queue.jobs[0].conclusion == "success"
        assert queue.scale_set.id != former

    run(act)


@pytest.mark.parametrize("status", [403, 404, 405, 500])
def test_a_set_that_github_refuses_to_change_is_listened_to_all_the_same(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    refusal = json_answer(status, {"typeName": "GitHub.SomethingException", "message": "no"})
    monkeypatch.setattr(ScaleSetsApi, "_update", lambda *_: refusal)

    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        former = queue.scale_set.id
        (running,) = queue.submit(1, seconds=120.0)
        await queue.until("it runs", lambda: running.starts == 1, within=120.0)
        queue.pool = pool(runner_labels=("self-hosted", "macOS", "xcode-27"))
        await succeeds(queue, LABEL)
        assert running.conclusion == "success"
        # What cannot be changed is replaced; what may be changed later is waited for, and said.
        if status == 500:
            assert "listened to as it was before the pool was changed" in queue.book.source.sentence
            assert (queue.scale_set.id, queue.book.source.state) == (former, "Listening")
        else:
            await queue.until("there is another set", lambda: former not in queue.github.state.scale_sets, within=120.0)
            await succeeds(queue, LABEL, "xcode-27")
        patches = len([call for call in queue.world.faults.calls if call.name.startswith("PATCH")])
        assert patches < 60, "it is asked with pauses"

    run(act)


def test_a_change_that_the_app_may_not_make_names_the_permission_and_stops_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        answers = ScaleSetClient.group

        async def refuses(*_: object) -> None:
            raise Forbidden("GET runnergroups: no", status=403)

        monkeypatch.setattr(ScaleSetClient, "group", refuses)
        queue.pool = pool(runner_group="macs")
        await queue.until("a person is asked for", lambda: queue.book.source.state == "Refused", within=120.0)
        assert "grant it 'Self-hosted runners: write' there" in queue.book.source.sentence
        (job,) = queue.submit(1, seconds=30.0)
        await queue.until("it has a row", lambda: len(queue.book.rows) == 1, within=60.0)
        monkeypatch.setattr(ScaleSetClient, "group", answers)
        queue.github.add_group("acme", "macs")
        await queue.until("it is changed", lambda: queue.scale_set.group_id != 1, within=400.0)
        await queue.until("all is settled", queue.settled, within=600.0)
        assert (job.conclusion, queue.book.source.state) == ("success", "Listening")

    run(act)


def test_a_github_that_drops_labels_is_said_to_and_the_set_is_not_made_again_and_again() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.custom_labels_dropped = True
        await listening(queue)
        former = queue.scale_set.id
        queue.pool = pool(runner_labels=("xcode-27",))
        await queue.until("it is said", lambda: "xcode-27" in queue.book.source.sentence, within=60.0)
        assert queue.book.source.sentence == "GitHub did not keep the labels xcode-27: jobs must not ask for them"
        calls = len([call for call in queue.world.faults.calls if call.name.startswith("PATCH")])
        await queue.world.clock.sleep(900.0)
        assert len([call for call in queue.world.faults.calls if call.name.startswith("PATCH")]) == calls
        assert queue.scale_set.id == former

    run(act)


def test_labels_that_changed_while_no_process_ran_are_changed_and_not_called_dropped() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        queue.world.processes["dispatch"].crash()
        queue.pool = pool(runner_labels=("xcode-27",))
        await succeeds(queue, LABEL, "xcode-27")
        assert "did not keep" not in " ".join(sentence for _, _, sentence in queue.book.states)

    run(act)


def test_a_name_that_changed_while_no_process_ran_leaves_no_set_behind() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        queue.world.processes["dispatch"].crash()
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("only the new set is there", lambda: names(queue) == [NEW], within=180.0)
        await succeeds(queue, NEW)

    run(act)


def test_another_group_is_given_to_the_set_in_place() -> None:
    async def act(queue: QueueWorld) -> None:
        group = queue.github.add_group("acme", "macs")
        await listening(queue)
        former = queue.scale_set.id
        queue.pool = pool(runner_group="macs")
        await queue.until("it is in its group", lambda: queue.scale_set.group_id == group.id, within=60.0)
        await succeeds(queue, LABEL)
        assert queue.scale_set.id == former

    run(act)


def test_a_group_that_is_not_there_stops_new_jobs_until_it_is_made_and_those_assigned_are_served() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        queue.submit(1, seconds=300.0)
        await queue.until("it runs", lambda: queue.jobs[0].starts == 1, within=120.0)
        queue.pool = pool(runner_group="macs")
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=60.0)
        assert "there is no runner group 'macs' at orgs/acme" in queue.book.source.sentence
        await queue.until("its job is over here, too", queue.settled, within=600.0)
        assert (queue.jobs[0].conclusion, queue.scale_set.capacity) == ("success", 0)
        queue.github.add_group("acme", "macs")
        await succeeds(queue, LABEL)
        assert queue.book.source.state == "Listening"

    run(act)


def test_a_name_that_is_anothers_is_refused_before_the_set_that_there_is_is_given_up() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        former = queue.scale_set.id
        theirs = queue.github.scale_sets.create("orgs/acme", NEW, 1, ["someone-elses"])
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=60.0)
        assert (
            f"scale set '{NEW}' exists in group 'Default' of orgs/acme and was not made" in queue.book.source.sentence
        )
        asked = len(queue.world.faults.calls)
        await queue.world.clock.sleep(3600.0)
        assert sorted(names(queue)) == sorted([LABEL, NEW])
        assert queue.book.source.replacing_since is None
        looks = [call for call in queue.world.faults.calls[asked:] if call.name.endswith("/runnerscalesets")]
        assert 8 <= len(looks) <= 12, "it is looked at every five minutes"
        queue.pool = pool()
        await succeeds(queue, LABEL)
        assert queue.book.source.scale_set_id == former
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("it is refused again", lambda: queue.book.source.state == "Refused", within=60.0)
        queue.github.scale_sets.delete(theirs, queue.world.clock.now())
        await queue.until("the new set is ours", lambda: names(queue) == [NEW], within=900.0)
        await succeeds(queue, NEW)

    run(act)


def test_a_set_that_another_pool_still_has_is_waited_for() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.scale_sets.create("orgs/acme", LABEL, 1, ["paddock-this-ledger"])
        queue.book.held_by = "older"
        queue.start()
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=60.0)
        assert f"scale set '{LABEL}' is still pool older's" in queue.book.source.sentence
        assert queue.scale_set.session == ""
        queue.book.held_by = None
        await succeeds(queue, LABEL)

    run(act)


def test_a_set_whose_statistics_cannot_be_read_is_not_given_up() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        number = queue.scale_set.id
        away = queue.world.faults.inject(Fail(), path=f"*/runnerscalesets/{number}")
        queue.pool = pool(dispatch_label=NEW)
        await queue.world.clock.sleep(300.0)
        assert names(queue) == [LABEL]
        queue.world.faults.rules.remove(away)
        await queue.until("the new set is there", lambda: names(queue) == [NEW], within=120.0)

    run(act)


def test_a_job_that_a_broken_off_poll_still_brings_is_served_by_the_set_that_goes() -> None:
    async def act(queue: QueueWorld) -> None:
        await listening(queue)
        queue.pool = pool(dispatch_label=NEW)
        await queue.until("nothing more is asked for", lambda: queue.scale_set.capacity == 0, within=10.0)
        (late,) = queue.submit(1, seconds=30.0)
        await queue.until("only the new set is there", lambda: names(queue) == [NEW], within=300.0)
        assert (late.assignments, late.conclusion, late.starts) == (1, "success", 1)

    run(act)


async def _renamed_under_a_job(queue: QueueWorld) -> None:
    queue.start()
    (first,) = queue.submit(1, seconds=20.0)
    await queue.until("it is assigned", lambda: first.assignments > 0, within=300.0)
    queue.pool = pool(dispatch_label=NEW)
    queue.submit(1, seconds=20.0, labels=(NEW,))
    await queue.until("all is settled", lambda: queue.settled() and names(queue) == [NEW])
    assert [(job.conclusion, job.starts) for job in queue.jobs] == [("success", 1)] * 2
    assert [row.conclusion for row in queue.book.rows.values() if row.conclusion == "success"] == ["success"] * 2


async def _retired_under_a_job(queue: QueueWorld) -> None:
    queue.start()
    (last,) = queue.submit(1, seconds=20.0)
    await queue.until("it is assigned", lambda: last.assignments > 0, within=300.0)
    queue.pool = None
    await queue.until("its source is over", lambda: queue.book.source.state == "Stopped" and not names(queue))
    assert (last.conclusion, last.starts, queue.settled()) == ("success", 1, True)
    assert (queue.book.source.scale_set_id, queue.book.source.session_id) == (None, "")


def test_wherever_the_process_dies_while_a_source_retires_its_last_job_runs_once_and_no_set_is_left() -> None:
    assert len(interrupted_calls(scenario(_retired_under_a_job), seed=3, kinds=[Interruption.CRASH_AFTER])) > 20


async def _relabelled(queue: QueueWorld) -> None:
    queue.start()
    await queue.until("there is a set", lambda: names(queue) == [LABEL])
    queue.pool = pool(runner_labels=("self-hosted", "macOS", "xcode-27"))
    queue.submit(1, seconds=20.0, labels=(LABEL, "xcode-27"))
    await queue.until("all is settled", queue.settled)
    assert [(job.conclusion, job.starts) for job in queue.jobs] == [("success", 1)]
    assert names(queue) == [LABEL]


async def _relabelled_by_another_set(queue: QueueWorld) -> None:
    queue.github.behaviour.labels_fixed = True
    await _relabelled(queue)


def test_wherever_the_process_dies_while_a_set_is_replaced_every_job_runs_once_and_one_set_is_left() -> None:
    assert len(interrupted_calls(scenario(_renamed_under_a_job), seed=3, kinds=[Interruption.CRASH_AFTER])) > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param((Interruption.CRASH_BEFORE, Interruption.CRASH_AFTER), id="crash"),
        pytest.param((Interruption.LOSE_ANSWER, Interruption.FAIL_BEFORE), id="lost or failed"),
    ],
)
@pytest.mark.parametrize("flow", [_renamed_under_a_job, _retired_under_a_job, _relabelled, _relabelled_by_another_set])
def test_wherever_a_change_is_interrupted_every_job_runs_once(flow: Act, kinds: tuple[Interruption, ...]) -> None:
    assert len(interrupted_calls(scenario(flow), seed=2, kinds=kinds)) > 20
