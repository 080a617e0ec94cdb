"""Live pages: each part is rendered once for everybody, and sent only when it changed.

A page that is loaded carries the version it was made from, and is sent what changed since; a browser that reconnects says
by itself what it saw last. So a page of a thousand Macs is transferred once.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from paddock.base.clock import Clock

__all__ = ["Frame", "Live", "Part"]

_HEARTBEAT = 15.0
_SETTLE = 0.25
_SHARE = 5.0
"""Looking takes at most a sixth of the process's time, however large the fleet is."""
_SLOWEST = 5.0
_BACKLOG = 64
_TICKING = re.compile(r'(<time class="since"[^>]*>)[^<]*')


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page, by the id of its element. It is sent when its `key` changes; `html` is called only then.

    A part `within` another is left out where the other is sent, which holds it.
    """

    html: Callable[[], str]
    key: object
    within: str = ""

    @classmethod
    def of(cls, html: str, within: str = "") -> "Part":
        """A part that is sent when its HTML changes. Times since a moment move on in the browser by themselves: that one
        of them has grown is no change.
        """
        return cls(lambda: html, _TICKING.sub(r"\1", html), within)


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that a page shows, the version that stands for it, and how many seconds it took to look."""

    version: str
    parts: Mapping[str, Part]
    took: float = 0.0


class Live:
    """Looks when told that something changed, and streams the changed parts to every open page.

    A page that is too slow to read is disconnected rather than kept in memory; its browser reconnects by itself and says
    which version it had. `run_id` makes the versions of this run different from those of another.
    """

    def __init__(self, look: Callable[[], Mapping[str, Part]], clock: Clock, run_id: str = "0") -> None:
        self._look = look
        self.clock = clock
        self._run_id = run_id
        self._version = 0
        self._parts: Mapping[str, Part] = {}
        self._changed_at: dict[str, int] = {}
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._touched = asyncio.Event()
        self._looked = float("-inf")
        self._stale = True

    def touch(self) -> None:
        """Something that a page shows may have changed."""
        self._stale = True
        self._touched.set()

    def now(self) -> Frame:
        """A look at this moment, or the last one where that was only just now; the stream then tells what came since.

        Open pages are told of what a new look found.
        """
        began = self.clock.monotonic()
        if began - self._looked >= _SETTLE:
            self._send(self._compare())
        return Frame(self._token(), self._parts, self.clock.monotonic() - began)

    async def run(self) -> None:
        """Look and send until cancelled. Changes that come together are sent together; clocks move on anyway."""
        while True:
            try:
                async with asyncio.timeout(_SLOWEST):
                    await self._touched.wait()
            except TimeoutError:
                pass
            self._touched.clear()
            began = self.clock.monotonic()
            if self._pages:
                self._send(self._compare())
            await self.clock.sleep(max(_SETTLE, _SHARE * (self.clock.monotonic() - began)))

    async def stream(self, since: str = "") -> AsyncIterator[bytes]:
        """Server-sent events for one page: what changed since its version, or everything, and then what changes."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)
        if self._stale or self.clock.monotonic() - self._looked >= _SETTLE:
            self._send(self._compare())  # the others are not told by the next look, which compares with this one
        queue.put_nowait(self._frame(self._since(self._known(since))))
        self._pages.add(queue)
        try:
            while queue in self._pages:
                try:
                    async with asyncio.timeout(_HEARTBEAT):
                        frame = await queue.get()
                except TimeoutError:
                    frame = b": still here\n\n"
                if frame is None:
                    return
                yield frame
        finally:
            self._pages.discard(queue)

    def end(self) -> None:
        """Close every stream, so that a stopping server does not wait for open pages."""
        for page in list(self._pages):
            self._pages.discard(page)
            while not page.empty():
                page.get_nowait()
            page.put_nowait(None)

    def _compare(self) -> dict[str, str]:
        self._stale = False
        now, before = self._look(), self._parts
        self._looked = self.clock.monotonic()
        # Most parts are the very objects of the look before, which needs no comparing.
        new = [
            name
            for name, part in now.items()
            if (old := before.get(name)) is not part and (old is None or old.key != part.key)
        ]
        if new:
            self._version += 1
            self._changed_at = {name: self._changed_at.get(name, 0) for name in now}
            self._changed_at.update(dict.fromkeys(new, self._version))
        self._parts = now
        return self._html(new)

    def _since(self, version: int) -> dict[str, str]:
        return self._html([name for name, at in self._changed_at.items() if at > version])

    def _html(self, names: list[str]) -> dict[str, str]:
        sent = set(names)
        return {name: self._parts[name].html() for name in names if not self._held(name, sent)}

    def _held(self, name: str, sent: set[str]) -> bool:
        """Whether a part that is sent holds this one."""
        outer = self._parts[name].within
        while outer:
            if outer in sent:
                return True
            outer = self._parts[outer].within
        return False

    def _send(self, parts: Mapping[str, str]) -> None:
        if not parts or not self._pages:
            return
        frame = self._frame(parts)
        for page in list(self._pages):
            try:
                page.put_nowait(frame)
            except asyncio.QueueFull:
                self._pages.discard(page)

    def _token(self) -> str:
        return f"{self._run_id}-{self._version}"

    def _known(self, token: str) -> int:
        run_id, _, version = token.rpartition("-")
        return (
            int(version)
            if run_id == self._run_id and version.isascii() and version.isdecimal() and len(version) < 19
            else 0
        )

    def _frame(self, parts: Mapping[str, str]) -> bytes:
        # The standard encoder, because rendered HTML is a subclass of str, which msgspec refuses.
        return f"id: {self._token()}\nevent: parts\ndata: {json.dumps(parts, ensure_ascii=False)}\n\n".encode()
