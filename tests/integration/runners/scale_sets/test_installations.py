"""Installations are listed where nobody tells of them, and seldom where the list fails."""

import asyncio

import pytest
from integration.runners.scale_sets.listeners_world import listeners_world
from integration.schemas import Schemas

from paddock.clients.github import Forbidden


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
        await asyncio.sleep(1.0)  # five rounds
        assert len(asked) == 1
