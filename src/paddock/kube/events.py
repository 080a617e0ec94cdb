"""Events: what `kubectl describe` shows below an object, for people who look there first."""

import asyncio
import contextlib
import random
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.base.rng import kube_suffix
from paddock.kube.builtin import Event, ObjectReference, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError, TransportError, UnavailableError
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, ObjectMeta

__all__ = ["EventLimits", "EventRecorder"]

_LOG = get_logger("events")


@dataclass(frozen=True, slots=True)
class _Pending:
    about: ObjectReference
    type: str
    reason: str
    message: str
    at: datetime

    @property
    def key(self) -> tuple[str, ...]:
        about = self.about
        return (about.kind, about.namespace, about.name, about.uid, self.type, self.reason, self.message)


@dataclass(slots=True)
class _Known:
    name: str
    count: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """One object may cause `burst` events at once and one more every `refill` seconds after that; at most `capacity`
    events wait to be sent.
    """

    burst: int = 25
    refill: float = 300.0
    capacity: int = 1000


class EventRecorder:
    """Records events without ever getting in the way: `record` neither waits nor raises.

    The same reason and message about the same object becomes one Event with a growing count. What exceeds the limits,
    or cannot be sent in a few attempts, is dropped and counted. `run` sends; give it to the manager as a runnable.
    """

    ATTEMPTS = 3
    REMEMBERED = 4096
    LAST_CHANCE = 2.0

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
        instance: str = "",
        limits: EventLimits | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._clock = clock
        self._rng = rng
        self._metrics = metrics or KubeMetrics()
        self._limits = limits or EventLimits()
        self._backoff = Backoff(base=0.5, cap=5.0)
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()
        self._known: OrderedDict[tuple[str, ...], _Known] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str, str], _Bucket] = OrderedDict()

    def record(
        self,
        about: KubeObject | ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's own name
        reason: str,
        message: str,
    ) -> None:
        """Remember to tell that something happened to an object. `reason` is one CamelCase word, `message` a sentence."""
        reference = reference_to(about) if isinstance(about, KubeObject) else about
        if not self._allowed(reference):
            self._metrics.events_dropped.labels("rate").inc()
        elif len(self._pending) >= self._limits.capacity:
            self._metrics.events_dropped.labels("full").inc()
        else:
            self._pending.append(_Pending(reference, type, reason[:128], message[:1024], self._clock.now()))
            self._wake.set()

    async def run(self) -> None:
        """Send what is recorded, until cancelled; what is waiting then gets a last, short chance."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self.flush()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.LAST_CHANCE):
                    await self.flush()

    async def flush(self) -> None:
        """Send everything that is waiting now."""
        while self._pending:
            await self._send(self._pending.popleft())

    async def _send(self, event: _Pending) -> None:
        for attempt in range(1, self.ATTEMPTS + 1):
            try:
                await self._write(event)
            except (TransportError, UnavailableError) as error:
                if attempt < self.ATTEMPTS:
                    await self._clock.sleep(self._backoff.delay(attempt, self._rng))
                    continue
                self._dropped(event, error)
            except KubeError as error:
                self._dropped(event, error)  # a refusal stays one: the namespace ends, or a verb is missing
            return

    def _dropped(self, event: _Pending, error: KubeError) -> None:
        self._metrics.events_dropped.labels("failed").inc()
        _LOG.warning("an event could not be recorded", reason=event.reason, object=event.about.name, problem=str(error))

    async def _write(self, event: _Pending) -> None:
        namespace = event.about.namespace or "default"
        if (known := self._known.get(event.key)) is not None:
            patch = {"count": known.count + 1, "lastTimestamp": rfc3339(event.at)}
            try:
                await self._client.merge_patch(Event, known.name, patch, namespace, timeout=10.0)
            except NotFoundError:
                del self._known[event.key]  # it has expired, as events do; begin a new one
            else:
                known.count += 1
                self._known.move_to_end(event.key)
                return
        at = event.at.replace(microsecond=0)
        name = f"{event.about.name[:230]}.{kube_suffix(self._rng, 12)}"
        await self._client.create(
            Event(
                metadata=ObjectMeta(name=name, namespace=namespace),
                involved_object=event.about,
                type=event.type,
                reason=event.reason,
                message=event.message,
                count=1,
                first_timestamp=at,
                last_timestamp=at,
                source={"component": self._component},
                reporting_component=self._component,
                reporting_instance=self._instance,
            ),
            timeout=10.0,
        )
        self._known[event.key] = _Known(name, 1)
        if len(self._known) > self.REMEMBERED:
            self._known.popitem(last=False)

    def _allowed(self, about: ObjectReference) -> bool:
        key, now = (about.kind, about.namespace, about.name), self._clock.monotonic()
        bucket = self._buckets.setdefault(key, _Bucket(float(self._limits.burst), now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > self.REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(float(self._limits.burst), bucket.tokens + (now - bucket.filled_at) / self._limits.refill)
        bucket.filled_at = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True
