"""How many Pods may be served at once by this process."""

import asyncio

__all__ = ["ConcurrencyLimit"]


class ConcurrencyLimit:
    """Whole numbers of places, taken before a claim is made: nobody wins a job that would then have to wait for us."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._given = asyncio.Event()

    def take(self, wanted: int) -> int:
        """As many as there are, up to what is wanted; perhaps none."""
        taken = min(self.free, wanted)
        self.free -= taken
        return taken

    def give(self, places: int) -> None:
        if places:
            self.free += places
            self._given.set()

    async def some(self) -> None:
        """Until there may be one."""
        while self.free == 0:
            self._given.clear()
            await self._given.wait()
