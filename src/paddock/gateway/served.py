"""Since when Macs could be heard, as Leases that outlive each replica: without one nobody counts as silent.

Each replica renews a Lease of its own, **and its time is that of the last request from outside**, not of the write. So a Lease
proves two things at once: a replica lived, and somebody came through to it. `served-since` goes on only over gaps of a minute
between such times, whichever replica wrote them. All of it is read from the Leases each time: a replica that was cut off from the
API server, was stopped, or begins, finds there what it would have to remember.

| ends after | what is left | what heals it |
|---|---|---|
| the write | a Lease that is a minute old soon, and proves nothing then | another replica's; its removal an hour later |
| a request, before the write | a gap that looks longer than it was | nothing: everybody is silent for less |
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from paddock.base.clock import Clock, rfc3339_micro
from paddock.base.logs import get_logger
from paddock.hosts.api.silence import ALIVE, GATEWAY_LEASES, SERVED_SINCE, served_since
from paddock.kube.builtin import Lease, LeaseSpec
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["EVERY", "REMOVED_AFTER", "Served", "renewed"]

EVERY: Final = 10.0
REMOVED_AFTER: Final = 3600.0
"""Seconds for which a Lease did not change while a replica watched it."""
_OURS: Final = {"app.kubernetes.io/managed-by": "paddock"}

log = get_logger("gateway lease")


def renewed(name: str, namespace: str, leases: Iterable[Lease], heard: datetime) -> Lease:
    """The replica's Lease after a request from outside at `heard`, from all gateways' Leases as they are now."""
    found = list(leases)
    own = next((each for each in found if each.metadata.name == name), None)
    since = served_since(found, heard)
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        resource_version=own.metadata.resource_version if own is not None else "",
        labels=_OURS,
        annotations={SERVED_SINCE: rfc3339_micro(heard if since is None else min(since, heard))},
    )
    spec = LeaseSpec(
        holder_identity=name,
        lease_duration_seconds=int(ALIVE.total_seconds()),
        renew_time=rfc3339_micro(heard),
    )
    return Lease(metadata=meta, spec=spec)


class Served:
    """`name` is this replica's, and no other living one's. Call `request_came` for each request from outside that was let in."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, name: str) -> None:
        self._client, self._clock = client, clock
        self._namespace, self._name = namespace, GATEWAY_LEASES + name
        self._heard: datetime | None = None
        self._unchanged: dict[tuple[str, str], float] = {}

    def request_came(self) -> None:
        self._heard = self._clock.now()

    async def renew(self) -> None:
        """Every ten seconds. Raises KubeError: then the next call writes what is true by then."""
        heard = self._heard
        if heard is None:
            return  # no request since the last write: what is not written is not claimed
        leases = [
            each
            for each in (await self._client.list(Lease, self._namespace)).items
            if each.metadata.name.startswith(GATEWAY_LEASES)
        ]
        wanted = renewed(self._name, self._namespace, leases, heard)
        try:
            await (self._client.update(wanted) if wanted.metadata.resource_version else self._client.create(wanted))
        except (AlreadyExistsError, ConflictError, NotFoundError):
            log.warning(
                "another process renews this gateway's Lease, or removed it; it is read again", lease=self._name
            )
            return
        if self._heard == heard:
            self._heard = None
        await self._remove_dead(leases)

    async def _remove_dead(self, leases: Iterable[Lease]) -> None:
        """Those of replicas that are gone. By watching, not by comparing clocks: one that did not change for an hour while we
        looked is nobody's, and if its replica comes back, it makes another.
        """
        now = self._clock.monotonic()
        others = [each for each in leases if each.metadata.name != self._name]
        versions = {(each.metadata.uid, each.metadata.resource_version): each for each in others}
        self._unchanged = {version: self._unchanged.get(version, now) for version in versions}
        for version, since in self._unchanged.items():
            if now - since < REMOVED_AFTER or not _OURS.items() <= versions[version].metadata.labels.items():
                continue
            uid, resource_version = version
            name = versions[version].metadata.name
            try:
                await self._client.delete(Lease, name, self._namespace, uid=uid, resource_version=resource_version)
            except (ConflictError, NotFoundError):
                continue  # it was renewed after all, or another replica was first
            log.info("the Lease of a gateway that is gone was removed", lease=name)
