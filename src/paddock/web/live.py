"""Live pages: each part is rendered once for everybody, and sent only when it changed.

A page that is loaded carries the version it was made from, and is sent what changed since; a browser that reconnects says
by itself what it saw last. So a page of a thousand Macs is transferred once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from paddock.base.clock import Clock

__all__ = ["Live", "Moment", "Part"]

_HEARTBEAT = 15.0
_SETTLE = 0.25
_SHARE = 5.0
"""Looking takes at most a sixth of the process's time, however large the fleet is."""
_SLOWEST = 5.0
_BACKLOG = 64


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page, by the id of its element. It is sent when its `key` changes; `html` is called only then.

    A part `within` another is left out where the other is sent, which holds it.
    """

    html: Callable[[], str]
    key: object
    within: str = ""

    @classmethod
    def of(cls, html: str) -> "Part":
        return cls(lambda: html, html)


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that a page shows, and the version that stands for it."""

    version: str
    parts: Mapping[str, Part]


class Live:
    """Looks when told that something changed, and streams the changed parts to every open page.

    A page that is too slow to read is disconnected rather than kept in memory; its browser reconnects by itself and says
    which version it had. `run_id` makes the versions of this run different from those of another.
    """

    def __init__(self, look: Callable[[], Mapping[str, Part]], clock: Clock, run_id: str = "0") -> None:
        self._look = look
        self._clock = clock
        self._run_id = run_id
        self._version = 0
        self._parts: Mapping[str, Part] = {}
        self._changed_at: dict[str, int] = {}
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._touched = asyncio.Event()

    def touch(self) -> None:
        """Something that a page shows may have changed."""
        self._touched.set()

    def now(self) -> Moment:
        """A look at this moment. Open pages are told of what it found."""
        self._send(self._compare())
        return Moment(self._token(), self._parts)

    async def run(self) -> None:
        """Look and send until cancelled. Changes that come together are sent together; clocks move on anyway."""
        while True:
            try:
                async with asyncio.timeout(_SLOWEST):
                    await self._touched.wait()
            except TimeoutError:
                pass
            self._touched.clear()
            began = self._clock.monotonic()
            if self._pages:
                self._send(self._compare())
            await self._clock.sleep(max(_SETTLE, _SHARE * (self._clock.monotonic() - began)))

    async def stream(self, since: str = "") -> AsyncIterator[bytes]:
        """Server-sent events for one page: what changed since its version, or everything, and then what changes."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)
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
        now, before = self._look(), self._parts
        new = [name for name, part in now.items() if name not in before or before[name].key != part.key]
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
        return f"id: {self._token()}\nevent: parts\ndata: {json.dumps(parts)}\n\n".encode()
