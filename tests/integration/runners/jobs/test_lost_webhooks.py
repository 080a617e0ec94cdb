"""The way of GitHub's webhooks to us is cut: it is said, jobs run all the same, and it is over when one arrives."""

import itertools
from collections.abc import AsyncIterator

import pytest_asyncio
from integration.runners.jobs.world import World

from paddock.base.metrics import exposition
from paddock.embedded.postgres import EmbeddedPostgres

_schemas = itertools.count()


@pytest_asyncio.fixture
async def world(server: EmbeddedPostgres) -> AsyncIterator[World]:
    async with World(server.dsn, f"lost_webhooks_{next(_schemas)}", macs=1).living() as world:
        yield world


async def test_a_cut_is_told_with_its_answer_and_is_over_with_the_first_arrival(world: World) -> None:
    world.github.deliver_to(world.webhooks.replace("/webhooks/github", "/nowhere"))
    world.submit(1)

    async def told() -> bool:
        lost = (await world.service.queue.summary()).undelivered
        return lost is not None and lost.status_code == 404

    await world.until("the loss is told", told)
    await world.service.queue.look()
    assert 0 < world.service.queue.lost_seconds < 60  # type: ignore[operator]
    assert b"paddock_webhook_lost_seconds" in exposition(world._context.registry)
    world.github.deliver_to(world.webhooks)

    async def over() -> bool:
        return (await world.service.queue.summary()).undelivered is None

    await world.until("the loss is over", over)
    await world.until("the job is over in every ledger", world.all_done)
    await world.nothing_is_left()
