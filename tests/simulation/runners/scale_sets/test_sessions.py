"""Sessions that only we can close, because GitHub lists none: whatever fails, no listener of ours is kept out by another's."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry
from simulation.runners.scale_sets.queue_world import QueueWorld, scenario

from paddock.clients.github import GitHubClient, GitHubError, RunnerPlace
from paddock.clients.github.errors import Conflict, Forbidden, Invalid
from paddock.clients.github.scaleset import QueueSession
from paddock.clients.github.scaleset_client import ScaleSetClient
from paddock.runners.ledger.scale_sets import Room, Source
from paddock.runners.scale_sets.listener import Listener, ListenerContext
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.simulator.faults import Fail
from paddock.simulator.process import simulate

Act = Callable[[QueueWorld], Awaitable[None]]


def run(act: Act) -> None:
    async def patient(queue: QueueWorld) -> None:
        queue.github.behaviour.session_life = 3600.0  # GitHub gives no session up in time to help
        await act(queue)

    simulate(scenario(patient), seed=7)


async def listening(queue: QueueWorld) -> None:
    await queue.until("the queue is listened to", lambda: queue.book.source.state == "Listening", within=120.0)


def said(queue: QueueWorld) -> set[str]:
    return {state for _, state, _ in queue.book.states}


def test_a_session_whose_id_the_ledger_did_not_take_is_closed_before_the_next_is_opened() -> None:
    async def act(queue: QueueWorld) -> None:
        # The first record is that a set is asked for, the second its number, the third the session's id.
        queue.world.faults.inject(Fail(), name="ledger record", nth=[3])
        queue.start()
        await listening(queue)
        assert "Conflict" not in said(queue)

    run(act)


def test_the_session_of_a_dead_process_is_not_forgotten_by_one_that_stops_before_it_could_close_it() -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start("a", restart_after=None)
        await listening(queue)
        queue.world.processes["a"].crash()
        dead = queue.book.source.session_id
        await queue.world.clock.sleep(40.0)
        away = queue.world.faults.inject(Fail(), path="/broker/*")
        await _listens_and_is_stopped(queue)
        assert queue.book.source.session_id == dead == queue.scale_set.session
        assert queue.book.source.dispatcher_id is None
        queue.world.faults.rules.remove(away)
        queue.start("c", restart_after=None)
        await listening(queue)
        assert "Conflict" not in said(queue)

    run(act)


async def _listens_and_is_stopped(queue: QueueWorld, after: float = 10.0) -> None:
    """A process that takes the lease over, and is stopped in good order so many seconds later."""
    clock, github = queue.world.clock, queue.github
    client = GitHubClient(github.settings(), clock, queue.world.rng("b"), queue.world.transport(github.app))
    metrics = ScaleSetMetrics(CollectorRegistry())
    context = ListenerContext(github=client.scale_sets, book=queue.book, clock=clock, metrics=metrics)
    source = queue.book.take(77)
    assert source is not None
    listener = Listener(context, source, queue.place, lambda: queue.pool)
    task = asyncio.ensure_future(listener.run())
    await clock.sleep(after)
    task.cancel()
    await asyncio.wait({task}, timeout=60.0)
    assert task.cancelled(), "it listens on"
    await listener.close()
    await client.aclose()


def test_a_listener_that_is_stopped_while_it_breaks_a_poll_off_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = ScaleSetClient.poll

    async def slow_to_end(client: ScaleSetClient, session: QueueSession, *, after: int, capacity: int) -> object:
        try:
            return await poll(client, session, after=after, capacity=capacity)
        except asyncio.CancelledError:
            await asyncio.sleep(1.0)  # until its connection is closed
            raise

    async def act(queue: QueueWorld) -> None:
        monkeypatch.setattr(ScaleSetClient, "poll", slow_to_end)

        async def less() -> None:
            await queue.world.clock.sleep(2.0)
            queue.book.room_ = Room(vcpus=6, memory_mb=14_336, elsewhere_vcpus=0, elsewhere_memory_mb=0, rivals=0)

        lowered = asyncio.ensure_future(less())
        await _listens_and_is_stopped(queue, after=5.5)  # the capacity is looked at every five seconds
        await lowered
        assert queue.scale_set.session == ""

    run(act)


@pytest.mark.parametrize("answered_after", [1.0, 30.0])
def test_a_listener_that_is_stopped_while_it_opens_a_session_leaves_none_that_answers_in_time(
    monkeypatch: pytest.MonkeyPatch, answered_after: float
) -> None:
    """Stopped by a roll-out, a pool's change or a lease: the process lives, and GitHub's answer is on its way."""
    open_session = ScaleSetClient.open_session

    async def slow_to_answer(client: ScaleSetClient, place: RunnerPlace, scale_set_id: int, owner: str) -> QueueSession:
        session = await open_session(client, place, scale_set_id, owner)
        await asyncio.sleep(answered_after)
        return session

    async def act(queue: QueueWorld) -> None:
        monkeypatch.setattr(ScaleSetClient, "open_session", slow_to_answer)
        began = queue.world.clock.monotonic()
        await _listens_and_is_stopped(queue, after=0.5)
        stopped_after = queue.world.clock.monotonic() - began
        assert stopped_after < 15.0, "a process that is to end waits for GitHub"
        if answered_after < 5.0:
            assert queue.scale_set.session == ""
            queue.start()
            await listening(queue)
            assert "Conflict" not in said(queue)

    run(act)


def test_a_listener_that_lost_its_lease_while_it_opened_a_session_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(queue: QueueWorld) -> None:
        record = queue.book.record
        lost: list[str] = []

        async def loses(source: Source) -> None:
            if source.session_id and not lost:
                lost.append(source.session_id)
                assert source.dispatcher_id is not None
                queue.book.take(source.dispatcher_id)  # as after a pause of half a minute: another's epoch
            await record(source)

        monkeypatch.setattr(queue.book, "record", loses)
        queue.start()
        await listening(queue)
        assert lost
        assert "Conflict" not in said(queue)

    run(act)


@pytest.mark.parametrize("refusal", [Forbidden, Invalid, Conflict])
def test_a_session_that_github_lets_nobody_close_is_waited_for_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, refusal: type[GitHubError]
) -> None:
    async def act(queue: QueueWorld) -> None:
        queue.start("a", restart_after=None)
        await listening(queue)
        queue.world.processes["a"].crash()
        queue.github.behaviour.session_life = 60.0

        async def refused(*_: object) -> None:
            raise refusal("DELETE sessions/***: it is another's", status=403)

        monkeypatch.setattr(ScaleSetClient, "close_session", refused)
        await queue.world.clock.sleep(40.0)
        queue.start("b", restart_after=None)
        await queue.until("it is taken over", lambda: queue.book.source.state != "Listening", within=60.0)
        await listening(queue)
        assert "Refused" not in said(queue)

    run(act)


def test_a_set_that_goes_between_the_look_and_the_session_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    open_session = ScaleSetClient.open_session

    async def act(queue: QueueWorld) -> None:
        gone: list[int] = []

        async def opens(client: ScaleSetClient, place: RunnerPlace, scale_set_id: int, owner: str) -> QueueSession:
            if not gone:
                gone.append(scale_set_id)
                queue.github.scale_sets.delete(queue.scale_set, queue.world.clock.now())
            return await open_session(client, place, scale_set_id, owner)

        monkeypatch.setattr(ScaleSetClient, "open_session", opens)
        queue.start()
        await listening(queue)
        assert queue.world.clock.monotonic() < 30.0
        assert (queue.scale_set.id not in gone, "Refused" in said(queue)) == (True, False)

    run(act)
