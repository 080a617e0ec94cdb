"""The id of a delivery is not signed: whoever has a signed body can send it again under a new one. That must do no harm."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import Dispatcher

from paddock.runners.webhooks.payload import INSTALLATION_ACTIONS, JOB_ACTIONS

REST = timedelta(minutes=15)
TABLES = (
    "jobs",
    "claims",
    "sessions",
    "completions",
    "accounts",
    "limits",
    "allow_list",
    "account_changes",
    "setbacks",
)


async def state(bench: Bench) -> dict[str, list[tuple[object, ...]]]:
    """Everything but the log of deliveries, and when it was last looked at."""
    return {
        table: sorted(await bench.ask(f"SELECT * FROM {table}".encode()), key=repr)  # type: ignore[arg-type]
        for table in TABLES
    }


def life(dispatcher: Dispatcher, runner: str) -> dict[str, bytes]:
    """One delivery for each action that a handler knows, as GitHub sends them in a job's life."""
    return {
        "waiting": dispatcher.job(7, "waiting"),
        "queued": dispatcher.job(7, "queued"),
        "in_progress": dispatcher.job(7, "in_progress", runner_name=runner),
        "completed": dispatcher.job(7, "completed", runner_name=runner),
    }


async def replayed(dispatcher: Dispatcher, deliveries: dict[str, bytes]) -> None:
    """Each again under a new id, in both orders, and each twice."""
    for action in (*deliveries, *reversed(deliveries)):
        await dispatcher.deliver(deliveries[action])


async def test_every_delivery_of_a_job_may_be_replayed_at_any_later_moment(bench: Bench):
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    said = life(dispatcher, "runner-1-mint")
    assert set(said) == JOB_ACTIONS  # a handler that is added has to be added here
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: dispatcher.deliver(said["waiting"]),
        lambda: dispatcher.deliver(said["queued"]),
        lambda: bench.running(1),
        lambda: dispatcher.deliver(said["in_progress"]),
        lambda: dispatcher.deliver(said["completed"]),
    ]
    so_far: dict[str, bytes] = {}
    for step, action in zip(steps, ["waiting", "queued", "", "in_progress", "completed"], strict=True):
        await step()
        if action:
            so_far[action] = said[action]
        before = await state(bench)
        await replayed(dispatcher, so_far)
        assert await state(bench) == before, f"after {action or 'the claim'}"
    assert await bench.status(7) == "completed"


async def test_a_job_that_was_put_back_is_not_ended_or_bound_by_what_was_said_before(bench: Bench):
    """The runner died, the job waits again, and another Pod has it: old words about the first runner end nothing."""
    await bench.accounts(1)
    dispatcher = Dispatcher(bench)
    said = life(dispatcher, "runner-1-mint")
    await dispatcher.deliver(said["queued"])
    first = await bench.running(1)
    await bench.ledger.claims.release(first, by="healing", why="its runner never came")
    await bench.running(2)
    before = await bench.ask("SELECT pod_uid, job_id, state FROM claims")
    await dispatcher.deliver(said["queued"], said["waiting"])
    assert await bench.ask("SELECT pod_uid, job_id, state FROM claims") == before
    assert await bench.status(7) == "running"


@pytest.mark.parametrize("action", sorted(INSTALLATION_ACTIONS))
async def test_a_replayed_word_about_an_installation_ends_nothing_that_runs_and_moves_no_limit(
    bench: Bench, action: str
):
    await bench.accounts(1, vcpus=60, memory_mb=600_000)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8))
    await bench.running(1)
    before = await state(bench)
    replay = dispatcher.installation(action, account=1, installation=1001)
    for _ in range(3):
        await dispatcher.deliver(replay, event="installation")
    after = await state(bench)
    for table in set(TABLES) - {"accounts"}:
        assert after[table] == before[table], table
    # A removal that is replayed takes the installation away here alone: the next delivery about a job brings it back, and
    # so does GitHub's own list before the next runner is minted (tests of dispatch).
    await dispatcher.deliver(dispatcher.job(9))
    assert await bench.ask("SELECT account_id, installation_id FROM accounts") == [(1, 1001)]


async def test_replayed_words_about_repositories_end_nothing_that_runs_and_let_nobody_in(bench: Bench):
    await bench.accounts(1, vcpus=60, memory_mb=600_000)
    dispatcher = Dispatcher(bench)
    await dispatcher.deliver(dispatcher.job(7), dispatcher.job(8))
    await bench.running(1)
    before = await state(bench)
    for _ in range(2):
        for action in ("added", "removed"):
            for account in (1, 66):
                said = dispatcher.repositories(action, account=account, installation=1000 + account, app=5)
                await dispatcher.deliver(said, event="installation_repositories")
    after = await state(bench)
    for table in set(TABLES) - {"setbacks"}:
        assert after[table] == before[table], table
    # A removal that is replayed costs the repository the rest after a failed mint, and no more.
    assert await bench.ask("SELECT repository FROM setbacks WHERE not_before <= %s", [bench.clock.moment + REST]) == [
        ("org1/app",)
    ]
    bench.clock.moment += REST
    assert (await bench.claimed(2)).job_id == 8


async def test_a_replayed_installation_of_a_stranger_lets_nobody_in(bench: Bench):
    dispatcher = Dispatcher(bench)
    for _ in range(3):
        created = dispatcher.installation("created", account=66, installation=1066, login="stranger")
        await dispatcher.deliver(created, event="installation")
    assert await bench.ledger.allow_list.entries() == []
