"""The ledger of CI jobs as one object: a part for each thing it keeps."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from psycopg_pool import PoolTimeout

from paddock.base.clock import Clock
from paddock.base.rng import unseeded
from paddock.runners.ledger.accounts import Accounts
from paddock.runners.ledger.advisory_locks import AdvisoryLocks
from paddock.runners.ledger.allow_list import AllowList
from paddock.runners.ledger.app_access import AppAccess
from paddock.runners.ledger.assignments import Assignments
from paddock.runners.ledger.claims import Claims
from paddock.runners.ledger.database import Database, Pool, ReadingDatabase, make_pool, prepare
from paddock.runners.ledger.deliveries import Deliveries
from paddock.runners.ledger.dispatchers import Dispatchers
from paddock.runners.ledger.ended_jobs import EndedJobs
from paddock.runners.ledger.errors import LedgerUnavailableError
from paddock.runners.ledger.fences import Fences
from paddock.runners.ledger.heals import Heals
from paddock.runners.ledger.history import History
from paddock.runners.ledger.incidents import Incidents
from paddock.runners.ledger.jobs import Jobs
from paddock.runners.ledger.kills import Kills
from paddock.runners.ledger.limits import Limits
from paddock.runners.ledger.mac_ends import MacEnds
from paddock.runners.ledger.mac_states import MacStates
from paddock.runners.ledger.nameless import NamelessJobs
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.overview import Overview
from paddock.runners.ledger.precedence import PrecedenceList
from paddock.runners.ledger.progress import Progress
from paddock.runners.ledger.recovery import Recovery
from paddock.runners.ledger.registrations import Registrations
from paddock.runners.ledger.rerouting import Rerouting
from paddock.runners.ledger.rewind import Rewind
from paddock.runners.ledger.runner_logs import RunnerLogs
from paddock.runners.ledger.runner_troubles import RunnerTroubles
from paddock.runners.ledger.runner_versions import RunnerVersions
from paddock.runners.ledger.samples import Samples
from paddock.runners.ledger.scale_sets import ScaleSetRows
from paddock.runners.ledger.sessions import Sessions
from paddock.runners.ledger.signals import Signals
from paddock.runners.ledger.succession import Succession
from paddock.runners.ledger.transitions import Transitions
from paddock.runners.ledger.unconfirmed import UnconfirmedClaims

__all__ = ["SCHEMA", "Ledger"]

SCHEMA: Final = "paddock_ledger"


class Ledger:
    """Jobs, claims, sessions, completions, deliveries, limits and their log, over a pool of connections.

    The pool is the caller's, works in the ledger's schema (`make_pool`) and is open. Any number of processes may use one
    ledger at once; everything that must not happen twice is settled by the database.
    """

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        rng: random.Random | None = None,
        *,
        notifications: Callable[[Database], Notifications] = Notifications,
        reads_only: bool = False,
    ) -> None:
        rng = rng or unseeded()
        self._made_of = (pool, clock, rng)
        database = ReadingDatabase(pool, clock) if reads_only else Database(pool, clock)
        self.refusals = database.refusals
        self.notifications = notifications(database)
        self.accounts = Accounts(database, clock)
        self.limits = Limits(database, clock)
        self.allow_list = AllowList(database, clock, self.notifications)
        self.app_access = AppAccess(database, clock, self.notifications)
        self.precedence = PrecedenceList(database, clock)
        self.deliveries = Deliveries(database, clock, rng)
        self.jobs = Jobs(database, clock, self.notifications)
        self.claims = Claims(database, clock, rng, self.notifications)
        self.sessions = Sessions(database, clock)
        self.registrations = Registrations(database, rng)
        self.fences = Fences(database, clock)
        self.scale_sets = ScaleSetRows(database, clock, rng)
        self.assignments = Assignments(database)
        self.nameless = NamelessJobs(database, clock, self.jobs, self.notifications)
        self.succession = Succession(database, clock, self.notifications)
        self.recovery = Recovery(database, clock, self.notifications, self.sessions)
        self.dispatchers = Dispatchers(database, clock)
        self.unconfirmed = UnconfirmedClaims(database, clock, self.notifications)
        self.rerouting = Rerouting(database, clock, self.notifications)
        self.transitions = Transitions(database)
        self.overview = Overview(database, clock)
        self.ended_jobs = EndedJobs(database, clock)
        self.progress = Progress(database, clock)
        self.runner_troubles = RunnerTroubles(database, clock)
        self.runner_versions = RunnerVersions(database, clock)
        self.signals = Signals(database, clock, self.runner_versions)
        self.runner_logs = RunnerLogs(database, clock)
        self.heals = Heals(database, clock)
        self.kills = Kills(database, clock)
        self.history = History(database)
        self.rewind = Rewind(database)
        self.samples = Samples(database)
        self.mac_states = MacStates(database)
        self.mac_ends = MacEnds(database, clock)
        self.incidents = Incidents(database)
        self.locks = AdvisoryLocks(database)

    def reading(self) -> "Ledger":
        """The same ledger for whoever may only look: what would write is refused."""
        return Ledger(*self._made_of, reads_only=True)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        conninfo: str,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        schema: str = SCHEMA,
        size: int = 8,
        timeout: float = 10.0,
    ) -> AsyncIterator["Ledger"]:
        """Bring the tables up to date and use them, with a pool of its own that is closed at the end, however that comes."""
        await prepare(conninfo, schema=schema, clock=clock)
        pool = make_pool(conninfo, schema=schema, size=size, timeout=timeout)
        try:
            try:
                await pool.open(wait=True, timeout=timeout)
            except PoolTimeout as error:
                raise LedgerUnavailableError(f"the ledger's database does not answer: {error}") from error
            yield cls(pool, clock, rng)
        finally:
            await pool.close()
