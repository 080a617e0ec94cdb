"""What goes wrong between a listener and GitHub's queue, in virtual time: healed without a person, or said in one sentence."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from simulation.runners.scale_sets.queue_world import LABEL, QueueWorld, pool, scenario

from paddock.runners.ledger.scale_sets import Room
from paddock.simulator.faults import Fail, LoseAnswer
from paddock.simulator.github.requests import json_answer
from paddock.simulator.github.scale_sets_api import ScaleSetsApi
from paddock.simulator.github.state import WaitingMessage
from paddock.simulator.process import simulate
from paddock.simulator.service.response import ServiceResponse

Act = Callable[[QueueWorld], Awaitable[None]]


def run(act: Act, **options: object) -> None:
    simulate(scenario(act, **options), seed=7)


async def listening(queue: QueueWorld) -> None:
    await queue.until("the queue is listened to", lambda: queue.book.source.state == "Listening", within=120.0)


async def succeeds(queue: QueueWorld, count: int = 1) -> None:
    """Jobs that are submitted now run once each, and nothing is left."""
    jobs = queue.submit(count, seconds=30.0)
    await queue.until("all is settled", queue.settled, within=1800.0)
    assert [(job.conclusion, job.starts) for job in jobs] == [("success", 1)] * count


def test_an_evicted_session_is_opened_anew() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        former, queue.scale_set.session = queue.scale_set.session, "given up by GitHub"
        queue.scale_set.session_seen_at = None
        await succeeds(queue)
        assert queue.scale_set.session not in (former, "given up by GitHub")

    run(act)


def test_a_session_without_a_queue_is_closed_again() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.session_life = 3600.0
        queue.github.behaviour.queueless_sessions = 2
        queue.start()
        await listening(queue)
        assert "Conflict" not in [state for _, state, _ in queue.book.states]
        await succeeds(queue)

    run(act)


def test_a_deleted_set_is_made_again() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        former = queue.scale_set
        queue.github.scale_sets.delete(former, queue.world.clock.now())
        await succeeds(queue)
        assert queue.scale_set.id != former.id
        assert queue.book.source.scale_set_id == queue.scale_set.id

    run(act)


def test_a_set_is_not_taken_for_gone_because_the_app_is_not_shown_its_organisation() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.custom_labels_dropped = True  # nothing but the row says whose the set is
        queue.start()
        await listening(queue)
        kept = queue.scale_set.id
        queue.github.rename_account("acme", "apex")
        queue.github.state.service_tokens.clear()
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=300.0)
        assert "GitHub shows no runners of orgs/acme to the App" in queue.book.source.sentence
        assert queue.book.source.scale_set_id == kept
        queue.github.rename_account("apex", "acme")
        await succeeds(queue)
        assert queue.scale_set.id == kept

    run(act)


def test_a_set_that_is_to_go_is_not_left_because_the_app_is_not_shown_its_organisation() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        queue.github.rename_account("acme", "apex")
        queue.github.state.service_tokens.clear()
        queue.pool = None
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=300.0)
        assert "the scale set is still at GitHub" in queue.book.source.sentence
        queue.github.rename_account("apex", "acme")
        await queue.until("the set is gone", lambda: not queue.github.state.scale_sets, within=900.0)

    run(act)


@pytest.mark.parametrize("kind", ["admin", "queue", "registration"])
def test_a_token_that_ended_is_replaced(kind: str) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        tokens = queue.github.state.service_tokens
        for text in [text for text, token in tokens.items() if token.kind == kind]:
            del tokens[text]
        await succeeds(queue)

    run(act)


def test_a_token_that_ends_before_the_offered_jobs_are_acquired_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = ScaleSetsApi.answer
    ended: list[str] = []

    async def act(queue: QueueWorld) -> None:
        def answers(api: ScaleSetsApi, request: Any, operation: str, parts: dict[str, str], now: datetime) -> Any:
            if operation == "acquire_jobs" and not ended:
                tokens = queue.github.state.service_tokens
                ended.extend(text for text, token in tokens.items() if token.kind == "queue")
                for text in ended:
                    del tokens[text]
            return answered(api, request, operation, parts, now)

        monkeypatch.setattr(ScaleSetsApi, "answer", answers)
        queue.github.behaviour.acquire_flow = True
        queue.start()
        await listening(queue)
        await succeeds(queue)
        assert ended
        assert "Refused" not in [state for _, state, _ in queue.book.states]

    run(act)


@pytest.mark.parametrize("status", [400, 403])
def test_a_session_that_the_queue_refuses_is_opened_anew(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    answered = ScaleSetsApi.answer
    refused: set[str] = set()

    async def act(queue: QueueWorld) -> None:
        def answers(api: ScaleSetsApi, request: Any, operation: str, parts: dict[str, str], now: datetime) -> Any:
            if operation == "poll_messages" and parts["session_id"] in refused:
                return json_answer(status, {"errorKind": "SessionInvalid", "errorMessage": "the session is invalid"})
            return answered(api, request, operation, parts, now)

        monkeypatch.setattr(ScaleSetsApi, "answer", answers)
        queue.start()
        await listening(queue)
        refused.add(queue.scale_set.session)
        await succeeds(queue)
        assert queue.scale_set.session not in refused
        assert "Refused" not in [state for _, state, _ in queue.book.states]

    run(act)


def test_a_token_that_is_refused_while_it_is_fresh_is_tried_again() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.fresh_token_refused = 20.0
        queue.start()
        await listening(queue)
        asked = [call for call in queue.world.faults.calls if "registration-token" in str(call)]
        assert len(asked) == 1
        await succeeds(queue)

    run(act)


@pytest.mark.parametrize(
    ("status", "why"), [(200, "at once and without a message"), (401, "the token that it was just")]
)
def test_a_queue_that_answers_at_once_and_says_nothing_is_not_asked_in_a_loop(
    monkeypatch: pytest.MonkeyPatch, status: int, why: str
) -> None:
    answered = ScaleSetsApi.answer
    polls: list[str] = []

    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)

        async def at_once(*_: object) -> None:
            polls.append("")
            assert len(polls) < 60, "a loop"
            await queue.world.clock.sleep(0.05)

        def answers(api: ScaleSetsApi, request: Any, operation: str, parts: dict[str, str], now: datetime) -> Any:
            if operation == "poll_messages":
                return ServiceResponse(status)
            return answered(api, request, operation, parts, now)

        with monkeypatch.context() as away:
            away.setattr(ScaleSetsApi, "hold", at_once)
            away.setattr(ScaleSetsApi, "answer", answers)
            await queue.until("it is said", lambda: why in queue.book.source.sentence, within=120.0)
            before = len(polls)
            await queue.world.clock.sleep(60.0)
            assert 2 <= len(polls) - before < 20
            assert queue.book.source.state == "Lost"
        await succeeds(queue)

    run(act)


def test_messages_whose_numbers_start_again_are_taken() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        await succeeds(queue, 3)
        assert queue.scale_set.next_message > 100_000_003
        queue.github.scale_sets.restart_numbers(queue.scale_set)
        await succeeds(queue, 2)
        assert len(queue.book.rows) == 5

    run(act)


def test_entries_that_come_twice_are_one_job() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.repeated_entries = True
        queue.start()
        await succeeds(queue, 3)
        assert len(queue.book.rows) == 3

    run(act)


def test_a_poison_message_is_set_aside_and_the_others_flow() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        poison = [
            WaitingMessage(id=queue.scale_set.next_message, entries=[], raw="{ not a list"),
            WaitingMessage(id=queue.scale_set.next_message + 1, entries=[{"messageType": 7}, {"messageType": "New"}]),
        ]
        queue.scale_set.next_message += 2
        queue.scale_set.messages += poison
        queue.github.scale_sets.wake(queue.scale_set.id)
        await succeeds(queue)
        assert len(queue.book.quarantined) == 2

    run(act)


@pytest.mark.parametrize(
    "odd", [{"body": None}, {"body": [{}]}, {"messageType": 7}], ids=["no body", "a body that is no text", "no type"]
)
def test_a_message_whose_envelope_is_odd_is_set_aside_and_the_others_flow(odd: dict[str, object]) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        queue.scale_set.messages.append(WaitingMessage(id=queue.scale_set.next_message, entries=[], odd=odd))
        queue.scale_set.next_message += 1
        queue.github.scale_sets.wake(queue.scale_set.id)
        await succeeds(queue)
        assert len(queue.book.quarantined) == 1
        assert "Lost" not in [state for _, state, _ in queue.book.states]

    run(act)


def test_odd_statistics_cost_no_entry_of_their_message() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        said = WaitingMessage(id=queue.scale_set.next_message, entries=[{"messageType": "New"}])
        said.odd = {"statistics": {"totalAssignedJobs": None}}
        queue.scale_set.messages.append(said)
        queue.scale_set.next_message += 1
        queue.github.scale_sets.wake(queue.scale_set.id)
        await queue.until("it is read", lambda: not queue.scale_set.messages, within=60.0)
        assert queue.book.quarantined == {}

    run(act)


def test_a_pool_of_no_pods_burns_no_assignment_and_its_job_runs_when_it_has_some() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.gives_up_assigning = True
        queue.pool = pool(replicas=0)
        queue.start()
        await listening(queue)
        (job,) = queue.submit(1, seconds=30.0)
        await queue.world.clock.sleep(1200.0)
        assert (job.assignments, set(queue.book.asked)) == (0, {0})
        queue.pool = pool()
        await queue.until("it is over", queue.settled, within=1800.0)
        assert (job.conclusion, job.starts) == ("success", 1)

    run(act)


def test_a_set_of_that_name_that_is_anothers_is_refused_with_one_remedy_and_without_a_loop() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.scale_sets.create("orgs/acme", LABEL, 1, ["someone-elses"])
        queue.start()
        await queue.world.clock.sleep(900.0)
        assert queue.book.source.state == "Refused"
        assert "was not made by this Paddock: give the pool another dispatchLabel" in queue.book.source.sentence
        assert queue.scale_set.session == ""
        # Three looks in a quarter of an hour, of a handful of calls each.
        assert len(queue.world.faults.calls) < 40
        queue.github.scale_sets.delete(queue.scale_set, queue.world.clock.now())
        await succeeds(queue)

    run(act)


def test_a_group_that_is_not_there_is_refused_until_somebody_makes_it() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.pool = pool(runner_group="macs")
        queue.start()
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=60.0)
        assert "there is no runner group 'macs' at orgs/acme" in queue.book.source.sentence
        queue.github.add_group("acme", "macs")
        await succeeds(queue)

    run(act)


def test_a_pool_whose_jobs_could_be_anothers_is_not_listened_to_until_somebody_decides() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        queue.clash = "pools a, b share the dispatch label"
        await queue.until("it is refused", lambda: queue.book.source.state == "Refused", within=120.0)
        assert queue.book.source.sentence == "pools a, b share the dispatch label"
        calls = len(queue.world.faults.calls)
        await queue.world.clock.sleep(900.0)
        assert len(queue.world.faults.calls) - calls < 10  # what it writes down, and no call of GitHub's
        queue.clash = None
        await succeeds(queue)

    run(act)


def test_labels_that_github_dropped_are_named_and_the_rest_is_served() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.custom_labels_dropped = True
        queue.start()
        await succeeds(queue)
        assert (
            queue.book.source.sentence
            == "GitHub did not keep the labels self-hosted, macOS: jobs must not ask for them"
        )

    run(act)


def test_a_set_whose_making_was_not_answered_is_ours_also_where_labels_are_dropped() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.custom_labels_dropped = True
        queue.world.faults.inject(LoseAnswer(), method="POST", path="*/runnerscalesets", times=1)
        queue.start()
        await succeeds(queue)
        assert "Refused" not in {state for _, state, _ in queue.book.states}
        assert queue.book.source.replacing_since is None

    run(act)


@pytest.mark.parametrize("hours", [0, 2])
def test_a_set_without_labels_is_anothers_if_it_was_not_asked_for_or_long_ago(hours: int) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.custom_labels_dropped = True
        if hours:
            queue.world.faults.inject(LoseAnswer(), method="POST", path="*/runnerscalesets", times=1)
            queue.start("a", restart_after=None)
            await queue.until("it is made", lambda: queue.github.state.scale_sets, within=60.0)
            queue.world.processes["a"].crash()
            await queue.world.clock.sleep(hours * 3600.0)
        else:
            queue.github.scale_sets.create("orgs/acme", LABEL, 1, [])
        queue.start("b")
        await queue.until("a person is asked for", lambda: queue.book.source.state == "Refused", within=120.0)
        assert "was not made by this Paddock" in queue.book.source.sentence

    run(act)


def test_a_lost_source_is_seen_within_a_minute_and_healed() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        away = queue.world.faults.inject(Fail(), path="/broker/*")
        since = queue.world.clock.monotonic()
        await queue.until("the loss is said", lambda: queue.book.source.state == "Lost", within=60.0)
        assert "GitHub cannot be asked for jobs" in queue.book.source.sentence
        await queue.world.clock.sleep(600.0)
        queue.world.faults.rules.remove(away)
        back = queue.world.clock.monotonic()
        await listening(queue)
        assert queue.world.clock.monotonic() - back < 60.0
        assert back > since
        await succeeds(queue)

    run(act)


def silent_for(queue: QueueWorld) -> float:
    """As the gauge says it, which the alert looks at."""
    source = queue.book.source
    return (queue.world.clock.now() - (source.heard_at or source.since)).total_seconds()


def test_a_queue_that_answers_no_poll_is_lost_although_it_opens_sessions() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        away = queue.world.faults.inject(Fail(), method="GET", path="/broker/queue/*")
        await queue.world.clock.sleep(300.0)
        assert silent_for(queue) > 200.0
        for _ in range(120):
            assert queue.book.source.state == "Lost"
            await queue.world.clock.sleep(1.0)
        queue.world.faults.rules.remove(away)
        await listening(queue)
        await succeeds(queue)

    run(act)


def test_a_capacity_that_changes_all_the_time_is_not_taken_for_silence() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start()
        await listening(queue)
        promised: set[int] = set()
        for turn in range(120):
            used = 6 * (turn % 2)
            queue.book.room_ = Room(vcpus=12, memory_mb=28_672, elsewhere_vcpus=used, elsewhere_memory_mb=0, rivals=0)
            await queue.world.clock.sleep(5.0)
            promised.add(queue.scale_set.capacity)
            assert silent_for(queue) <= 120.0
        assert promised == {1, 2}
        await succeeds(queue)

    run(act)


def test_two_processes_share_a_set_and_the_second_takes_over_within_a_minute() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start("a", restart_after=None)
        await listening(queue)
        queue.start("b", restart_after=None)
        queue.submit(2, seconds=120.0)
        await queue.until("jobs run", lambda: all(job.starts for job in queue.jobs), within=300.0)
        assert queue.book.source.dispatcher_id == 1
        killed = queue.world.clock.monotonic()
        queue.world.processes["a"].crash()
        former = queue.book.source.session_id
        await queue.until("the other listens", lambda: queue.scale_set.owner == "dispatch-2", within=60.0)
        assert queue.world.clock.monotonic() - killed <= 60.0
        assert queue.book.source.session_id not in ("", former)
        await queue.until("all is settled", queue.settled)
        await succeeds(queue)
        assert [job.starts for job in queue.jobs] == [1, 1, 1]

    run(act)


def test_a_session_that_nobody_knows_is_waited_for_and_said() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.session_life = 400.0
        made = queue.github.scale_sets.create("orgs/acme", LABEL, 1, ["paddock-this-ledger"])
        made.session, made.session_seen_at = "of a process that died", queue.world.clock.now()
        queue.start()
        await queue.until("it is said", lambda: queue.book.source.state == "Conflict", within=60.0)
        assert "another listener holds the queue" in queue.book.source.sentence
        await succeeds(queue)

    run(act)


def test_an_assignment_that_no_runner_takes_comes_again_and_runs() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.serve = False
        queue.start("deaf", restart_after=None)
        queue.submit(1, seconds=30.0)
        await queue.until("it was assigned twice", lambda: queue.jobs[0].assignments >= 2)
        queue.world.processes["deaf"].crash()
        queue.serve = True
        queue.start("serving")
        await queue.until("all is settled", queue.settled)
        assert (queue.jobs[0].conclusion, queue.jobs[0].starts) == ("success", 1)
        assert next(iter(queue.book.rows.values())).conclusion == "cancelled"
        assert [row.conclusion for row in queue.book.rows.values()][-1] == "success"

    run(act)


@pytest.mark.parametrize("silent", [False, True])
def test_a_job_that_is_cancelled_before_it_runs_is_closed_also_without_a_message(silent: bool) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.silent_cancel = silent
        queue.serve = False
        queue.start()
        (job,) = queue.submit(1)
        await queue.until("it waits here", lambda: len(queue.book.rows) == 1, within=120.0)
        queue.github.cancel(job.id)
        await queue.until("its row is closed", queue.settled, within=400.0)
        (row,) = queue.book.rows.values()
        assert (row.conclusion, job.starts) == ("cancelled", 0)

    run(act)


def test_a_job_that_was_cancelled_without_a_word_is_closed_also_while_others_of_its_set_run() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.silent_cancel = True
        queue.start()
        queue.submit(1, seconds=7200.0)
        await queue.until("it runs", lambda: queue.jobs[0].starts == 1, within=300.0)
        queue.serve = False
        queue.world.processes["dispatch"].crash()
        (ghost,) = queue.submit(1)
        await queue.until("it waits here", lambda: len(queue.book.rows) == 2, within=120.0)
        queue.github.cancel(ghost.id)
        (closed,) = (row for row in queue.book.rows.values() if row.status == "queued")
        await queue.until("its row is closed", lambda: closed.status == "over", within=20 * 60.0)
        assert (closed.conclusion, queue.jobs[0].status) == ("cancelled", "in_progress")

    run(act)


def test_no_secret_of_the_queue_is_logged_or_written_down(capsys: pytest.CaptureFixture[str]) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.github.behaviour.queue_token_life = 120.0
        queue.github.behaviour.admin_token_life = 200.0
        queue.start()
        await succeeds(queue, 2)
        away = queue.world.faults.inject(Fail(), path="/broker/*")
        await queue.world.clock.sleep(300.0)
        queue.world.faults.rules.remove(away)
        await succeeds(queue, 2)
        tokens = list(queue.github.state.service_tokens)
        credentials = [runner.credential for runner in queue.github.state.runners.values()]
        assert {queue.github.state.service_tokens[token].kind for token in tokens} >= {"registration", "admin", "queue"}
        said = capsys.readouterr()
        everything = (
            f"{said.out}{said.err}{queue.book.states}{queue.book.source}{queue.book.rows}{queue.book.quarantined}"
        )
        assert "a scale set is not listened to" in everything
        assert [secret for secret in (*tokens, *credentials) if secret in everything] == []

    run(act)


def test_no_more_is_assigned_than_was_asked_for_and_a_lower_capacity_counts_at_once() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.serve = False
        queue.start()
        await listening(queue)
        queue.submit(6)
        await queue.until("two are assigned", lambda: queue.book.source.assigned == 2, within=120.0)
        await asyncio.sleep(120.0)
        assert len(queue.github.scale_sets.assigned(queue.scale_set)) == 2
        assert set(queue.book.asked) == {2}
        queue.book.room_ = Room(vcpus=12, memory_mb=28_672, elsewhere_vcpus=6, elsewhere_memory_mb=14_336, rivals=0)
        await queue.until("less is asked for", lambda: queue.scale_set.capacity == 1, within=6.0)

    run(act)
