"""The sweep: every host that the cloud shows gets one verdict; it reports orphans, and reclaims them if allowed."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric

from paddock.base.logs import get_logger
from paddock.clients.scaleway import ScalewayError, Server
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.owners import owning_machines
from paddock.hosts.controllers.release import record_release
from paddock.hosts.disruption import Clear
from paddock.hosts.orphans import HostState, Owners, Verdict, home_of, verdict
from paddock.hosts.sweep import (
    RECLAIM,
    HealLedger,
    Leave,
    OrphanHistory,
    Reclaim,
    confirmed,
    counts_as_orphan,
    judge,
    ours,
    owners_vanished,
)
from paddock.kube.builtin import Node
from paddock.kube.errors import ConflictError, KubeError

__all__ = ["Sweep", "SweepFinding", "SweepMetrics"]

log = get_logger("sweep")
Host = ScalewayAppleSiliconHost


class LeaderGauge(Gauge):
    """A gauge that only the leader exports: what a deposed one saw last is nobody's state any more."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry, leads: Callable[[], bool]) -> None:
        self._leads = leads
        super().__init__(name, text, registry=registry)

    def collect(self) -> Iterable[Metric]:
        if self._leads():
            return super().collect()
        self.set(0)  # leading anew, it starts from nothing
        return [Metric(self._name, self._documentation, "gauge")]


class SweepMetrics:
    """What an alert watches."""

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool] = lambda: True) -> None:
        self.orphans = LeaderGauge(
            "scaleway_orphan_servers",
            "Servers that no machine owns and that are not in the pool; only who leads says so.",
            registry,
            leads,
        )
        self.reclaimed = Counter(
            "scaleway_orphan_servers_reclaimed", "Orphaned servers whose release was recorded.", registry=registry
        )
        self.vanished = LeaderGauge(
            "paddock_sweep_owners_vanished",
            "Claimed hosts whose machines are gone, while so many are that nothing is reclaimed; 0 otherwise.",
            registry,
            leads,
        )
        self.zones_failed = Counter(
            "paddock_sweep_zone_failures", "Zones that could not be listed.", ["zone"], registry=registry
        )


@dataclass(frozen=True, slots=True)
class SweepFinding:
    """One host of one cycle: what it is, and what is done about it."""

    zone: str
    server: Server
    verdict: Verdict
    action: Reclaim | HealLedger | Leave


class Sweep:
    """One zone's failure never hides another's, and a failed read never counts as "none"."""

    def __init__(self, context: ReconcileContext, zones: Callable[[], Collection[str]], metrics: SweepMetrics) -> None:
        self._context = context
        self._zones = zones
        self._metrics = metrics
        self._orphans: dict[str, int] = {}
        self._gate = DisruptionGate(context)
        self._observations = OrphanHistory()
        self.findings: list[SweepFinding] = []

    async def cycle(self) -> None:
        """Look at everything, report, then act on what may be acted on, under the brakes."""
        settings = self._context.settings
        machines = await owning_machines(self._context)
        hosts = {host.spec.server_id: host for host in (await self._context.fresh.list(Host, settings.namespace)).items}
        owners = Owners.of(machines)
        findings: list[SweepFinding] = []
        seen: dict[str, tuple[str, str, int]] = {}
        zones = sorted(self._zones())
        # A zone in which nobody and nothing is known any more is not looked at again, so its last count would stand for ever.
        self._orphans = {zone: count for zone, count in self._orphans.items() if zone in zones}
        for zone in zones:
            try:
                servers = await self._context.cloud.list_servers(zone)
            except ScalewayError as error:
                self._metrics.zones_failed.labels(zone).inc()
                log.warning("zone could not be swept; its last count stands", zone=zone, why=str(error))
                last = [finding for finding in self.findings if finding.zone == zone]
                findings += last
                seen |= {f.server.id: s for f in last if (s := self._observations.seen.get(f.server.id))}
                continue
            orphans = 0
            for server in servers:
                judged = verdict(
                    server,
                    hosts.get(server.id),
                    owners,
                    pool_prefix=settings.default_adopt_pool_prefix,
                    claim_name_prefix=settings.claim_name_prefix,
                )
                count = self._observations.count(server.id, server.name, judged.reason)
                seen[server.id] = (server.name, judged.reason, count)
                orphans += counts_as_orphan(judged, count)
                given = ours(hosts.get(server.id), server.name)
                action = judge(
                    server.name, judged, count, settings.claim_name_prefix, given=given, unwipeable=server.unwipeable
                )
                findings.append(SweepFinding(zone, server, judged, action))
            self._orphans[zone] = orphans
        self.findings, self._observations = findings, OrphanHistory(seen)
        self._metrics.orphans.set(sum(self._orphans.values()))
        dead = sum(_dead(hosts.get(finding.server.id), finding.verdict, owners) for finding in findings)
        held = sum(finding.verdict.state is HostState.OWNED for finding in findings)
        vanished = owners_vanished(dead, held, len(machines))
        self._metrics.vanished.set(dead if vanished else 0)
        if vanished:
            log.error(
                "the machines of claimed hosts are gone, so many that the cluster may have been emptied, moved or restored: "
                "nothing is reclaimed before machines are back, or a person confirms each host",
                gone=dead,
                held=held,
                machines=len(machines),
                confirm=f"{RECLAIM}=true on the Host",
            )
        await self._act([f for f in findings if not vanished or confirmed(hosts.get(f.server.id))])

    async def _act(self, findings: list[SweepFinding]) -> None:
        done = 0
        for finding in findings:
            if isinstance(finding.action, Leave):
                continue
            if done >= self._context.settings.reclaim_cap:
                log.warning("the cap of this cycle is used up; the rest follows in the next", cap=done)
                return
            try:
                done += await self._heal(finding)
            except (ScalewayError, KubeError) as error:
                log.warning(
                    "an orphaned host was not reclaimed; tried again in the next cycle",
                    server=finding.server.id,
                    why=str(error),
                )

    async def _heal(self, finding: SweepFinding) -> bool:
        """Judge once more on reads made now, then record. False when the picture changed meanwhile."""
        context, server_id, settings = self._context, finding.server.id, self._context.settings
        # The Host first, because the write is guarded by its version, and the machines last: a claim that is in this Host
        # was made by a machine that exists already, so a machine that is missing from the list is really gone.
        host = await context.fresh_host(server_id)
        if host is None:
            return False  # the inventory makes it; then it is judged again
        server = (await context.cloud.get_server(finding.zone, server_id)).server
        owners = Owners.of(await owning_machines(context))
        again = verdict(
            server,
            host,
            owners,
            pool_prefix=settings.default_adopt_pool_prefix,
            claim_name_prefix=settings.claim_name_prefix,
        )
        if (again.state, again.reason, server.name) != (
            finding.verdict.state,
            finding.verdict.reason,
            finding.server.name,
        ):
            log.info(
                "left alone: it changed since the scan",
                server=server_id,
                before=finding.verdict.reason,
                now=again.reason,
            )
            return False
        try:
            if isinstance(finding.action, HealLedger):
                await context.free_host(host)
                return True
            if server.transient or not ours(host, server.name):
                return False  # whatever the cloud does to it should end first; and it is taken while it is ours
            if not await self._nobody_works(host, server):
                return False
            await record_release(
                context,
                host,
                # One that was ordered for a machine and never claimed: in a pool it would only be paid for.
                policy="pool" if host.spec.epoch else "terminate",
                prefix=home_of(host, settings.default_adopt_pool_prefix),
                family=host.status.os.family,
                reason="Reclaimed",
                message=again.message,
                cloud_name=server.name,
            )
        except ConflictError:
            return False
        self._metrics.reclaimed.inc()
        goes = "it is wiped and goes back to the pool" if host.spec.epoch else "it is given back to the cloud"
        context.recorder.record(host, "Warning", "Reclaimed", f"{again.message}; {goes}")
        return True

    async def _nobody_works(self, host: Host, server: Server) -> bool:
        """Whether no Node of this server has work. One that is idle is fenced first, and taken in the next cycle.

        Its machine is gone, so its Nodes are found by what they say of themselves: the server's id, or its name.
        """
        names = {server.name, host.spec.claim.machine_name if host.spec.claim is not None else ""}
        for node in (await self._context.fresh.list(Node)).items:
            if node.metadata.name not in names and node.spec.provider_id.rpartition("/")[2] != server.id:
                continue
            step = await self._gate.about(node, f"reclaim of server {server.id}")
            if not isinstance(step, Clear):
                message = f"not reclaimed yet: Node {node.metadata.name}: {step.message}"
                self._context.recorder.record(host, "Normal", "ReclaimWaits", message)
                log.info("a stranded host is left alone for now", server=server.id, why=step.message)
                return False
        return True


def _dead(host: Host | None, judged: Verdict, owners: Owners) -> bool:
    """Whether the host's claim names a machine that is gone. One that came back under a new uid owns it by its name."""
    claim = host.spec.claim if host is not None else None
    return claim is not None and claim.machine_uid not in owners.by_uid and judged.state is not HostState.OWNED
