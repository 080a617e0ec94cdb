"""Waiting for whichever comes first: a moment of the clock or an event."""

import asyncio

from paddock.base.clock import Clock

__all__ = ["pause"]


async def pause(clock: Clock, woken: asyncio.Event, seconds: float) -> None:
    """Return after that many seconds, or as soon as `woken` is set."""
    nap = asyncio.ensure_future(clock.sleep(max(0.0, seconds)))
    call = asyncio.ensure_future(woken.wait())
    try:
        await asyncio.wait({nap, call}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        nap.cancel()
        call.cancel()
