"""What is listed now, again and again: by the API server's watch where there is one, by looking again where there is none."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from paddock.cli.connections import Reached
from paddock.cli.kind import Kind

if TYPE_CHECKING:
    from paddock.base.clock import Clock

__all__ = ["changes"]

_LOOK_EVERY = 1.0
_TOGETHER = 0.05  # seconds: what changes at once is shown at once


async def changes(kind: Kind, reached: Reached, selector: str, clock: "Clock") -> AsyncGenerator[Sequence[Any]]:
    """The whole list after each change, sorted as a list is. The ledger has no watch: it is asked every second."""
    if kind.struct is None:
        while True:
            await clock.sleep(_LOOK_EVERY)
            yield await kind.read(reached, selector)
    async with aclosing(_watched(kind.struct(), reached, selector, clock)) as readings:
        async for reading in readings:
            yield reading


async def _watched(struct: type[Any], reached: Reached, selector: str, clock: "Clock") -> AsyncGenerator[Sequence[Any]]:
    from paddock.base.rng import unseeded
    from paddock.kube.informer import Informer

    only = (reached.only or None) if struct.RESOURCE.namespaced else None
    informer = Informer(reached.client, struct, clock=clock, rng=unseeded(), namespace=only, label_selector=selector)
    changed = asyncio.Event()
    informer.add_handler(lambda _: changed.set())
    following = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        while True:
            found = informer.reader.list()
            yield sorted(found, key=lambda obj: (obj.metadata.namespace, obj.metadata.name))
            await changed.wait()
            await clock.sleep(_TOGETHER)
            changed.clear()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
