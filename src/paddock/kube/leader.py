"""Who may act: election on a `coordination.k8s.io/v1` Lease.

**Election is coordination, not fencing.** Nothing on the other side of a request knows who leads. A deposed leader stops
itself within its renew deadline, which ends before anybody else may take over; but a request that it sent may still be
on its way. Therefore a mutation is sent only while `lease_left()` is more than the request may take, and whoever takes
something over waits until the predecessor's last request must have arrived or died.

Clocks of two machines are never compared: a lease is over when its record did not change for its duration *as seen
here*, by a clock that only runs forwards.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from paddock.base.clock import Clock, rfc3339_micro
from paddock.base.logs import get_logger
from paddock.base.tasks import end
from paddock.kube.builtin import Lease, LeaseSpec
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta

__all__ = ["OPERATOR_LEASE", "LeaderElectionConfig", "LeaderElector", "note_without_election"]

OPERATOR_LEASE = "scaleway-applesilicon.infrastructure.cluster.x-k8s.io"
"""The name of the operator's lease; two operators that share it never act together."""
_LOG = get_logger("leader")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionConfig:
    """Which lease, for whom, and for how long, in seconds.

    `identity` must be unique to this process: two that share one both lead. Leading ends within `renew_deadline` of the
    last renewal that succeeded, counted from when it was sent; others wait for `lease_duration` from when they saw it.
    """

    name: str
    namespace: str
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * 1.2 > 0:
            raise ValueError("lease_duration > renew_deadline > 1.2 x retry_period > 0 must hold")
        if self.lease_duration != int(self.lease_duration):
            raise ValueError("lease_duration must be whole seconds, as the Lease records it")


async def note_without_election(client: Client, name: str, namespace: str, notes: Mapping[str, str]) -> None:
    """Write the notes of a process that leads without an election on a Lease that nobody holds. Writes only what differs."""
    try:
        lease = await client.get(Lease, name, namespace)
    except NotFoundError:
        if any(notes.values()):
            blank = Lease(metadata=ObjectMeta(name=name, namespace=namespace))
            await client.create(msgspec.structs.replace(blank, metadata=_with_notes(blank.metadata, notes)))
        return
    metadata = _with_notes(lease.metadata, notes)
    if metadata != lease.metadata:
        await client.update(msgspec.structs.replace(lease, metadata=metadata))


def _with_notes(metadata: ObjectMeta, notes: Mapping[str, str]) -> ObjectMeta:
    kept = {name: value for name, value in metadata.annotations.items() if name not in notes}
    annotations = kept | {name: value for name, value in notes.items() if value}
    return msgspec.structs.replace(metadata, annotations=annotations)


class LeaderElector:
    """Campaigns for a lease and runs something while it is held."""

    def __init__(
        self,
        client: Client,
        config: LeaderElectionConfig,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
    ) -> None:
        self.name = config.name
        self.namespace = config.namespace
        self.identity = config.identity
        self._client = client
        self._clock = clock
        self._rng = rng
        self._duration = config.lease_duration
        self._deadline = config.renew_deadline
        self._retry = config.retry_period
        self._lease: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._metrics = metrics or KubeMetrics()
        self._metrics.leader.labels(self.name).set(0)
        self.notes: dict[str, Callable[[], str]] = {}
        """Annotation → its value while this process leads, written with each renewal, at no call more; none while it is empty."""

    @property
    def holder(self) -> str:
        """Who holds the lease, as far as we have seen; empty when no process does."""
        return (self._lease.spec.holder_identity or "") if self._lease is not None else ""

    def lease_left(self) -> float:
        """Seconds for which no other process can lead; zero when we do not. Send a mutation only if it takes less."""
        if self._renewed_at is None:
            return 0.0
        return max(0.0, self._renewed_at + self._duration - self._clock.monotonic())

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Campaign; while leading, run `lead`; campaign again after a loss. Ends when `lead` does, or when cancelled.

        Whenever this loses the lease or ends, `lead` has been cancelled *and awaited* first; on an end the lease is then
        released, so that a successor need not wait it out.
        """
        try:
            while True:
                await self._acquire()
                if await self._hold(lead):
                    return
        finally:
            await self._release()

    async def _acquire(self) -> None:
        announced = ""
        while True:
            try:
                if await self._try():
                    self._metrics.leader.labels(self.name).set(1)
                    _LOG.info("leading", lease=self.name, identity=self.identity)
                    return
                if self.holder != announced:
                    announced = self.holder
                    _LOG.info("waiting for the lease", lease=self.name, holder=announced)
            except KubeError as error:
                if announced != type(error).__name__:
                    announced = type(error).__name__
                    _LOG.warning("cannot campaign", lease=self.name, problem=str(error))
            await self._clock.sleep(self._pause())

    async def _hold(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Renew while `lead` runs. True when it ended by itself, False when the lease was lost."""
        task = asyncio.ensure_future(lead())
        try:
            while await self._renew_in_time(task):
                pass
            if not task.done():
                # From here on `lease_left` is zero: nothing more is begun while the tasks end.
                self._give_up()
                self._metrics.leader_losses.labels(self.name).inc()
                await end(task)
                if not task.cancelled() and (error := task.exception()) is not None:
                    _LOG.error("what ran under the lease failed while it ended", lease=self.name, exc_info=error)
                return False
        finally:
            # On a clean stop the lease is still ours, and is released only when nothing acts on it any more.
            await end(task)
            self._metrics.leader.labels(self.name).set(0)
        task.result()
        return True

    async def _renew_in_time(self, task: "asyncio.Future[None]") -> bool:
        """Wait a retry period, then renew; False when the task ended or the lease is no longer ours."""
        await asyncio.wait([task], timeout=min(self._pause(), max(0.0, self._left_to_renew())))
        if task.done():
            return False
        if self._left_to_renew() <= 0:
            _LOG.error("lost the lease: it could not be renewed in time", lease=self.name)
            return False
        try:
            if await self._try():
                return True
        except KubeError as error:
            _LOG.warning("could not renew", lease=self.name, problem=str(error), left=round(self._left_to_renew(), 1))
            return True  # the deadline decides, at the next turn
        _LOG.error("lost the lease: another process holds it", lease=self.name, holder=self.holder)
        return False

    async def _try(self) -> bool:
        """One attempt to get or renew the lease. False: another process holds it. Errors: not known."""
        if self._lease is None or self._renewed_at is None or self.holder != self.identity:
            try:
                self._observe(await self._client.get(Lease, self.name, self.namespace, timeout=self._limit()))
            except NotFoundError:
                return await self._create()
            if not self._may_take():
                return False
        assert self._lease is not None
        sent = self._clock.monotonic()
        try:
            stored = await self._client.update(self._claimed(self._lease), timeout=self._limit())
        except ConflictError:
            # Another process wrote since we looked; look again before deciding anything.
            self._observe(await self._client.get(Lease, self.name, self.namespace, timeout=self._limit()))
            if self.holder not in {"", self.identity}:
                self._give_up()
            return self.holder == self.identity and self._renewed_at is not None
        except NotFoundError:
            # Deleted under us: anybody may make a new one, so be first or stop at once.
            return await self._create()
        self._held(stored, sent)
        return True

    async def _create(self) -> bool:
        blank = Lease(metadata=ObjectMeta(name=self.name, namespace=self.namespace))
        sent = self._clock.monotonic()
        try:
            stored = await self._client.create(self._claimed(blank), timeout=self._limit())
        except AlreadyExistsError:
            return False
        self._held(stored, sent)
        return True

    def _observe(self, lease: Lease) -> None:
        if self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = self._clock.monotonic()
        self._lease = lease

    def _may_take(self) -> bool:
        assert self._lease is not None
        spec = self._lease.spec
        if not spec.holder_identity or spec.holder_identity == self.identity:
            return True
        promised = float(spec.lease_duration_seconds or self._duration)
        return self._clock.monotonic() - self._seen_at >= promised

    def _claimed(self, lease: Lease) -> Lease:
        now, old = rfc3339_micro(self._clock.now()), lease.spec
        ours = old.holder_identity == self.identity
        spec = msgspec.structs.replace(
            old,
            holder_identity=self.identity,
            lease_duration_seconds=int(self._duration),
            renew_time=now,
            acquire_time=old.acquire_time if ours and old.acquire_time else now,
            lease_transitions=(old.lease_transitions or 0) + (0 if ours or not lease.metadata.uid else 1),
        )
        noted = {name: note() for name, note in self.notes.items()}
        return msgspec.structs.replace(lease, spec=spec, metadata=_with_notes(lease.metadata, noted))

    def _held(self, stored: Lease, sent: float) -> None:
        self._observe(stored)
        # From when it was *sent*: whoever sees the record sees it later than that, so their wait ends after ours.
        self._renewed_at = sent

    def _give_up(self) -> None:
        self._renewed_at = None

    def _left_to_renew(self) -> float:
        return 0.0 if self._renewed_at is None else self._renewed_at + self._deadline - self._clock.monotonic()

    def _limit(self) -> float:
        """How long one request may take: never past the renew deadline, and leaving room for a second attempt."""
        half = self._deadline / 2
        return half if self._renewed_at is None else max(0.001, min(half, self._left_to_renew()))

    def _pause(self) -> float:
        return self._retry * (1.0 + 0.2 * self._rng.random())

    async def _release(self) -> None:
        if self._renewed_at is None or self._lease is None:
            return
        # Should ending have outlasted the lease and another process hold it, the resourceVersion refuses this write.
        limit = self._deadline / 2
        self._give_up()
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=self._lease.spec.acquire_time,
            renew_time=rfc3339_micro(self._clock.now()),
            lease_transitions=self._lease.spec.lease_transitions,
        )
        try:
            # A note counts only while its writer leads.
            unnoted = _with_notes(self._lease.metadata, dict.fromkeys(self.notes, ""))
            await self._client.update(msgspec.structs.replace(self._lease, spec=spec, metadata=unnoted), timeout=limit)
            _LOG.info("released the lease", lease=self.name)
        except KubeError as error:
            _LOG.warning("could not release the lease; it runs out by itself", lease=self.name, problem=str(error))
