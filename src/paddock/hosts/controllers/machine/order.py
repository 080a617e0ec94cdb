"""Renting a new host, for machines that ask for one of their own (`spec.source: Order`).

The cloud rents another server for every order, so an order is sent only after a complete list, taken late enough after
any earlier one, shows that none was accepted. The name of the order is recorded on the machine before it is sent.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from paddock.clients.scaleway import OutOfStock, QuotaExceeded, Server
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.claim import order_marker
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.kube.controller import RequeueAfter

__all__ = ["Order"]

Machine = ScalewayAppleSiliconMachine
_SHOWN_WITHIN = timedelta(minutes=2)
"""How long the cloud may take to show an accepted order in its list."""
_WHEN_REFUSED = 300.0
_SOON = 5.0


class Order:
    """Orders once, finds what was ordered, and hands it to the claim, which does the rest."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def run(self, machine: Machine, now: datetime) -> Machine | RequeueAfter:
        """The machine with the ordered host as the one that it claims, or when to look again."""
        context = self._context
        if not machine.status.ordering:
            message = f"orders a {machine.spec.type} in {machine.spec.zone}"
            status = replace(machine.status, ordering=order_marker(machine), phase="Provisioning")
            machine = await context.save(machine, ready(status, False, "Ordering", message, now), guarded=True)
        server = await self._ordered(machine)
        if server is not None:
            return await self._claim(machine, server)
        asked = machine.status.ordered_at
        if asked is not None and now - asked < _SHOWN_WITHIN:
            return RequeueAfter(_SOON)
        image = await context.cloud.newest_image(machine.spec.zone, machine.spec.os, server_type=machine.spec.type)
        # Recorded before it is sent: died in between, we look for it for a while before asking again.
        machine = await context.save(
            machine, replace(machine.status, ordered_at=now.replace(microsecond=0)), guarded=True
        )
        try:
            await context.fenced_cloud.order(machine.spec.zone, machine.spec.type, machine.status.ordering, image.id)
        except (OutOfStock, QuotaExceeded) as refusal:
            return await self._refused(machine, refusal, now)
        context.say(machine, "Normal", "Ordered", f"a {machine.spec.type} was ordered in {machine.spec.zone}")
        return RequeueAfter(_SOON)

    async def find(self, machine: Machine) -> Machine | RequeueAfter:
        """For a machine that ends: what it ordered, if anything; never a new order."""
        server = await self._ordered(machine)
        if server is not None:
            return await self._claim(machine, server)
        asked = machine.status.ordered_at
        if asked is not None and self._context.clock.now() - asked < _SHOWN_WITHIN:
            return RequeueAfter(_SOON)
        return machine

    async def _ordered(self, machine: Machine) -> Server | None:
        servers = (await self._context.cloud.list_servers(machine.spec.zone)).named(machine.status.ordering)
        return min(servers, key=lambda server: server.id) if servers else None

    async def _claim(self, machine: Machine, server: Server) -> Machine | RequeueAfter:
        """Reach for the ordered host as for any other, once the inventory has made its Host object."""
        if await self._context.fresh_host(server.id) is None:
            return RequeueAfter(_SOON)
        return await self._context.save(machine, replace(machine.status, claiming=server.id), guarded=True)

    async def _refused(self, machine: Machine, refusal: OutOfStock | QuotaExceeded, now: datetime) -> RequeueAfter:
        reason = "OutOfStock" if isinstance(refusal, OutOfStock) else "QuotaExceeded"
        message = f"the cloud refuses a {machine.spec.type} in {machine.spec.zone}, asked again in {_WHEN_REFUSED / 60:.0f} min: {refusal}"
        self._context.say(machine, "Warning", reason, message)
        status = condition(
            replace(machine.status, ordered_at=None), "Provisioned", False, reason, message, now, severity="Warning"
        )
        await self._context.save(machine, ready(status, False, reason, message, now))
        return RequeueAfter(_WHEN_REFUSED)
