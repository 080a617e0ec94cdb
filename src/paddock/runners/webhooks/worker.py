"""The worker that works off stored deliveries. Any number may run, in any number of processes."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Delivery, Ledger, LedgerError, LedgerUnavailableError, StaleDeliveryError
from paddock.runners.ledger.deliveries import ATTEMPTS
from paddock.runners.webhooks.events import Handled, announces_a_new_job, handle_event
from paddock.runners.webhooks.installations import EVENTS, Tenants
from paddock.runners.webhooks.scale_set_evidence import Listened
from paddock.runners.webhooks.unserved import FormerLabels

__all__ = ["Pools", "WebhookWorker"]

Pools = Callable[[], Sequence[RunnerPool] | None]
"""The pools there are now; None while that is not known, which is not the same as none."""

_BATCH = 128
_AT_ONCE = 8
"""Deliveries told at once that need a transaction of their own, so that the ledger's connections stay free for dispatch.
Events about new jobs need none: the ledger groups those that arrive together.
"""
_LOOK_AGAIN = 2.0
_AWAY = Backoff(base=0.5, cap=30.0)
_log = get_logger("webhooks")


class WebhookWorker:
    """Takes deliveries in batches, or from whoever stored them, tells the ledger, settles each.

    One that fails is tried again later with growing pauses, and given up after some attempts with its body kept; one that
    failed only because the database was away is never given up. A delivery whose worker dies comes due again within
    a minute. While the pools are not known nothing is taken, because everything would be ignored for want of a pool.
    """

    def __init__(
        self,
        ledger: Ledger,
        pools: Pools,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry,
        *,
        enrol: bool = True,
    ) -> None:
        self._ledger = ledger
        self._pools = pools
        self._clock = clock
        self._rng = rng
        self._tenants = Tenants(ledger, clock, enrol=enrol)
        self._former = FormerLabels(ledger, clock)
        self._listened = Listened(ledger, clock)
        self._wake = asyncio.Event()
        self._given: list[Delivery] = []
        """Taken already, by whoever stored them in this process. If it dies they are due again within a minute, as all are."""
        self._looked_at = float("-inf")
        self._handled = Counter(
            "paddock_webhook_deliveries",
            "Stored deliveries that were handled, by what they announced and what came of it.",
            ["action", "outcome"],
            registry=registry,
        )

    @property
    def has_room(self) -> bool:
        """Whether a delivery that is stored now may be taken in the same breath, and given to `take`."""
        return len(self._given) < _BATCH and self._pools() is not None

    def take(self, delivery: Delivery) -> None:
        """A new delivery was stored, and taken if it has an attempt. Without this the worker looks every two seconds."""
        if delivery.attempt:
            self._given.append(delivery)
        self._wake.set()

    async def run(self) -> None:
        """Work for ever; only cancellation ends this."""
        failures = 0
        while True:
            # Cleared before looking: a delivery that is stored while we look wakes us again.
            self._wake.clear()
            try:
                await self.drain()
            except LedgerUnavailableError as error:
                failures += 1
                wait = _AWAY.delay(failures, self._rng)
                _log.warning("deliveries wait for the ledger", error=str(error), in_seconds=round(wait, 1))
                await self._clock.sleep(wait)
                continue
            failures = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await self._wake.wait()

    async def drain(self) -> int:
        """Handle what is due until nothing is; gives how many were taken. LedgerUnavailableError: some wait for later."""
        taken, full = 0, False
        while (pools := self._pools()) is not None:
            found: list[Delivery] = []
            # Before what was given is touched: where the database is away, none of that is lost.
            await self._listened.refresh()
            if full or not self._given or not self._looked_lately():
                self._looked_at = self._clock.monotonic()
                found = await self._ledger.deliveries.take(_BATCH)
            full = len(found) == _BATCH
            given, self._given = self._given, []
            batch = [*found, *given]
            if not batch:
                break
            taken += len(batch)
            alone, batcher = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_BATCH)
            reached = await asyncio.gather(
                *(self._handle(each, pools, batcher if announces_a_new_job(each) else alone) for each in batch)
            )
            if not all(reached):
                raise LedgerUnavailableError("the database went away while deliveries were handled")
            if not full and not self._given and self._looked_lately():
                break  # that was all; what is stored from now on wakes us
        return taken

    def _looked_lately(self) -> bool:
        """Whether what others left, or what failed before, can wait: however much is given here, it is looked for in time."""
        return self._clock.monotonic() - self._looked_at < _LOOK_AGAIN

    async def _handle(self, delivery: Delivery, pools: Sequence[RunnerPool], turn: asyncio.Semaphore) -> bool:
        """Handle one; False if the database was away. Raises nothing, so that the others go on."""
        async with turn:
            try:
                told = await handle_event(
                    delivery, pools, self._ledger, self._tenants, self._former, self._listened, self._clock
                )
                await self._ledger.deliveries.settle(delivery, told.text)
            except StaleDeliveryError:
                return True  # we were slow, and another worker has it
            except LedgerUnavailableError as error:
                await self._postpone(delivery, str(error), give_up=False)
                return False
            except Exception as error:  # noqa: BLE001 - one bad delivery never stops the others
                _log.exception("a delivery could not be handled", delivery=delivery.delivery_id)
                await self._postpone(delivery, f"{type(error).__name__}: {error}", give_up=True)
                return True
            self._note(delivery, told)
            return True

    async def _postpone(self, delivery: Delivery, why: str, *, give_up: bool) -> None:
        outcome = "retried"
        if delivery.attempt < ATTEMPTS or give_up:
            # Where even this fails, the hold runs out after a minute and the delivery is due again.
            with suppress(LedgerError):
                outcome = "retried" if await self._ledger.deliveries.fail(delivery, why) else "given_up"
        event = "installation" if delivery.event in EVENTS else delivery.event
        self._handled.labels(event if event in _COUNTED else "other", outcome).inc()

    def _note(self, delivery: Delivery, told: Handled) -> None:
        self._handled.labels(told.action, told.outcome).inc()
        if told.outcome == "malformed":
            _log.warning("a delivery is malformed", delivery=delivery.delivery_id, error=told.sentence)
        elif told.outcome == "unserved":
            _log.warning("a job has no pool", delivery=delivery.delivery_id, why=told.sentence)


_COUNTED = frozenset({"workflow_job", "installation"})
