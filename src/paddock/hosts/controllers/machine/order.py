"""Renting a new host, for machines that ask for one of their own (`spec.source: Order`).

The cloud rents another server for every order, so an order is sent only after a complete list, taken late enough after
any earlier one, shows that none was accepted. The name of the order is recorded on the machine before it is sent.
"""

import asyncio
from datetime import datetime, timedelta

from msgspec.structs import replace

from paddock.base.explanation import span
from paddock.clients.scaleway import OutOfStock, QuotaExceeded, Server, ServerList
from paddock.clients.scaleway.os_family import family_matches
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.breaker import HALTED
from paddock.hosts.claim import order_marker
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.order_limits import OverLimit, may_order
from paddock.kube.controller import RequeueAfter

__all__ = ["Order"]

Machine = ScalewayAppleSiliconMachine
_SHOWN_WITHIN = timedelta(minutes=2)
"""How long the cloud may take to show an accepted order in its list."""
_WHEN_REFUSED = 300.0
_SOON = 5.0


def _named(servers: ServerList, machine: Machine) -> Server | None:
    """What this machine ordered, in a complete list."""
    return min(servers.named(machine.status.ordering), key=lambda server: server.id, default=None)


class Order:
    """Orders once, finds what was ordered, and hands it to the claim, which does the rest."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        # One order at a time: each is judged on a list that shows, or on a note of, the one before.
        self._turn = asyncio.Lock()
        self._sent: dict[str, tuple[datetime, str]] = {}

    async def run(self, machine: Machine) -> Machine | RequeueAfter:
        """The machine with the ordered host as the one that it claims, or when to look again."""
        async with self._turn:
            return await self._run(machine)

    async def _run(self, machine: Machine) -> Machine | RequeueAfter:
        context, now = self._context, self._context.clock.now()
        if not machine.status.ordering:
            message = f"orders a {machine.spec.type} in {machine.spec.zone}"
            status = replace(machine.status, ordering=order_marker(machine), phase="Provisioning")
            machine = await context.save(machine, ready(status, False, "Ordering", message, now), guarded=True)
        servers = await context.cloud.list_servers(machine.spec.zone)
        if (server := _named(servers, machine)) is not None:
            return await self._claim(machine, server)
        asked = machine.status.ordered_at
        if asked is not None and now - asked < _SHOWN_WITHIN:
            return RequeueAfter(_SOON)
        if (limited := await self._limited(machine, servers, now)) is not None:
            return await self._held(machine, limited, now)
        image = await self._image(machine)
        machine = await context.block_move(machine)
        # Recorded before it is sent: died in between, we look for it for a while before asking again. That while begins now,
        # and not before the turn and the reads, which take minutes while the cloud does not answer.
        now = context.clock.now()
        machine = await context.save(
            machine, replace(machine.status, ordered_at=now.replace(microsecond=0)), guarded=True
        )
        self._sent[machine.status.ordering] = (now, machine.spec.type)
        try:
            await context.fenced_cloud.order(machine.spec.zone, machine.spec.type, machine.status.ordering, image)
        except (OutOfStock, QuotaExceeded) as refusal:
            return await self._refused(machine, refusal, now)
        context.say(machine, "Normal", "Ordered", f"a {machine.spec.type} was ordered in {machine.spec.zone}")
        return RequeueAfter(_SOON)

    async def _image(self, machine: Machine) -> str | None:
        """None, which is the type's default, where that is of the family: the cloud delivers any other about an hour later."""
        cloud, spec = self._context.cloud, machine.spec
        for each in await cloud.list_server_types(spec.zone):
            if each.name == spec.type and family_matches(each.default_os, spec.os):
                return None
        return (await cloud.newest_image(spec.zone, spec.os, server_type=spec.type)).id

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
        return _named(await self._context.cloud.list_servers(machine.spec.zone), machine)

    async def _limited(self, machine: Machine, servers: ServerList, now: datetime) -> OverLimit | None:
        """Why nothing may be bought now; None where one more may."""
        settings = self._context.settings
        if (halt := self._context.halt_of(machine)) is not None:
            return OverLimit(HALTED, halt.message)
        ledger = {host.spec.server_id: host for host in self._context.hosts.list()}
        if any(
            (host := ledger.get(server.id)) is None or host.spec.release is None
            for server in servers.named(machine.metadata.name)
        ):
            return OverLimit(
                "OrderedBefore",
                f"a server in {machine.spec.zone} has the name {machine.metadata.name} already, so a second one is not bought: "
                "the machine may have lost its status; give that server back, or name it in spec.providerID",
            )
        prices = await self._context.cloud.list_prices(machine.spec.zone) if settings.order_budget is not None else {}
        outcome = may_order(
            machine.spec.type,
            [*servers, *self._unseen(machine, servers, now)],
            prices,
            now,
            cap=settings.order_cap,
            budget=settings.order_budget,
        )
        return outcome if isinstance(outcome, OverLimit) else None

    def _unseen(self, machine: Machine, servers: ServerList, now: datetime) -> list[Server]:
        """Orders that the cloud may not show yet: those of this process, and those that other machines wrote down."""
        sent = {marker: each for marker, each in self._sent.items() if now - each[0] < _SHOWN_WITHIN}
        self._sent = dict(sent)
        for other in self._context.machines.list():
            asked = other.status.ordered_at
            if asked is not None and now - asked < _SHOWN_WITHIN and other.metadata.uid != machine.metadata.uid:
                sent.setdefault(other.status.ordering, (asked, other.spec.type))
        shown = {server.name for server in servers}
        return [
            Server(id=marker, name=marker, type=kind, created_at=asked)
            for marker, (asked, kind) in sent.items()
            if marker not in shown
        ]

    async def _held(self, machine: Machine, limited: OverLimit, now: datetime) -> RequeueAfter:
        self._context.say(machine, "Warning", limited.reason, limited.message)
        status = condition(
            machine.status, "Provisioned", False, limited.reason, limited.message, now, severity="Warning"
        )
        await self._context.save(machine, ready(status, False, limited.reason, limited.message, now))
        return RequeueAfter(_WHEN_REFUSED)

    async def _claim(self, machine: Machine, server: Server) -> Machine | RequeueAfter:
        """Reach for the ordered host as for any other, once the inventory has made its Host object."""
        if await self._context.fresh_host(server.id) is None:
            return RequeueAfter(_SOON)
        return await self._context.save(machine, replace(machine.status, claiming=server.id), guarded=True)

    async def _refused(self, machine: Machine, refusal: OutOfStock | QuotaExceeded, now: datetime) -> RequeueAfter:
        reason = "OutOfStock" if isinstance(refusal, OutOfStock) else "QuotaExceeded"
        message = f"the cloud refuses a {machine.spec.type} in {machine.spec.zone}, asked again in {span(_WHEN_REFUSED)}: {refusal}"
        self._context.say(machine, "Warning", reason, message)
        status = condition(
            replace(machine.status, ordered_at=None), "Provisioned", False, reason, message, now, severity="Warning"
        )
        await self._context.save(machine, ready(status, False, reason, message, now))
        return RequeueAfter(_WHEN_REFUSED)
