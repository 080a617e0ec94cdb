"""A pull beside VMs that run: it may take the disk's free space, and never the last of it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from paddock.base.tasks import end as end_task
from paddock.node.host import Disk
from paddock.node.machines import PullError, Tart, TartError

__all__ = ["SCARCE", "pull_beside_vms"]

SCARCE: Final = 0.05
"""Below this share of free space a pull is given up: the rest is for the VMs that run."""
_LOOK_EVERY: Final = 5.0


async def pull_beside_vms(tart: Tart, image: str, look: Callable[[], Awaitable[Disk]]) -> None:
    """Pull the image and look at the disk meanwhile. PullError where the pull fails, or was ended because the disk is scarce."""
    pull = asyncio.create_task(tart.pull(image), name=f"pull of {image}")
    try:
        while not pull.done():
            await asyncio.wait([pull], timeout=_LOOK_EVERY)
            # A look that fails says nothing about the disk.
            with suppress(OSError):
                if not pull.done() and (await look()).free_share < SCARCE:
                    break
    finally:
        await end_task(pull)
    if not pull.cancelled():
        return pull.result()
    # Tart removes what a killed pull left with its next command.
    with suppress(TartError, OSError):
        await tart.machines()
        await look()
    raise PullError(f"the pull left less than {SCARCE:.0%} of the disk free, and was ended: free some space")
