"""One scale set, listened to under its lease: set, session, poll, write, acknowledge.

The invariant: a message is deleted at GitHub only after all that it says is in the ledger. `docs/design/scale-sets.md` has the
table of places where the process may die, and what heals each.
"""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import end, to_its_end
from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import QueueMessage, QueueSession, ScaleSet, ScaleSets
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import InvalidEntryError, LedgerUnavailableError
from paddock.runners.ledger.scale_sets import LeaseLostError, Source, SourceState
from paddock.runners.scale_sets import decisions
from paddock.runners.scale_sets.book import JobBook
from paddock.runners.scale_sets.counting import Counting, Pace
from paddock.runners.scale_sets.decisions import Failure
from paddock.runners.scale_sets.desired import Change
from paddock.runners.scale_sets.messages import UnreadableEntry, kind_of, read_entries
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.runners.scale_sets.provisioning import RefusedError, SetProvisioning

__all__ = ["Listener", "ListenerContext"]

log = get_logger("scale sets")
_CLOSING: Final = 5.0
_UNUSED_LOOKS: Final = 2
_LATELY: Final = 60.0
"""A poll that says nothing takes up to fifty seconds: whoever is answered has been answered within this time."""
_DEAF: Final = 2
"""After so many polls in a row without an answer a session that opens is no sign that the queue is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerContext:
    """What every listener of a process works with. `name` is the process's own, shown to people at GitHub."""

    github: ScaleSets
    book: JobBook
    clock: Clock
    metrics: ScaleSetMetrics
    name: str = "dispatch"
    pace: Pace = field(default_factory=Pace)


class Listener:
    """Listens until the source is retired, it is cancelled, or the lease is another's (LeaseLostError). Nothing of GitHub's
    is raised.

    `pool` gives the pool as it is now, None once it is gone; `wanted` says whether it asks for this source still. A source that no
    pool asks for is retired: its assigned jobs are served, no more are asked for, and then the set goes. `clash` says why the
    pool's jobs could be another pool's, too: while it does, nothing is asked for. `gone` says whether another pool is known not
    to exist any more. A pool that is changed changes its set, at the latest when the capacity is read again.
    """

    def __init__(
        self,
        context: ListenerContext,
        source: Source,
        place: RunnerPlace,
        pool: Callable[[], RunnerPool | None],
        clash: Callable[[Source], str | None] = lambda _source: None,
        gone: Callable[[str], bool] = lambda _pool: False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._github = context.github
        self._book = context.book
        self._clock = context.clock
        self._metrics = context.metrics
        self._name = context.name
        self._pace = context.pace
        self.place: Final = place
        self._pool = pool
        self._clash = clash
        self._wanted = wanted
        self._set = SetProvisioning(
            context.github, context.book, context.clock, place, source, gone=gone, again_in=context.pace.refused
        )
        self._last_pool: RunnerPool | None = None
        self._assigned = source.assigned
        self._said: tuple[SourceState, str] | None = None
        self._unused_looks = 0
        self._unanswered = 0
        self._why_unanswered = ""
        self._answered_at = context.clock.monotonic()
        self._session: QueueSession | None = None
        self._written: list[int] = []
        self._counting = Counting(
            context.github, context.book, context.clock, context.metrics, context.pace, place, self._present_pool
        )

    @property
    def _source(self) -> Source:
        return self._set.source

    async def run(self) -> None:
        failures, more = 0, True
        while more:
            heard = self._clock.monotonic()
            try:
                more = await self._listen()
            except github.GitHubError as error:
                # A session that worked for a while is a new beginning.
                failures = 1 if self._clock.monotonic() - heard > 60 else failures + 1
                await self._pause(decisions.failure(error, self.place, failures=failures))
            except RefusedError as refused:
                await self._pause(Failure("Refused", str(refused), self._pace.refused))
            except LedgerUnavailableError as error:
                failures += 1
                log.warning("a scale set waits for the ledger", pool=self._source.pool, error=str(error))
                await self._clock.sleep(min(15.0, 2.0 ** min(failures, 4)))

    async def close(self) -> None:
        """End the session and give the lease back, as far as both can be reached. A session that could not be closed, our own or
        the one before ours, stays in the row: only by its id can the next listener close it.
        """
        left = next(iter(self._known_sessions()), "")
        with suppress(github.GitHubError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                if self._source.scale_set_id is not None:
                    await self._close_sessions(self._source.scale_set_id)
                left = ""
        with suppress(LedgerUnavailableError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._book.give_back(msgspec.structs.replace(self._source, session_id=left))

    # Set and session

    async def _listen(self) -> bool:
        """Until something fails, or the set is given up. False: the source is retired, and there is nothing to listen to."""
        self._refuse_a_clash()
        scale_set = await self._set.ensure(self._present_pool(), make=self._serves_the_pool())
        if scale_set is None:
            # Died before this is written: the row is not `Stopped`, and the next listener comes to the same end.
            await self._book.note(self._source, "Stopped", assigned=0, running=0, advertised=0)
            return False
        session = await self._ensure_session(scale_set)
        after, renewed = 0, False
        self._written.clear()  # what is left of another session comes again in this one
        self._counting.heard_a_message()
        while True:
            self._refuse_a_clash()
            pool = self._present_pool()
            if self._serves_the_pool():
                await self._set.follow(pool)
            asked = await self._capacity(pool)
            await self._say_what_changed()
            try:
                message = await self._poll(session, after, asked)
            except github.Unauthenticated:
                if renewed:
                    raise github.Unavailable("the queue does not accept the token that it was just given") from None
                # The queue's token ended. A session that GitHub gave up meanwhile is opened anew by the caller.
                session, renewed = await self._renew(scale_set.scale_set_id, session), True
                continue
            except (github.NotFound, github.Forbidden, github.Invalid) as error:
                # Evicted, or the set is gone: the next round looks up both. A queue that refuses a session says nothing of the App.
                self._session = None
                raise github.Unavailable(f"the session is gone; a new one is opened ({error.message})") from None
            renewed = False
            if message is not None:
                await self._take(scale_set.scale_set_id, session, message, pool)
                after = message.message_id
                self._counting.heard_a_message()
            elif self._unused_looks >= _UNUSED_LOOKS:
                await self._give_up_set(session)
                return True
            else:
                await self._delete_written(session)
                await self._counting.look(self._source, None)

    async def _ensure_session(self, scale_set: ScaleSet) -> QueueSession:
        number = scale_set.scale_set_id
        # Of the listener before us, or our own of before a failure: only one may stand.
        try:
            await self._close_sessions(number)
        except (github.Forbidden, github.Invalid, github.Conflict) as error:
            # Perhaps GitHub lets nobody close what another process opened. Whether it stands still, the opening of the next one says.
            log.info("a session could not be closed", pool=self._source.pool, why=error.message)
        try:
            # Cancelled meanwhile, we wait for the answer: whoever closes us then knows the session, and closes it.
            session = await to_its_end(self._open_session(number), patience=_CLOSING)
        except github.NotFound:
            # It was there a moment ago, so this is no refusal: the next round looks the set up, and makes it if it must.
            raise github.Unavailable("the scale set is gone; it is looked up again") from None
        # Died here: nobody knows the session's id, and GitHub refuses another until it has given this one up.
        try:
            await self._set.record(session_id=session.session_id, session_since=self._clock.now())
        except LeaseLostError:
            # Whoever has the lease now cannot know of this session, and is refused for as long as it stands.
            with suppress(github.GitHubError):
                await self._close_sessions(number)
            raise
        await self._heard(session.statistics.total_assigned_jobs, session.statistics.total_running_jobs)
        return session

    async def _open_session(self, scale_set_id: int) -> QueueSession:
        self._session = await self._github.open_session(self.place, scale_set_id, self._name)
        return self._session

    def _known_sessions(self) -> list[str]:
        """What may stand at GitHub: our own, recorded or not, and what the row had before."""
        own = self._session.session_id if self._session is not None else ""
        return [known for known in dict.fromkeys((own, self._source.session_id)) if known]

    async def _close_sessions(self, scale_set_id: int) -> None:
        for known in self._known_sessions():
            await self._github.close_session(self.place, scale_set_id, known)
        self._session = None

    async def _renew(self, scale_set_id: int, session: QueueSession) -> QueueSession:
        try:
            self._session = await self._github.renew_session(self.place, scale_set_id, session.session_id)
        except github.NotFound:
            self._session = None
            raise github.Unavailable("GitHub gave the session up; a new one is opened") from None
        return self._session

    async def _give_up_set(self, session: QueueSession) -> None:
        """Nothing is left of a set that is replaced or retired: it goes, and the next round makes the one that is wanted, if any.

        Without a session GitHub assigns nothing, so that what is looked at before the delete stays so. Died, or refused, at
        any point before the delete: the set is recorded and is listened to again, with nothing asked for. After it: see `delete`.
        """
        self._unused_looks, self._session = 0, None
        await self._github.close_session(self.place, self._source.scale_set_id or 0, session.session_id)
        await self._set.record(session_id="")
        if await self._set.delete():
            log.info("a scale set was given up", pool=self._source.pool)

    # Messages

    async def _poll(self, session: QueueSession, after: int, asked: int) -> QueueMessage | None:
        """One poll. It is broken off when the capacity or the set must change: a message on its way then comes again."""
        began = self._clock.monotonic()
        polling = asyncio.ensure_future(self._github.poll(session, after=after, capacity=asked))
        try:
            while not polling.done():
                await asyncio.wait({polling}, timeout=self._pace.capacity)
                if not polling.done():
                    capacity = await self._capacity(self._present_pool())
                    lately = self._clock.monotonic() - self._answered_at < _LATELY
                    if decisions.broken_off(asked, capacity, answered_lately=lately) or self._set_is_due():
                        return None
                if not polling.done():
                    await self._counting.look(self._source, polling)
                if not polling.done() and await self._look_for_the_last_job(polling):
                    return None
            message = polling.result()
            if message is None and self._clock.monotonic() - began < self._pace.at_once:
                # Seen in outages. Asked again without a pause it would be asked for ever, so this counts as a failure.
                raise github.Unavailable("GitHub answers at once and without a message")
        except github.GitHubError as error:
            self._unanswered, self._why_unanswered = self._unanswered + 1, error.message
            raise
        finally:
            if not polling.done():
                await end(polling)
                if not polling.cancelled():
                    polling.exception()  # it ended by itself at that moment
        self._unanswered, self._answered_at = 0, self._clock.monotonic()
        if message is None:
            await self._heard(advertised=asked)
            await self._look_for_the_last_job(None)
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
            self._metrics.entries.labels(kind_of(entry), outcome).inc()
            if entry.message_type == "JobAvailable" and entry.runner_request_id > 0:
                offers.append(entry.runner_request_id)
        if offers:
            try:
                with suppress(github.NotFound):  # where GitHub assigns by itself there is nothing to acquire
                    await self._github.acquire(self.place, scale_set_id, session, offers)
            except github.Unauthenticated:
                # The queue's token, not the App's, ended while the poll was held: the offers come again to the next session.
                raise github.Unavailable("the queue's token ended before the offered jobs were acquired") from None
        self._written.append(message.message_id)
        await self._delete_written(session)

    async def _delete_written(self, session: QueueSession) -> None:
        """Delete what is in the ledger. What GitHub does not delete is tried again after the next poll, and comes again to the next
        session, where it changes nothing. Asked for at once it would hide all behind it; if GitHub is away, the poll says so.
        """
        while self._written:
            try:
                await self._github.acknowledge(session, self._written[0])
            except github.RateLimited:
                raise
            except github.GitHubError as error:
                log.info("a message is not deleted yet", pool=self._source.pool, why=error.message)
                return
            del self._written[0]

    async def _set_aside(self, message: QueueMessage, digest: str, why: str, body: str) -> None:
        self._metrics.quarantined.inc()
        log.warning("an entry of a scale set's message is set aside", pool=self._source.pool, why=why)
        await self._book.quarantine(
            self._source, message_id=message.message_id, digest=digest, why=why, body=body.replace("\x00", "")
        )

    # Noting

    async def _heard(
        self, assigned: int | None = None, running: int | None = None, *, advertised: int | None = None
    ) -> None:
        self._assigned = self._assigned if assigned is None else assigned
        self._said = state, sentence = self._standing()
        heard = self._unanswered < _DEAF
        await self._book.note(
            self._source, state, sentence, heard=heard, assigned=assigned, running=running, advertised=advertised
        )

    async def _say_what_changed(self) -> None:
        """At once, and not only when the poll that begins now has been to its end."""
        if (standing := self._standing()) != self._said:
            await self._book.note(self._source, *standing)
            self._said = standing

    def _standing(self) -> tuple[SourceState, str]:
        served = self._serves_the_pool()
        if self._unanswered >= _DEAF:
            # Sessions are opened, and each would pass for a new beginning.
            why = decisions.unanswered(self._unanswered, self._why_unanswered)
            return "Lost", why if served else decisions.not_retired(why)
        if not served:
            return "Listening", decisions.retiring(self._assigned)
        state: SourceState = "Refused" if self._set.needs_a_person() else "Listening"
        return state, self._set.sentence(self._present_pool(), self._assigned)

    async def _pause(self, failure: Failure) -> None:
        log.warning("a scale set is not listened to", pool=self._source.pool, state=failure.state, why=failure.sentence)
        self._metrics.failures.labels(failure.state).inc()
        served = self._serves_the_pool()
        sentence = failure.sentence if served else decisions.not_retired(failure.sentence)
        with suppress(LedgerUnavailableError):
            await self._book.note(self._source, failure.state, sentence)
        until = self._clock.monotonic() + failure.again_in
        # Whoever is not wanted any more need not wait for what only a wanted one needs.
        while served == self._serves_the_pool() and (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, self._pace.capacity))

    # The pool

    def _refuse_a_clash(self) -> None:
        if self._serves_the_pool() and (why := self._clash(self._source)) is not None:
            raise RefusedError(why)

    def _present_pool(self) -> RunnerPool:
        pool = self._pool()
        if pool is not None:
            self._last_pool = pool
        # A process that never saw the pool serves its last jobs all the same.
        return self._last_pool or decisions.pool_that_was(self._source.pool)

    def _serves_the_pool(self) -> bool:
        """Whether the pool is there and wants its jobs from this scale set."""
        present = self._pool()
        return present is not None and present.spec.job_source == "ScaleSet" and self._wanted()

    def _set_is_due(self) -> bool:
        return self._serves_the_pool() and self._set.due(self._present_pool()) is Change.UPDATE

    async def _look_for_the_last_job(self, polling: "asyncio.Future[QueueMessage | None] | None") -> bool:
        """Whether the set is to go and was seen without a job twice, while the poll that asks for none was silent, or had
        been to its end (None).
        """
        goes = not self._serves_the_pool() or self._set.is_replaced(self._present_pool())
        left = not goes or not await self._set.is_unused() or (polling is not None and polling.done())
        self._unused_looks = 0 if left else self._unused_looks + 1
        return self._unused_looks >= _UNUSED_LOOKS

    async def _capacity(self, pool: RunnerPool) -> int:
        draining = not self._serves_the_pool() or self._set.takes_no_new_jobs(pool)
        return decisions.capacity(await self._book.room(self._source, pool.platform), pool, draining=draining)
