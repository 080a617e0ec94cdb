"""A source that no pool asks for any more: served to its end, its set deleted, whatever fails and whoever is away meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from integration.runners.scale_sets.listeners_world import LABEL, ListenersWorld, listeners_world, pool
from integration.schemas import Schemas

from paddock.clients.github import GitHubError, Unavailable
from paddock.clients.github.scaleset_client import ScaleSetClient
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import LedgerUnavailableError, NewJob
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.book import LedgerBook
from paddock.runners.scale_sets.messages import Entry
from paddock.runners.scale_sets.provisioning import SetProvisioning


@pytest_asyncio.fixture
async def world(schemas: Schemas) -> AsyncIterator[ListenersWorld]:
    async with listeners_world(schemas) as world:
        await world.start()
        await world.reaches("Listening")
        yield world


async def retired(world: ListenersWorld) -> None:
    source = await world.reaches("Stopped")
    assert (source.scale_set_id, source.session_id, source.sentence) == (None, "", "")
    assert world.github.state.scale_sets == {}
    assert await world.ledger.scale_sets.views() == []


async def test_a_set_that_looks_busy_for_a_moment_goes_as_soon_as_it_is_idle(world: ListenersWorld) -> None:
    world.github.behaviour.phantom_jobs = 1
    world.pools = []

    async def said() -> bool:
        (view,) = await world.ledger.scale_sets.views()
        return view.sentence.startswith("no pool asks for these jobs any more: the scale set takes no new ones")

    await world.until("the page says that it is to go", said)
    assert world.github.state.scale_sets
    world.github.behaviour.phantom_jobs = 0
    await retired(world)


async def test_another_pool_has_the_label_as_soon_as_the_former_one_has_let_it_go(world: ListenersWorld) -> None:
    world.github.behaviour.phantom_jobs = 1
    world.pools = [pool(label="other", job_source="Webhook", runner_labels=("y",)), pool("second")]
    refused = await world.reaches("Refused", "second")
    assert f"scale set '{LABEL}' is still pool macos's" in refused.sentence
    world.github.behaviour.phantom_jobs = 0
    await world.reaches("Listening", "second")
    former = await world.source()
    assert former is not None
    assert (former.state, former.scale_set_id) == ("Stopped", None)


async def test_a_delete_that_github_refuses_is_said_and_tried_again(
    world: ListenersWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ScaleSetClient.delete
    tried: list[GitHubError] = []

    async def delete(self: ScaleSetClient, place: object, scale_set_id: int) -> None:
        if not tried:
            tried.append(Unavailable("DELETE: HTTP 502", status=502))
            raise tried[0]
        await real(self, place, scale_set_id)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(ScaleSetClient, "delete", delete)
    world.pools = []
    said = await world.reaches("Lost")
    assert "the scale set is still at GitHub: GitHub cannot be asked for jobs: DELETE: HTTP 502" in said.sentence
    await retired(world)


async def test_a_job_that_was_assigned_and_not_written_when_its_pool_changed_its_source_has_a_row(
    world: ListenersWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LedgerBook.apply
    begun, changed = asyncio.Event(), asyncio.Event()

    async def slow(self: LedgerBook, source: Source, entry: Entry, of: RunnerPool) -> str:
        begun.set()
        await changed.wait()
        return await real(self, source, entry, of)

    monkeypatch.setattr(LedgerBook, "apply", slow)
    world.github.submit("acme/app", labels=(LABEL,), duration=30.0, name="job")
    await begun.wait()
    world.pools = [pool(job_source="Webhook")]
    await world.rounds(3)
    changed.set()

    async def written() -> bool:
        return bool(await world.ledger.assignments.unfinished())

    await world.until("the job has a row", written)
    (left,) = world.github.state.scale_sets.values()
    assert left.session, "it is listened to until its last job is over"
    await world.until("nothing more is asked for", lambda: left.capacity == 0)


async def test_a_pool_that_is_deleted_while_no_process_runs_leaves_nothing(world: ListenersWorld) -> None:
    await world.stop()
    world.pools = []
    await world.start()
    await retired(world)


async def test_a_set_that_an_older_release_left_behind_goes(world: ListenersWorld) -> None:
    await world.stop()
    source = await world.ledger.scale_sets.take(
        "macos", world.account.id, "", dispatcher=1, silent_since=world.clock.now()
    )
    assert source is not None
    assert source.scale_set_id is not None
    await world.ledger.scale_sets.note(source, "Stopped", "jobs are still assigned to the set: it is left at GitHub")
    await world.ledger.scale_sets.give_back(source)
    world.pools = []
    await world.start()
    await world.until("the set is gone", lambda: not world.github.state.scale_sets)


async def test_a_ledger_that_is_away_while_a_source_retires_is_waited_for(
    world: ListenersWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SetProvisioning.delete
    tried: list[int] = []

    async def away(self: SetProvisioning) -> bool:
        tried.append(1)
        if len(tried) == 1:
            raise LedgerUnavailableError("away for a moment")
        return await real(self)

    monkeypatch.setattr(SetProvisioning, "delete", away)
    world.pools = []
    await world.until("it was tried", lambda: bool(tried))
    await retired(world)


async def test_the_session_is_closed_before_the_set_is_deleted(
    world: ListenersWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ScaleSetClient.delete
    open_sessions: list[str] = []

    async def delete(self: ScaleSetClient, place: object, scale_set_id: int) -> None:
        open_sessions.append(world.github.state.scale_sets[scale_set_id].session)
        await real(self, place, scale_set_id)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(ScaleSetClient, "delete", delete)
    world.pools = []
    await retired(world)
    assert open_sessions == [""]


async def test_an_account_that_is_denied_has_its_set_deleted_and_gets_one_again(world: ListenersWorld) -> None:
    await world.ledger.allow_list.deny(world.account.id, "acme", by="test", why="for now")
    await retired(world)
    await world.ledger.allow_list.allow(world.account.id, "acme", by="test", why="again")
    await world.reaches("Listening")


async def test_a_source_whose_account_took_the_app_away_rests_and_goes_when_it_is_back(world: ListenersWorld) -> None:
    await world.ledger.accounts.enrol(world.account.id, "acme", None)
    world.pools = []
    rests = await world.reaches("Stopped")
    assert rests.sentence == "the App is not installed at acme any more: the scale set is left there"
    assert rests.scale_set_id is not None
    await world.ledger.accounts.enrol(world.account.id, "acme", world.account.installation_id)
    await world.until("the set is gone", lambda: not world.github.state.scale_sets)
    await retired(world)


async def test_a_row_that_was_to_wake_a_job_keeps_no_set_of_a_pool_that_is_gone(world: ListenersWorld) -> None:
    source = await world.source()
    assert source is not None
    waits = NewJob(
        job_id=1,
        account_id=source.account_id,
        pool=source.pool,
        platform="macos",
        vcpus=6,
        memory_mb=14_336,
        repository="acme/app",
        enqueued_at=world.clock.now(),
        label=LABEL,
    )
    assert await world.ledger.nameless.nudge(waits, since=world.clock.now(), by="test", why="it waits unannounced")
    world.pools = []
    await retired(world)
