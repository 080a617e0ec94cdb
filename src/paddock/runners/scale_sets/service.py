"""Which scale sets there must be, and who listens to each: one task a source, under its lease.

Any number of processes may run this. Each tries for every source; a source belongs to whoever holds its lease, and the lease to
a process that beats. A source that no pool asks for any more is kept until its set is gone at GitHub, whichever process sees to
that. Without an ingress nobody tells us of installations, so they are listed, too.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import end
from paddock.clients.github import GitHub, GitHubError, RateLimited, RunnerPlace, ScaleSets
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import InvalidEntryError, Ledger, LedgerError, LedgerUnavailableError
from paddock.runners.ledger.scale_sets import LeaseLostError, Listenable, Source
from paddock.runners.scale_sets.book import LedgerBook
from paddock.runners.scale_sets.counting import Pace
from paddock.runners.scale_sets.decisions import clash
from paddock.runners.scale_sets.desired import holds
from paddock.runners.scale_sets.listener import Listener, ListenerContext
from paddock.runners.scale_sets.metrics import ScaleSetMetrics

__all__ = ["Listeners", "ListenersContext", "wanted_sources"]

log = get_logger("scale sets")
_AWAY = Backoff(base=0.5, cap=15.0)
_INSTALLATIONS = 300.0
_INSTALLATIONS_FAILED = 60.0


class SourceKey(NamedTuple):
    pool: str
    account_id: int
    repository: str


def wanted_sources(pools: Sequence[RunnerPool], accounts: Sequence[Listenable]) -> dict[SourceKey, RunnerPlace]:
    """The sources that the pools ask for, and where each is: one an account, or one a repository of it. Pure.

    An organisation's set is given jobs of any of its repositories. Where not all of them are allowed, each that is gets a
    set of its own, unless the pool has a runner group, whose own list of repositories then decides.
    """
    wanted: dict[SourceKey, RunnerPlace] = {}
    for pool in pools:
        if pool.spec.job_source != "ScaleSet" or pool.metadata.deletion_timestamp is not None:
            continue
        named = [name for name in pool.spec.scale_set.repositories if name.count("/") == 1]
        for account in accounts:
            mine = [name for name in named if name.partition("/")[0].lower() == account.login.lower()]
            if not mine and not account.whole and not pool.spec.runner_group:
                mine = [name for name in account.repositories if name.count("/") == 1]
            elif not mine:
                mine = [""]
            for repository in mine:
                key = SourceKey(pool.metadata.name, account.account_id, repository)
                project = repository.partition("/")[2]
                wanted[key] = RunnerPlace(account.installation_id, account.login, project)
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenersContext:
    """What the listeners work with. `pools` gives None until they were read once; `dispatcher` our number in the ledger."""

    ledger: Ledger
    github: GitHub
    scale_sets: ScaleSets
    pools: Callable[[], Sequence[RunnerPool] | None]
    dispatcher: Callable[[], Awaitable[int]]
    clock: Clock
    rng: random.Random
    metrics: ScaleSetMetrics
    name: str = "dispatch"
    pace: Pace = field(default_factory=Pace)
    every: float = 5.0
    silent: timedelta = timedelta(seconds=30)


class Listeners:
    """Keeps one listener for each source whose lease this process has. Run `run()`; its end closes every session."""

    def __init__(self, context: ListenersContext) -> None:
        self._context = context
        self._ledger = context.ledger
        self._clock = context.clock
        self._listening = ListenerContext(
            github=context.scale_sets,
            book=LedgerBook(context.ledger, context.clock),
            clock=context.clock,
            metrics=context.metrics,
            name=context.name,
            pace=context.pace,
        )
        self._tasks: dict[SourceKey, tuple[Listener, asyncio.Task[None]]] = {}
        self._known_since: dict[SourceKey, datetime] = {}
        self._wanted: frozenset[SourceKey] = frozenset()
        self._list_at = float("-inf")
        self._not_listed: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Listen until cancelled; then close every session, so that the next process need not wait for GitHub."""
        failures = 0
        try:
            while True:
                try:
                    await self._round()
                    failures = 0
                    wait = self._context.every
                except LedgerUnavailableError as error:
                    failures += 1
                    wait = _AWAY.delay(failures, self._context.rng)
                    log.warning("scale sets wait for the ledger", error=str(error))
                await self._clock.sleep(wait)
        finally:
            await asyncio.shield(self._stop(list(self._tasks)))

    async def _round(self) -> None:
        pools = self._context.pools()
        if pools is None:
            return  # not known is not none: nobody is told to stop
        if any(pool.spec.job_source == "ScaleSet" for pool in pools):
            await self._learn_installations()
            await self._say_who_is_not_listed()
        accounts = await self._ledger.scale_sets.listenable()
        wanted = wanted_sources(pools, accounts)
        self._wanted = frozenset(wanted)
        retiring, out_of_reach = await self._not_over()
        await self._bring_along(pools)
        ended = [key for key, (_, task) in self._tasks.items() if task.done()]
        for key in ended:
            self._tasks.pop(key)
        await self._wake()
        await self._abandon(out_of_reach)
        for key, place in {**retiring, **wanted}.items():
            if key in self._tasks and self._tasks[key][0].place != place:
                # The account was renamed, or has installed the App anew: the former place is refused for ever.
                await self._end(key)
            if key not in self._tasks:
                await self._try(key, place)

    async def _wake(self) -> None:
        """Listeners that rest after a refusal, though somebody changed the App's access since, end and begin anew at once.

        They are known by a `Starting` that is not the one which their lease was taken with: only `AppAccess` writes one.
        """
        for key, since in (await self._ledger.scale_sets.starting()).items():
            if SourceKey(*key) in self._tasks and self._known_since.get(SourceKey(*key)) != since:
                await self._end(SourceKey(*key))

    async def _not_over(self) -> tuple[dict[SourceKey, RunnerPlace], dict[SourceKey, str]]:
        """Sources that no pool asks for any more and that are not retired yet, by their rows: no process need remember them.

        First those whose account has the App, and where each is; then the logins of the others, of whose sets nothing can
        be asked.
        """
        has_jobs = {SourceKey(*found) for found in await self._ledger.assignments.unfinished()}
        retiring: dict[SourceKey, RunnerPlace] = {}
        out_of_reach: dict[SourceKey, str] = {}
        for source in await self._ledger.scale_sets.sources():
            key = SourceKey(source.pool, source.account_id, source.repository)
            stopped = source.state == "Stopped"
            if key in self._wanted or (stopped and source.scale_set_id is None and key not in has_jobs):
                continue
            account = await self._ledger.accounts.get(source.account_id)
            if account is not None and account.installation_id is not None:
                project = source.repository.partition("/")[2]
                retiring[key] = RunnerPlace(account.installation_id, account.login, project)
            elif not stopped:
                out_of_reach[key] = account.login if account is not None else str(source.account_id)
        return retiring, out_of_reach

    async def _bring_along(self, pools: Sequence[RunnerPool]) -> None:
        """Jobs whose set went to another pool follow it, also those that lose their Pod later: theirs has no Pods."""
        for name in await self._ledger.succession.left_behind():
            for pool in pools:
                if pool.metadata.name == name and (moved := await self._ledger.succession.follow(pool)):
                    log.warning("jobs of a scale set follow it to its pool", pool=name, jobs=moved)

    async def _take(self, key: SourceKey) -> Source | None:
        return await self._ledger.scale_sets.take(
            key.pool,
            key.account_id,
            key.repository,
            dispatcher=await self._context.dispatcher(),
            silent_since=self._clock.now() - self._context.silent,
        )

    async def _try(self, key: SourceKey, place: RunnerPlace) -> None:
        source = await self._take(key)
        if source is None:
            return  # another process that beats listens to it
        listener = Listener(
            self._listening,
            source,
            place,
            lambda: self._pool(key.pool),
            self._clash,
            self._is_gone,
            lambda: key in self._wanted,
        )
        self._known_since[key] = source.since
        task = asyncio.create_task(self._listen(key, listener), name=f"scale set {key.pool}/{place.path}")
        self._tasks[key] = (listener, task)

    async def _listen(self, key: SourceKey, listener: Listener) -> None:
        """A listener that ends for whatever reason is looked at in the next round, which takes the lease anew if it must."""
        try:
            await listener.run()
            log.info("a scale set is retired", pool=key.pool, account=key.account_id)
            await listener.close()
        except LeaseLostError:
            # Its session is closed by whoever has the lease; one that was not recorded yet, the listener has closed.
            log.info("another process listens to a scale set now", pool=key.pool, account=key.account_id)
        except LedgerError as error:
            log.warning("a listener ended", pool=key.pool, error=str(error))
            await listener.close()
        except Exception:  # one listener never ends the others; the next round starts it again
            log.exception("a listener failed", pool=key.pool, account=key.account_id)
            await listener.close()

    async def _abandon(self, logins: Mapping[SourceKey, str]) -> None:
        """Nobody wants these any more, and the App was taken away there: the row keeps its set, which goes if the App comes back.

        Died in between: the row is not `Stopped` yet, and is taken again.
        """
        for key, login in logins.items():
            if (listened := self._tasks.pop(key, None)) is not None:
                await end(listened[1])
            if (source := await self._take(key)) is None:
                continue
            why = f"the App is not installed at {login} any more: the scale set is left there"
            with suppress(LeaseLostError):
                await self._ledger.scale_sets.note(source, "Stopped", why)
            await self._ledger.scale_sets.give_back(source)

    async def _end(self, key: SourceKey) -> None:
        listener, task = self._tasks[key]
        await end(task)
        await listener.close()
        del self._tasks[key]  # cancelled before this, it is among those that are closed at the end

    async def _stop(self, keys: Sequence[SourceKey]) -> None:
        listeners = [self._tasks.pop(key) for key in keys]
        for _, task in listeners:
            task.cancel()  # all at once: each may wait for an answer of GitHub's
        for _, task in listeners:
            await end(task)
        await asyncio.gather(*(listener.close() for listener, _ in listeners), return_exceptions=True)

    async def _learn_installations(self) -> None:
        """Enrol whoever installed the App. A list that fails changes nothing; one that left is told by a refusal."""
        if self._clock.monotonic() < self._list_at:
            return
        try:
            installations = await self._context.github.installations()
        except GitHubError as error:
            # Asked in every round, a list that is refused would spend the App's budget in each process.
            wait = error.retry_after if isinstance(error, RateLimited) else 0.0
            self._list_at = self._clock.monotonic() + max(wait, _INSTALLATIONS_FAILED)
            log.warning("installations could not be listed", error=str(error))
            return
        self._list_at = self._clock.monotonic() + _INSTALLATIONS
        for found in installations:
            if found.suspended or not found.account_id or not found.login:
                continue
            known = await self._ledger.accounts.get(found.account_id)
            if known is None or known.installation_id != found.installation_id or known.login != found.login:
                with suppress(InvalidEntryError):  # another process enrols it at this moment
                    await self._ledger.accounts.enrol(found.account_id, found.login, found.installation_id)

    async def _say_who_is_not_listed(self) -> None:
        """Each login once, for as long as it stays so: whoever installs the App decides how many there are."""
        logins = await self._ledger.scale_sets.not_listed()
        for login in sorted(set(logins) - self._not_listed):
            remedy = f"`paddock accounts allow {login}` lets it, `paddock accounts deny {login}` ends this message"
            log.warning("no job is asked for: the account is not on the allow list", account=login, remedy=remedy)
        self._not_listed = frozenset(logins)

    def _pool(self, name: str) -> RunnerPool | None:
        return next((pool for pool in self._standing() if pool.metadata.name == name), None)

    def _is_gone(self, name: str) -> bool:
        """Whether the pools are known and this is none of them, or is being deleted."""
        return self._context.pools() is not None and self._pool(name) is None

    def _clash(self, source: Source) -> str | None:
        pool = self._pool(source.pool)
        if pool is None or pool.spec.job_source != "ScaleSet":
            return None
        return clash(pool, self._standing(), holds=holds(source, pool.spec.dispatch_label))

    def _standing(self) -> list[RunnerPool]:
        return [pool for pool in self._context.pools() or () if pool.metadata.deletion_timestamp is None]
