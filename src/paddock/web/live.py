"""Live pages: each part is rendered once for everybody, and sent only when it changed.

A page that is loaded carries the version it was made from, and is sent what changed since; a browser that reconnects says
by itself what it saw last. So a page of a thousand Macs is transferred once.

A look takes a snapshot on the event loop, which is quick, and draws it in a thread, which is not: requests are answered
meanwhile. One look runs at a time, and whoever asks during it shares the next.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from paddock.base.clock import Clock

__all__ = ["MOST_PAGES", "Apart", "Draw", "Frame", "Live", "Part"]

_HEARTBEAT = 15.0
_SETTLE = 0.25
_SHARE = 5.0
"""Looking takes at most a sixth of the process's time, however large the fleet is."""
_SLOWEST = 5.0
_YOUNG = 1.0
"""A page is made at once from a look no older than this, and its stream then tells it what came since."""
MOST_PAGES = 200
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


T = TypeVar("T")
Draw = Callable[[], Mapping[str, Part]]


class Apart(Protocol):
    """Runs what takes long beside the event loop, such as `asyncio.to_thread`."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Live:
    """Looks when told that something changed, and streams the changed parts to every open page.

    A page that is too slow to read is disconnected rather than kept in memory; its browser reconnects by itself and says
    which version it had. `run_id` makes the versions of this run different from those of another. `look` takes a snapshot
    that nothing changes any more, and returns what draws it.
    """

    def __init__(
        self, look: Callable[[], Draw], clock: Clock, run_id: str = "0", apart: Apart = asyncio.to_thread
    ) -> None:
        self._look = look
        self.apart = apart
        self.clock = clock
        self._run_id = run_id
        self._version = 0
        self._parts: Mapping[str, Part] = {}
        self._changed_at: dict[str, int] = {}
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._touched = asyncio.Event()
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self._stale = True

    @property
    def full(self) -> bool:
        """Whether as many pages are open as are streamed to: each costs a packer and a queue, whoever opens them."""
        return len(self._pages) >= MOST_PAGES

    def touch(self) -> None:
        """Something that a page shows may have changed."""
        self._stale = True
        self._touched.set()

    async def now(self) -> Frame:
        """A look at this moment, or the last one where that is young; the stream then tells what came since.

        Open pages are told of what a new look found.
        """
        began = self.clock.monotonic()
        if began - self._looked >= (_YOUNG if self._stale else _SLOWEST):
            await self._refresh()
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
                await self._refresh()
            await self.clock.sleep(max(_SETTLE, _SHARE * (self.clock.monotonic() - began)))

    async def stream(self, since: str = "") -> AsyncIterator[bytes]:
        """Server-sent events for one page: what changed since its version, or everything, and then what changes."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)
        if self._stale or self.clock.monotonic() - self._looked >= _SETTLE:
            await self._refresh()
        # Nothing is awaited between these two: what comes later is in the queue, behind what this page has missed.
        missed = partial(_frame, self._token(), self._parts, self._since(self._known(since)))
        self._pages.add(queue)
        try:
            yield await self.apart(missed)
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

    async def _refresh(self) -> None:
        """A look that begins after this is called, whoever makes it; every open page is told what it found."""
        asked = self.clock.monotonic()
        async with self._looking:
            if self._looked >= asked and not self._stale:
                return
            began = self.clock.monotonic()
            self._stale = False  # before the snapshot: a change that comes while it is drawn is seen by the next look
            try:
                parts = await self.apart(self._look())
                new = _changed(self._parts, parts)
                after = self._version + bool(new)
                # A page that comes meanwhile has what was there before, and is told with the others.
                told = partial(_frame, self._token(after), parts, new)
                frame = await self.apart(told) if new and self._pages else None
            except BaseException:
                self._stale = True
                raise
            self._looked, self._parts, self._version = began, parts, after
            if new:
                self._changed_at = {name: self._changed_at.get(name, 0) for name in parts}
                self._changed_at.update(dict.fromkeys(new, after))
            if frame is not None:
                self._send(frame)

    def _since(self, version: int) -> list[str]:
        return [name for name, at in self._changed_at.items() if at > version]

    def _send(self, frame: bytes) -> None:
        for page in list(self._pages):
            try:
                page.put_nowait(frame)
            except asyncio.QueueFull:
                self._pages.discard(page)

    def _token(self, version: int | None = None) -> str:
        return f"{self._run_id}-{self._version if version is None else version}"

    def _known(self, token: str) -> int:
        run_id, _, version = token.rpartition("-")
        return (
            int(version)
            if run_id == self._run_id and version.isascii() and version.isdecimal() and len(version) < 19
            else 0
        )


def _changed(before: Mapping[str, Part], now: Mapping[str, Part]) -> list[str]:
    # Most parts are the very objects of the look before, which needs no comparing.
    return [
        name
        for name, part in now.items()
        if (old := before.get(name)) is not part and (old is None or old.key != part.key)
    ]


def _frame(token: str, parts: Mapping[str, Part], names: list[str]) -> bytes:
    """One server-sent event with these parts, without those that another of them holds."""
    sent = set(names)
    html = {name: parts[name].html() for name in names if not _held(parts, name, sent)}
    # The standard encoder, because rendered HTML is a subclass of str, which msgspec refuses.
    return f"id: {token}\nevent: parts\ndata: {json.dumps(html, ensure_ascii=False)}\n\n".encode()


def _held(parts: Mapping[str, Part], name: str, sent: set[str]) -> bool:
    """Whether a part that is sent holds this one."""
    outer = parts[name].within
    while outer:
        if outer in sent:
            return True
        outer = parts[outer].within
    return False
