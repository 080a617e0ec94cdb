"""One scale set, listened to under its lease: set, session, poll, write, acknowledge.

The invariant: a message is deleted at GitHub only after all that it says is in the ledger. `docs/design/scale-sets.md` has the
table of places where the process may die, and what heals each.
"""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import QueueMessage, QueueSession, ScaleSet, ScaleSets
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import InvalidEntryError, LedgerUnavailableError
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets import decisions
from paddock.runners.scale_sets.book import JobBook
from paddock.runners.scale_sets.decisions import Failure, Found, GhostWatch
from paddock.runners.scale_sets.messages import Entry, UnreadableEntry, read_entries
from paddock.runners.scale_sets.metrics import ScaleSetMetrics

__all__ = ["Listener", "ListenerContext", "Pace"]

log = get_logger("scale sets")
_CLOSING: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is looked at, in seconds."""

    capacity: float = 5.0
    statistics: float = 60.0
    refused: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerContext:
    """What every listener of a process works with. `name` is the process's own, shown to people at GitHub."""

    github: ScaleSets
    book: JobBook
    clock: Clock
    metrics: ScaleSetMetrics
    name: str = "dispatch"
    pace: Pace = Pace()


class _RefusedError(Exception):
    """Only a person can mend it."""


class Listener:
    """Listens until it is cancelled or the lease is another's (LeaseLostError). Nothing of GitHub's is raised.

    `pool` gives the pool as it is now, None once it is gone; a pool that is gone, or that hears of its jobs by webhook now,
    is served to the end of what was assigned: nothing more is asked for.
    """

    def __init__(
        self, context: ListenerContext, source: Source, place: RunnerPlace, pool: Callable[[], RunnerPool | None]
    ) -> None:
        self._github = context.github
        self._book = context.book
        self._clock = context.clock
        self._metrics = context.metrics
        self._name = context.name
        self._pace = context.pace
        self._source = source
        self._place = place
        self._pool = pool
        self._last_pool: RunnerPool | None = None
        self._session: QueueSession | None = None
        self._ghosts = GhostWatch()
        self._looked_at = 0.0
        self._dropped: tuple[str, ...] = ()

    async def run(self) -> None:
        failures = 0
        while True:
            heard = self._clock.monotonic()
            try:
                await self._listen()
            except github.GitHubError as error:
                # A session that worked for a while is a new beginning.
                failures = 1 if self._clock.monotonic() - heard > 60 else failures + 1
                await self._pause(decisions.failure(error, self._place, failures=failures))
            except _RefusedError as refused:
                await self._pause(Failure("Refused", str(refused), self._pace.refused))
            except LedgerUnavailableError as error:
                failures += 1
                log.warning("a scale set waits for the ledger", pool=self._source.pool, error=str(error))
                await self._clock.sleep(min(15.0, 2.0 ** min(failures, 4)))

    async def close(self) -> None:
        """End the session and give the lease back, as far as both can be reached: others need not wait for our silence."""
        scale_set_id, session = self._source.scale_set_id, self._session
        with suppress(github.GitHubError, LedgerUnavailableError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                if scale_set_id is not None and session is not None:
                    await self._github.close_session(self._place, scale_set_id, session.session_id)
                await self._book.give_back(self._source)

    async def stopped(self, sentence: str) -> None:
        await self._book.note(self._source, "Stopped", sentence)

    async def delete_set(self) -> bool:
        """Delete the set at GitHub if no job is assigned to it; False where it stays."""
        scale_set_id = self._source.scale_set_id
        if scale_set_id is None:
            return True
        try:
            if (await self._github.get(self._place, scale_set_id)).statistics.total_assigned_jobs > 0:
                return False
            await self._github.delete(self._place, scale_set_id)
        except github.NotFound:
            pass
        except github.GitHubError as error:
            log.info("a scale set is left at GitHub", pool=self._source.pool, error=str(error))
            return False
        await self._record(None, "")
        return True

    # Set and session

    async def _listen(self) -> None:
        scale_set = await self._ensure_set()
        session = await self._ensure_session(scale_set)
        after = 0
        while True:
            pool = self._present_pool()
            asked = await self._capacity(pool)
            try:
                message = await self._poll(session, after, asked)
            except github.Unauthenticated:
                # The queue's token ended. A session that GitHub gave up meanwhile is opened anew by the caller.
                session = await self._renew(scale_set.scale_set_id, session)
                continue
            except github.NotFound:
                # Evicted, or the set is gone: the next round looks up both.
                self._session = None
                raise github.Unavailable("the session is gone; a new one is opened") from None
            if message is not None:
                await self._take(scale_set.scale_set_id, session, message, pool)
                after = message.message_id
            await self._look(scale_set.scale_set_id)

    async def _ensure_set(self) -> ScaleSet:
        """The set, found by its number, or by its name, or made."""
        pool, owner = self._present_pool(), await self._book.owner()
        name, group = pool.spec.dispatch_label, pool.spec.runner_group or "Default"
        recorded = self._source.scale_set_id
        if recorded is not None:
            with suppress(github.NotFound):
                found = await self._github.get(self._place, recorded)
                if found.name.lower() == name.lower():
                    self._dropped = decisions.labels_dropped(pool, found)
                    return found
        group_id = await self._github.group(self._place, group)
        if group_id is None:
            raise _RefusedError(decisions.no_group(group, self._place))
        found = await self._github.find(self._place, group_id, name)
        match decisions.judge_found(found, recorded=recorded, owner=owner):
            case Found.ANOTHERS:
                raise _RefusedError(decisions.not_ours(name, group, self._place))
            case Found.NONE:
                # Died between the two: the next listener finds it by name, and by its label knows it as ours.
                labels = decisions.set_labels(pool, owner)
                found = await self._github.create(self._place, name=name, group_id=group_id, labels=labels)
            case Found.OURS:
                pass
        assert found is not None
        await self._record(found.scale_set_id, "" if found.scale_set_id != recorded else self._source.session_id)
        self._dropped = decisions.labels_dropped(pool, found)
        return found

    async def _ensure_session(self, scale_set: ScaleSet) -> QueueSession:
        number = scale_set.scale_set_id
        if self._source.session_id:
            # Of the listener before us, or our own of before a failure: only one may stand.
            await self._github.close_session(self._place, number, self._source.session_id)
        session = await self._github.open_session(self._place, number, self._name)
        # Died here: nobody knows the session's id, and GitHub refuses another until it has given this one up.
        self._session = session
        await self._record(number, session.session_id)
        await self._heard(session.statistics.total_assigned_jobs, session.statistics.total_running_jobs)
        return session

    async def _renew(self, scale_set_id: int, session: QueueSession) -> QueueSession:
        try:
            self._session = await self._github.renew_session(self._place, scale_set_id, session.session_id)
        except github.NotFound:
            self._session = None
            raise github.Unavailable("GitHub gave the session up; a new one is opened") from None
        return self._session

    # Messages

    async def _poll(self, session: QueueSession, after: int, asked: int) -> QueueMessage | None:
        """One poll. It is broken off when the capacity changes: a message that was on its way then comes again."""
        polling = asyncio.ensure_future(self._github.poll(session, after=after, capacity=asked))
        try:
            while not polling.done():
                await asyncio.wait({polling}, timeout=self._pace.capacity)
                if not polling.done() and await self._capacity(self._present_pool()) != asked:
                    return None
            message = polling.result()
        finally:
            if not polling.done():
                polling.cancel()
                with suppress(asyncio.CancelledError, github.GitHubError):
                    await polling
        if message is None:
            await self._heard(advertised=asked)
        else:
            counts = message.statistics
            await self._heard(counts.total_assigned_jobs, counts.total_running_jobs, advertised=asked)
        return message

    async def _take(self, scale_set_id: int, session: QueueSession, message: QueueMessage, pool: RunnerPool) -> None:
        """Everything into the ledger, then the offers, then the delete. Died in between: the message comes again."""
        offers: list[int] = []
        for entry in read_entries(message.body):
            if isinstance(entry, UnreadableEntry):
                await self._set_aside(message, entry.digest, entry.why, entry.body)
                continue
            try:
                outcome = await self._book.apply(self._source, entry, pool)
            except InvalidEntryError as error:
                body = msgspec.json.encode(entry)
                await self._set_aside(message, hashlib.sha256(body).hexdigest(), str(error), body.decode())
                continue
            self._metrics.entries.labels(_kind(entry), outcome).inc()
            if entry.message_type == "JobAvailable" and entry.runner_request_id > 0:
                offers.append(entry.runner_request_id)
        if offers:
            with suppress(github.NotFound):  # where GitHub assigns by itself there is nothing to acquire
                await self._github.acquire(self._place, scale_set_id, session, offers)
        try:
            await self._github.acknowledge(session, message.message_id)
        except (github.Unauthenticated, github.NotFound):
            # The session ended before the delete: the message comes again, changes nothing, and is deleted then.
            log.info("a message comes again", pool=self._source.pool, message=message.message_id)

    async def _set_aside(self, message: QueueMessage, digest: str, why: str, body: str) -> None:
        self._metrics.quarantined.inc()
        log.warning("an entry of a scale set's message is set aside", pool=self._source.pool, why=why)
        await self._book.quarantine(
            self._source, message_id=message.message_id, digest=digest, why=why, body=body.replace("\x00", "")
        )

    async def _look(self, scale_set_id: int) -> None:
        """Once a minute: rows that GitHub does not count any more. A cancellation may bring no message at all."""
        if self._clock.monotonic() - self._looked_at < self._pace.statistics:
            return
        self._looked_at = self._clock.monotonic()
        counts = (await self._github.get(self._place, scale_set_id)).statistics
        rows = await self._book.open(self._source)
        for row in self._ghosts.ghosts(counts.total_assigned_jobs, rows, self._clock.now()):
            self._metrics.ghosts.inc()
            why = "GitHub counts no assigned job of this scale set, in two reads a minute apart"
            await self._book.close_ghost(row, self._source.account_id, why)

    # Noting

    async def _heard(
        self, assigned: int | None = None, running: int | None = None, *, advertised: int | None = None
    ) -> None:
        dropped = ", ".join(self._dropped)
        sentence = f"GitHub did not keep the labels {dropped}: jobs must not ask for them" if dropped else ""
        await self._book.note(
            self._source, "Listening", sentence, heard=True, assigned=assigned, running=running, advertised=advertised
        )

    async def _pause(self, failure: Failure) -> None:
        log.warning("a scale set is not listened to", pool=self._source.pool, state=failure.state, why=failure.sentence)
        self._metrics.failures.labels(failure.state).inc()
        with suppress(LedgerUnavailableError):
            await self._book.note(self._source, failure.state, failure.sentence)
        await self._clock.sleep(failure.again_in)

    async def _record(self, scale_set_id: int | None, session_id: str) -> None:
        await self._book.record(self._source, scale_set_id=scale_set_id, session_id=session_id)
        self._source = msgspec.structs.replace(self._source, scale_set_id=scale_set_id, session_id=session_id)

    # The pool

    def _present_pool(self) -> RunnerPool:
        pool = self._pool()
        if pool is not None:
            self._last_pool = pool
        if self._last_pool is None:
            raise _RefusedError("the pool of this scale set does not exist any more")
        return self._last_pool

    async def _capacity(self, pool: RunnerPool) -> int:
        present = self._pool()
        draining = present is None or present.spec.job_source != "ScaleSet"
        return decisions.capacity(await self._book.room(self._source, pool.platform), pool, draining=draining)


_KINDS = frozenset({"JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"})


def _kind(entry: Entry) -> str:
    return entry.message_type if entry.message_type in _KINDS else "other"
