"""Retiring hosts: one release that terminates, recorded on a host that lies free in the pool; see `paddock.hosts.retirement`."""

from datetime import datetime

from msgspec.structs import replace

from paddock.base.logs import get_logger
from paddock.clients.scaleway import ScalewayError
from paddock.hosts import names
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.controllers.release import record_release
from paddock.hosts.orphans import home_of
from paddock.hosts.release import RETIRED
from paddock.hosts.retirement import RetireHost, WaitToRetire, retire_step
from paddock.kube.conditions import set_condition
from paddock.kube.errors import ConflictError, KubeError
from paddock.kube.objects import Condition
from paddock.kube.status_writes import write_status

__all__ = ["Retirement"]

log = get_logger("retirement")
Host = ScalewayAppleSiliconHost


class Retirement:
    """One pass at a time. The hour between two is this process's own memory: a restart may shorten it once, never the cap.

    Windows: died after the release was recorded, the Host controller goes on with it; the record is one guarded write, so
    that a claim that came in between wins, and nothing is terminated.
    """

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._last: datetime | None = None

    async def cycle(self) -> None:
        """Look at every host that is to be retired; one that cannot be judged never stops the others."""
        for host in self._context.hosts.list(self._context.settings.namespace):
            if not host.spec.retire:
                continue
            try:
                await self._look(host.metadata.name)
            except (KubeError, ScalewayError) as error:
                log.warning("a host could not be retired; tried again", host=host.metadata.name, why=str(error))

    async def _look(self, name: str) -> None:
        context, now = self._context, self._context.clock.now()
        host = await context.fresh_host(name)
        if host is None:
            return
        others = (await context.fresh.list(Host, context.settings.namespace)).items
        match retire_step(host, others, self._last, now):
            case None:
                return
            case WaitToRetire(message):
                await self._tell(host, message)
            case RetireHost(message):
                # The name is read now: only a host that still lies in our pool is ours to give away.
                server = (await context.cloud.get_server(host.spec.zone, host.spec.server_id)).server
                prefix = home_of(host, context.settings.default_adopt_pool_prefix)
                if names.kind_of(server.name, prefix) is not names.NameKind.POOLED or not server.usable:
                    await self._tell(host, f"the cloud shows it as {server.name} ({server.status}): it is left alone")
                    return
                try:
                    await record_release(
                        context,
                        host,
                        policy="terminate",
                        prefix=prefix,
                        family="",
                        reason=RETIRED,
                        message=message,
                        cloud_name=server.name,
                    )
                except ConflictError:
                    return  # somebody claimed it meanwhile: it goes when it comes back
                self._last = now
                context.recorder.record(host, "Normal", RETIRED, f"{message}; the server is deleted")

    async def _tell(self, host: Host, message: str) -> None:
        said = Condition(type="Retired", status="False", reason="RetirementWaits", message=message)
        conditions = set_condition(host.status.conditions, said, self._context.clock.now())
        status = replace(host.status, conditions=conditions)
        await write_status(self._context.client, host, status)
