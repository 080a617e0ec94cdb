"""Two pools that want one scale set: one goes on, the other is told so, and neither loses what it has."""

from collections.abc import AsyncIterator

import pytest_asyncio
from integration.runners.scale_sets.listeners_world import ListenersWorld, listeners_world, pool
from integration.schemas import Schemas


@pytest_asyncio.fixture
async def world(schemas: Schemas) -> AsyncIterator[ListenersWorld]:
    async with listeners_world(schemas) as world:
        yield world


async def test_an_older_pool_that_is_given_a_younger_ones_label_is_refused_and_both_keep_their_sets(
    world: ListenersWorld,
) -> None:
    young = pool("young", "b", days=1)
    world.pools = [pool("old", "a", days=9), young]
    await world.start()
    before = [await world.reaches("Listening", name) for name in ("old", "young")]
    world.pools = [pool("old", "b", days=9), young]
    refused = await world.reaches("Refused", "old")
    assert "scale set 'b' is still pool young's" in refused.sentence
    await world.stop()  # who holds what is in the rows, so that the next process decides alike
    await world.start()
    await world.reaches("Refused", "old")
    after = [await world.reaches(state, name) for state, name in (("Refused", "old"), ("Listening", "young"))]
    assert [source.scale_set_id for source in after] == [source.scale_set_id for source in before]
    world.pools = [pool("old", "b", days=9)]
    await world.until(
        "the label is the older pool's once the younger is gone",
        lambda: [found.name for found in world.github.state.scale_sets.values()] == ["b"],
    )
    await world.reaches("Listening", "old")
