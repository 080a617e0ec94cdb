"""The durable store: records in memory, every change in Postgres before anyone sees it.

Writes wait in line for one writer. It takes everything that waits, decides each operation against memory and against the
ones before it, makes the whole batch durable in one transaction, and only then shows it to reads and watches and answers
the callers. So the order of revisions is the order of durability, and the more callers there are, the more of them share
one flush of the disk. Reads never touch the database.
"""

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.refusals import Refusals
from paddock.base.rng import new_uuid
from paddock.embedded.store.batch import Batch, decide
from paddock.embedded.store.interface import (
    Key,
    Record,
    StoreError,
    StoreOwnedElsewhereError,
    StoreUnavailableError,
)
from paddock.embedded.store.operations import Create, Delete, Operation, Update, check_key
from paddock.embedded.store.reads import ReadableStore
from paddock.embedded.store.session import RefusedError, SessionLostError, StoreSession
from paddock.embedded.store.state import HISTORY_LIMIT
from paddock.embedded.store.watches import QUEUE_LIMIT

__all__ = ["PostgresStore"]

_LARGEST_BATCH = 1000
_RECONNECT = Backoff(base=0.05, cap=1.0)

_log = get_logger("store")


@dataclass(frozen=True, slots=True)
class _Request:
    """An operation in line, and where its caller waits. A caller that gave up leaves a future that is done."""

    operation: Operation
    answer: "asyncio.Future[Record]"


class PostgresStore(ReadableStore):
    """`Store` over one schema of a Postgres database, of which it is the only writer for as long as it is open.

    Open it with `open`, end it with `close`. While the database is away, reads and watches go on with what is known to be
    durable; writes wait up to `timeout` seconds and then fail with StoreUnavailableError, at once for as long as the
    outage lasts. A batch whose fate an outage left open is settled from the counter before any later write is decided.
    Opening forgets history: a watch from before gets CompactedError and lists again.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        clock: Clock,
        rng: random.Random,
        schema: str,
        timeout: float,
        lock_wait: float,
        history_limit: int,
        queue_limit: int,
    ) -> None:
        super().__init__(history_limit=history_limit, queue_limit=queue_limit)
        self._conninfo = conninfo
        self._clock = clock
        self._rng = rng
        self._schema = schema
        self._timeout = timeout
        self._lock_wait = lock_wait
        self._incarnation = new_uuid(rng)
        self.refusals = Refusals(clock)
        """What the database refused of late."""
        self._session: StoreSession | None = None
        self._waiting: deque[_Request] = deque()
        self._under_way: tuple[_Request, ...] = ()
        self._wake = asyncio.Event()
        self._away = False
        self._closing = False
        self._over = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        conninfo: str,
        *,
        clock: Clock,
        rng: random.Random,
        schema: str = "paddock_objects",
        timeout: float = 5.0,
        lock_wait: float = 2.0,
        history_limit: int = HISTORY_LIMIT,
        queue_limit: int = QUEUE_LIMIT,
    ) -> Self:
        """Take ownership, bring the tables up to date and load every record.

        StoreOwnedElsewhereError if another process keeps the store for longer than `lock_wait`; a predecessor that was
        killed lets go of it within moments. The connection must reach the server itself or a session-mode pool.
        """
        store = cls(
            conninfo,
            clock=clock,
            rng=rng,
            schema=schema,
            timeout=timeout,
            lock_wait=lock_wait,
            history_limit=history_limit,
            queue_limit=queue_limit,
        )
        session = await StoreSession.take(conninfo, schema, store._incarnation, clock, lock_wait=lock_wait)
        try:
            revision, records = await session.settle(schema, clock)
        except BaseException:
            await session.close()
            raise
        store._session = session
        store._state.load(records, revision)
        store._writer = asyncio.create_task(store._write_forever(), name="store writer")
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create(self, key: Key, value: dict[str, Any]) -> Record:
        return await self._submit(Create(key, value))

    async def update(self, key: Key, value: dict[str, Any], expected: int) -> Record:
        return await self._submit(Update(key, value, expected))

    async def delete(self, key: Key, expected: int) -> Record:
        return await self._submit(Delete(key, expected))

    async def close(self) -> None:
        """Finish the writes in line, unless the database is away; then end every watch and give up ownership."""
        self._closing = True
        self._wake.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.wait({writer}, timeout=0 if self._away else self._timeout)
            writer.cancel()
            await asyncio.wait({writer})
        self._break(StoreUnavailableError("the store is closed"))
        self._watchers.end()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def failed(self) -> StoreError:
        """Wait until the store has failed for good and say why: it serves nothing any more, and only opening one anew helps."""
        await self._over.wait()
        assert self._broken is not None
        return self._broken

    async def _submit(self, operation: Operation) -> Record:
        self._check()
        check_key(operation.key)
        if self._closing:
            raise StoreUnavailableError("the store is closing")
        if self._away:
            raise StoreUnavailableError("the database of the store is away; nothing was written: try again")
        request = _Request(operation, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._wake.set()
        return await request.answer

    async def _write_forever(self) -> None:
        try:
            while True:
                while not self._waiting:
                    if self._closing:
                        return
                    self._wake.clear()
                    await self._wake.wait()
                # Who gave up while in line is not served: nothing was promised yet.
                count = min(len(self._waiting), _LARGEST_BATCH)
                line = (self._waiting.popleft() for _ in range(count))
                self._under_way = tuple(request for request in line if not request.answer.done())
                await self._serve(self._under_way)
                self._under_way = ()
        except StoreOwnedElsewhereError as error:
            _log.error("the store has been taken over by another process", schema=self._schema)
            self._break(error)
            self._watchers.fail(error)
            self._over.set()
        except Exception:  # noqa: BLE001 - logged and answered; the store refuses everything from here on
            # Whatever it was, memory may no longer agree with the database: serve nothing rather than something wrong.
            _log.exception("the writer of the store failed", schema=self._schema)
            failure = StoreUnavailableError("the store has failed; its log says why: start it again")
            self._break(failure)
            self._watchers.fail(failure)
            self._over.set()

    async def _serve(self, requests: tuple[_Request, ...]) -> None:
        """Take a group of requests to their answers. Callers that are gone by now change nothing for the others."""
        batch = decide((request.operation for request in requests), self._state.get, self._state.revision)
        try:
            durable = not batch.changes or await self._make_durable(batch)
        except RefusedError as error:
            if error.lasting and len(requests) > 1:
                # One of them cannot be stored. Rolled back is rolled back: each may be tried by itself.
                for request in requests:
                    await self._serve((request,))
                return
            _log.warning("the database refused a write", error=str(error))
            if not error.lasting:  # such as one that is too large: that is its own trouble
                self.refusals.refused(str(error.__cause__ or error))
            _fail(requests, StoreUnavailableError(str(error)))
            return
        if not durable:
            _fail(
                requests, StoreUnavailableError("the database of the store went away; nothing was written: try again")
            )
            return
        for change in batch.changes:
            self._show(change)
        for request, outcome in zip(requests, batch.outcomes, strict=True):
            if request.answer.done():
                continue
            if isinstance(outcome, Record):
                request.answer.set_result(outcome)
            else:
                request.answer.set_exception(outcome)

    async def _make_durable(self, batch: Batch) -> bool:
        """Whether the batch is durable, however often the session is lost on the way.

        False means: certainly not, and its callers have been told that they cannot know.
        """
        # Armed before the batch leaves: a server that hangs is as far away as one that is gone.
        alarm = asyncio.get_running_loop().call_later(self._timeout, self._give_up_waiting)
        try:
            while True:
                assert self._session is not None  # only closing takes it away, and only when this task is over
                try:
                    await self._session.commit(batch)
                except SessionLostError as error:
                    _log.warning("the database of the store went away", error=str(error))
                    self.refusals.refused(str(error), away=True)
                    newest = await self._reconnect()
                    self.refusals.answered()
                    if newest == batch.last:
                        return True  # the answer was lost, not the batch
                    if newest != batch.base:
                        raise StoreOwnedElsewhereError(
                            f"the store's counter is at {newest}, and this process wrote up to {batch.base}: start again"
                        ) from error
                    if self._away:
                        return False
                else:
                    return True
        finally:
            alarm.cancel()
            self._away = False

    async def _reconnect(self) -> int:
        """Own the database again, for as long as that takes; gives the counter, which is final then."""
        failures = 0
        lost, self._session = self._session, None
        predecessor = None
        if lost is not None:
            predecessor = lost.backend
            await lost.close()
        while True:
            session = None
            try:
                session = await StoreSession.take(
                    self._conninfo,
                    self._schema,
                    self._incarnation,
                    self._clock,
                    lock_wait=self._lock_wait,
                    predecessor=predecessor,
                )
                newest = await session.counter()
            except (StoreUnavailableError, SessionLostError) as error:
                if session is not None:
                    await session.close()
                failures += 1
                _log.info("the database of the store is still away", failures=failures, error=str(error))
                await self._clock.sleep(_RECONNECT.delay(failures, self._rng))
            except BaseException:
                if session is not None:
                    await session.close()
                raise
            else:
                self._session = session
                _log.info("the database of the store is back", revision=newest)
                return newest

    def _give_up_waiting(self) -> None:
        """The database has been away for too long: tell everyone who waits, and whoever comes until it is back."""
        self._away = True
        _fail(
            self._under_way,
            StoreUnavailableError("the database of the store does not answer; whether it was written is not known yet"),
        )
        waiting, self._waiting = tuple(self._waiting), deque()
        _fail(waiting, StoreUnavailableError("the database of the store is away; nothing was written: try again"))

    def _break(self, failure: StoreError) -> None:
        """Refuse everything from now on, and answer everyone who still waits."""
        self._broken = failure
        _fail((*self._under_way, *self._waiting), failure)
        self._waiting.clear()


def _fail(requests: tuple[_Request, ...], failure: StoreError) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(type(failure)(*failure.args))
