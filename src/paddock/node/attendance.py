"""Attending a live VM: start its guest script, ask for its job when it is ready, hand the job over, post its log."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from paddock.base.logs import get_logger
from paddock.base.tasks import end as end_task
from paddock.base.tasks import first_of
from paddock.clients.dispatch import Drained, Refused, Served
from paddock.clients.gateway.messages import JobRequest
from paddock.node.context import Context
from paddock.node.decide import Facts
from paddock.node.journal import Entry
from paddock.node.log_reporter import LogReporter
from paddock.node.machines import TartError
from paddock.node.shares import Shares

__all__ = ["Attendance"]

log = get_logger("node attendance")
_AGAIN: Final = 3.0
_AGAIN_AFTER_START: Final = 30.0
_LAST_WORDS: Final = 5.0
_CUT_OFF: Final = 120.0
"""A dispatch that has not answered for so long is away: a held request and one that failed, or a restart, take less."""


class Attendance:
    """What the agent does beside a VM that lives. All of it ends with `close`, and can begin again from nothing."""

    def __init__(self, context: Context, uid: str, shares: Shares, wake: Callable[[], None]) -> None:
        self._context = context
        self._uid = uid
        self._shares = shares
        self._wake = wake
        self._starting: asyncio.Task[None] | None = None
        self._seeking: asyncio.Task[None] | None = None
        self._posting: asyncio.Task[None] | None = None
        self._log = LogReporter(partial(context.link.log, uid), shares, context.clock)
        self._seeking_since = 0.0
        self._reached_at: float | None = None
        self.outcome: Drained | Refused | None = None

    async def attend(self, entry: Entry, facts: Facts) -> None:
        context, guest = self._context, facts.guest
        if guest.ready and entry.ready_at is None:
            entry = replace(entry, ready_at=facts.now.replace(microsecond=0))
            await context.journal.put(entry)
            context.metrics.phases.labels("ready").observe(facts.since_start)
        handed = facts.handed or entry.handed_at is not None
        if facts.handed and entry.handed_at is None:
            entry = replace(entry, handed_at=facts.now.replace(microsecond=0))
            await context.journal.put(entry)
        if facts.handed and guest.state in ("job", "done"):
            await self._shares.take_back()
        if not guest.spoke and not handed:
            self._start_script(entry)
        if facts.pod is None:
            return
        if guest.state == "ready" and not handed and self.outcome is None:
            self._seek()
            await self._note_contact(entry, facts)
        if handed and guest.mark is not None:
            self._post()

    def _start_script(self, entry: Entry) -> None:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._until_started(entry.vm), name=f"script of {entry.name}")

    async def _until_started(self, vm: str) -> None:
        """Ask once. Images with a LaunchAgent start the script by themselves; its lock lets one copy run."""
        started = False
        try:
            started = await self._context.tart.execute(vm, self._context.settings.guest_command) == 0
        except TartError as error:
            log.debug("the guest does not answer yet", vm=vm, why=str(error))
        await self._context.clock.sleep(_AGAIN_AFTER_START if started else _AGAIN)

    async def _note_contact(self, entry: Entry, facts: Facts) -> None:
        """Record that dispatch was reached, or no longer is: a VM is ready only while somebody asks for its job.

        An agent that starts again has the same time to reach dispatch, and says nothing new until then.
        """
        now, at = self._context.clock.monotonic(), facts.now.replace(microsecond=0)
        reached = self._reached_at
        if reached is not None and now - reached <= _CUT_OFF:
            if not entry.asks:
                await self._context.journal.put(replace(entry, asking_at=at, cut_off_at=None))
        elif entry.asks and now - (reached or self._seeking_since) > _CUT_OFF:
            await self._context.journal.put(replace(entry, cut_off_at=at))

    def _reached(self) -> None:
        first = self._reached_at is None
        self._reached_at = self._context.clock.monotonic()
        if first:
            self._wake()

    def _seek(self) -> None:
        if self._seeking is None:
            self._seeking_since = self._context.clock.monotonic()
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._until_answered(), name=f"job of {self._uid}")

    async def _until_answered(self) -> None:
        link = self._context.link
        try:
            self.outcome = await link.job(self._uid, self._request, self._hand_over, self._reached)
        except OSError as error:
            # The job's config could not be written: dispatch sees that the job does not start, and puts it back.
            log.error("a job could not be handed over", uid=self._uid, why=str(error))  # noqa: TRY400
        self._wake()

    def _request(self) -> JobRequest:
        return JobRequest(softnet=self._context.behind_softnet)

    async def _hand_over(self, served: Served) -> None:
        # Dying before this write is the lost answer; dying behind it is a job in the guest's hands, which the file proves.
        await self._shares.hand_over(served.config)
        log.info("a job was handed over", uid=self._uid, owner=served.owner, job=served.job_id)
        self._wake()

    def _post(self) -> None:
        if self._posting is None or self._posting.done():
            # In the background: whoever is away must not keep anybody from seeing that the VM has ended.
            self._posting = asyncio.create_task(self._log.run(), name=f"log of {self._uid}")

    async def finish_log(self) -> None:
        """The VM has ended: dispatch gets the rest of its log, within a few seconds or not at all.

        Dying here, or a dispatch that is away, costs the end of the kept log; the termination message has its last lines.
        """
        if await self._shares.log_tail() == "":
            return
        await first_of(self._context.clock.sleep(_LAST_WORDS), self._log.finish())

    async def close(self) -> None:
        """Everything that was begun has ended."""
        for task in (self._starting, self._seeking, self._posting):
            if task is not None:
                await end_task(task)
