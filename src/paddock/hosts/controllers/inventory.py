"""Inventory: one paged list per zone and cycle makes and updates the Host objects, for everybody to share.

A zone whose list fails changes nothing: its Hosts keep their last known state, and the first of them by name says that they
are old news (condition `Listed`), for everybody who has no page beside the operator. A Host is written only when something
about it changed, so an idle fleet costs one list per zone and cycle and no write at all.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from paddock.base.logs import get_logger
from paddock.clients.scaleway import Price, ScalewayError, Server
from paddock.hosts.absence import GONE, SERVER_GONE, MarkGone, NotProven, RemoveHost, absence_step, asks
from paddock.hosts.api import (
    HostSpec,
    HostStatus,
    OperatingSystem,
    ScalewayAppleSiliconHost,
)
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.first_contact import opened
from paddock.hosts.listing import LISTED
from paddock.hosts.orphans import HostState, Owners, Verdict, verdict
from paddock.kube.conditions import get_condition, set_condition, without_condition
from paddock.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from paddock.kube.objects import Condition, ObjectMeta
from paddock.kube.status_writes import write_status

__all__ = ["Inventory", "observed"]

log = get_logger("inventory")
_WRITES_AT_A_TIME = 8
_PRICES_KEPT = 3600.0


def observed(
    server: Server, before: HostStatus, judged: Verdict, price: Price | None, now: datetime, *, ours: bool = True
) -> HostStatus:
    """The status that a Host should have now, in full. Pure; equal to `before` when nothing changed.

    `ours`: a claim or a release of ours is recorded on the Host. A host that is not ours keeps its key only while it lies in
    the pool, ready: another cluster of the project may claim it and wipe it, and the next install has another key.
    """
    lost_sight = not ours and (judged.state is not HostState.POOLED or server.status != "ready")
    ready = Condition(
        type="Ready",
        status="False" if judged.state is HostState.ORPHANED else "True",
        reason=judged.reason,
        message=judged.message,
    )
    os = server.os
    return HostStatus(
        state=judged.state.value,
        cloud_name=server.name,
        cloud_status=server.status,
        type=server.type,
        os=OperatingSystem(family=os.family, name=os.name, version=os.version) if os else OperatingSystem(),
        delivered=server.delivered,
        ip=server.ip,
        # Before delivery the cloud repeats the creation time here, which would read as "deletable at once".
        deletable_at=server.deletable_at if server.delivered else None,
        committed_until=server.committed_until(now),
        deletion_scheduled=server.deletion_scheduled,
        unwipeable=server.unwipeable,
        price_per_hour=f"{price.per_hour:f}" if price else before.price_per_hour,
        currency=price.currency if price else before.currency,
        host_key="" if lost_sight else before.host_key,
        first_contact=None
        if lost_sight
        else before.first_contact
        or (opened(now, "it was first seen here") if server.delivered and not before.host_key else None),
        history=before.history,
        # It is listed now, so that nothing keeps saying that it is not.
        conditions=without_condition(set_condition(before.conditions, ready, now), LISTED),
    )


class Inventory:
    """Mirrors what the cloud shows into Host objects."""

    def __init__(self, context: ReconcileContext, zones: Callable[[], Collection[str]]) -> None:
        self._context = context
        self._zones = zones
        self._writers = asyncio.Semaphore(_WRITES_AT_A_TIME)
        self._prices: dict[str, tuple[float | None, Mapping[str, Price]]] = {}
        self._absent: dict[str, set[str]] = {}
        self.problems = context.zone_problems

    async def cycle(self) -> None:
        """Look at every zone once. One zone's failure never hides another's."""
        zones = sorted(self._zones())
        for zone in self.problems.keys() - zones:
            del self.problems[zone]
        for zone in zones:
            try:
                servers = await self._context.cloud.list_servers(zone)
            except ScalewayError as error:
                self.problems[zone] = f"zone {zone} could not be listed, its hosts are shown as last seen: {error}"
                log.warning("zone could not be listed", zone=zone, why=str(error))
                await self._say_so(zone, self._known(zone))
                continue
            self.problems.pop(zone, None)
            prices = await self._prices_of(zone)
            owners = Owners.of(self._context.machines.list())
            async with asyncio.TaskGroup() as group:
                for server in servers:
                    group.create_task(self._mirror(zone, server, owners, prices.get(server.type)))
            await self._missing(zone, {server.id for server in servers}, owners)

    async def _prices_of(self, zone: str) -> Mapping[str, Price]:
        """What an hour costs, by type. Told for people and rarely changed: an old list is better than an extra call."""
        asked, prices = self._prices.get(zone, (None, {}))
        now = self._context.clock.monotonic()
        if asked is not None and now - asked < _PRICES_KEPT:
            return prices
        try:
            prices = await self._context.cloud.list_prices(zone)
        except ScalewayError as error:
            log.warning("prices could not be read; the last ones stand", zone=zone, why=str(error))
        else:
            self._prices[zone] = (now, prices)
        return prices

    async def _missing(self, zone: str, shown: set[str], owners: Owners) -> None:
        """Hosts that a complete list no longer shows, twice in a row: each is asked for by itself before it counts as gone.

        One that cannot be proven gone ends the matter for its zone: the list may be as wrong about the others.
        """
        context, now = self._context, self._context.clock.now()
        absent = {host.metadata.name: host for host in self._known(zone) if host.spec.server_id not in shown}
        before, self._absent[zone] = self._absent.get(zone, set()), set(absent)
        for name in sorted(before & set(absent)):
            host = absent[name]
            claim = host.spec.claim
            claimant = owners.by_uid.get(claim.machine_uid) if claim is not None else None
            if not asks(host, claimant, now):
                continue
            match absence_step(host, claimant, await context.cloud.is_gone(zone, host.spec.server_id), now):
                case NotProven(message):
                    self.problems[zone] = message
                    await self._say_so(zone, list(absent.values()))
                    return
                case RemoveHost():
                    await self._forget(host)
                case MarkGone(message):
                    await self._mark_gone(host, message)

    async def _mark_gone(self, host: ScalewayAppleSiliconHost, message: str) -> None:
        """Since when it is gone counts from now, whatever was said of it before."""
        ready = Condition(type="Ready", status="False", reason=SERVER_GONE, message=message)
        others = without_condition(without_condition(host.status.conditions, "Ready"), LISTED)
        conditions = set_condition(others, ready, self._context.clock.now())
        status = replace(host.status, state=GONE, cloud_status="", conditions=conditions)
        if host.status.state != GONE:
            await self._save(host, status)

    def _known(self, zone: str) -> list[ScalewayAppleSiliconHost]:
        return [host for host in self._context.hosts.list(self._context.settings.namespace) if host.spec.zone == zone]

    async def _say_so(self, zone: str, unseen: Sequence[ScalewayAppleSiliconHost]) -> None:
        """One Host tells why its zone is not listed: once, since an outage must not cost a write a Host and cycle.

        Nothing else is written about a zone that was not seen. A write that fails is tried again by the next cycle.
        """
        known = [host for host in unseen if host.status.state != GONE]
        if not known or any(get_condition(host.status.conditions, LISTED) is not None for host in known):
            return
        host = min(known, key=lambda one: one.metadata.name)
        said = Condition(type=LISTED, status="False", reason="ZoneNotListed", message=self.problems[zone])
        conditions = set_condition(host.status.conditions, said, self._context.clock.now())
        await self._save(host, replace(host.status, conditions=conditions))

    async def _forget(self, host: ScalewayAppleSiliconHost) -> None:
        """Remove the Host object of a server that is gone; only in the version that was judged."""
        meta = host.metadata
        try:
            await self._context.client.delete(
                ScalewayAppleSiliconHost,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        except (NotFoundError, ConflictError):
            return

    async def _mirror(self, zone: str, server: Server, owners: Owners, price: Price | None) -> None:
        """Bring one Host up to date. One that cannot be written never stops the others; the next cycle tries again."""
        async with self._writers:
            try:
                await self._mirror_one(zone, server, owners, price)
            except KubeError as error:
                log.warning("host could not be written", server=server.id, why=str(error))

    async def _mirror_one(self, zone: str, server: Server, owners: Owners, price: Price | None) -> None:
        settings = self._context.settings
        host = self._context.hosts.get(server.id, settings.namespace)
        judged = verdict(
            server,
            host,
            owners,
            pool_prefix=settings.default_adopt_pool_prefix,
            claim_name_prefix=settings.claim_name_prefix,
        )
        if host is None:
            buyer = owners.by_order.get(server.name)
            made = ScalewayAppleSiliconHost(
                metadata=ObjectMeta(name=server.id, namespace=settings.namespace),
                # What a machine ordered is this cluster's also when that machine has another one, or is gone.
                spec=HostSpec(zone=zone, server_id=server.id, last_machine=buyer.metadata.name if buyer else ""),
            )
            try:
                host = await self._context.client.create(made)
            except AlreadyExistsError:
                return  # the cache has not seen it yet; the next cycle will
        pool = owners.pool_of(server.name, settings.default_adopt_pool_prefix, host)
        kept = "" if pool == settings.default_adopt_pool_prefix else pool
        if kept is not None and kept != host.spec.pool_prefix:
            # It outlives the machine that names the pool: without it a free Mac would be nobody's when that machine goes.
            host = await self._context.patch_host(host, {"poolPrefix": kept})
        ours = host.spec.claim is not None or host.spec.release is not None
        status = observed(server, host.status, judged, price, self._context.clock.now(), ours=ours)
        await write_status(self._context.client, host, status)

    async def _save(self, host: ScalewayAppleSiliconHost, status: HostStatus) -> None:
        """A write that fails is tried again by the next cycle, and stops nobody."""
        try:
            await write_status(self._context.client, host, status)
        except KubeError as error:
            log.warning("host could not be written", server=host.metadata.name, why=str(error))
