"""Installations are listed where nobody tells of them, and seldom where the list fails."""

import asyncio
from typing import Any

import pytest
from integration.runners.scale_sets.listeners_world import listeners_world
from integration.schemas import Schemas

from paddock.clients.github import Forbidden, scaleset_connection
from paddock.clients.github.scaleset import QueueSession
from paddock.clients.github.scaleset_client import ScaleSetClient
from paddock.runners.scale_sets import decisions


async def test_installations_that_cannot_be_listed_are_not_asked_for_in_every_round(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def refused() -> None:
        asked.append("")
        raise Forbidden("the App is suspended", status=403)

    async with listeners_world(schemas) as world:
        monkeypatch.setattr(world.client, "installations", refused)
        await world.start()
        await world.reaches("Listening")
        await world.rounds(5)
        assert len(asked) == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is not accepted is asked for anew, and what is refused is asked again, at once."""
    judged = decisions.failure

    def soon(*args: Any, **options: Any) -> decisions.Failure:
        found = judged(*args, **options)
        return decisions.Failure(found.state, found.sentence, 0.2)

    monkeypatch.setattr(decisions, "failure", soon)
    monkeypatch.setattr(scaleset_connection, "_FRESH", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_an_app_that_is_installed_anew_is_used_under_its_new_number(schemas: Schemas) -> None:
    async with listeners_world(schemas) as world:
        await world.start()
        await world.reaches("Listening")
        world.github.uninstall("acme")
        world.github.state.service_tokens.clear()
        await world.reaches("Refused")
        new = world.github.install("acme")
        await world.ledger.accounts.enrol(new.id, "acme", new.installation_id)  # as the list of installations says
        await world.reaches("Listening")


@pytest.mark.usefixtures("impatient")
async def test_an_account_that_is_renamed_is_listened_to_under_its_new_login(schemas: Schemas) -> None:
    async with listeners_world(schemas) as world:
        await world.start()
        await world.reaches("Listening")
        world.github.rename_account("acme", "apex")
        world.github.state.service_tokens.clear()
        await world.reaches("Refused")
        await world.ledger.accounts.enrol(world.account.id, "apex", world.account.installation_id)
        await world.reaches("Listening")


async def test_a_process_that_is_stopped_while_it_ends_a_listener_ends(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = ScaleSetClient.poll
    ending = asyncio.Event()

    async def slow_to_end(client: ScaleSetClient, session: QueueSession, *, after: int, capacity: int) -> object:
        try:
            return await poll(client, session, after=after, capacity=capacity)
        except asyncio.CancelledError:
            ending.set()
            await asyncio.sleep(0.5)  # until its connection is closed
            raise

    monkeypatch.setattr(ScaleSetClient, "poll", slow_to_end)
    async with listeners_world(schemas) as world:
        await world.start()
        await world.reaches("Listening")
        new = world.github.install("acme")
        await world.ledger.accounts.enrol(new.id, "acme", new.installation_id)
        await ending.wait()
        stopping = asyncio.ensure_future(world.stop())
        await asyncio.wait({stopping}, timeout=10.0)
        assert stopping.done(), "it goes on"
        source = await world.source()
        assert source is not None
        assert (source.session_id, source.dispatcher_id) == ("", None)
