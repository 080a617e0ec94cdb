"""The host subsystem put together: which informers, controllers and sweeps one process runs.

`paddock operator` runs this against a cluster, `paddock up` against its own API: the same controllers, the same flags.
"""

import math
from collections.abc import Callable
from typing import Any

from paddock.base.metrics import live_kills
from paddock.base.secrets import Secret, new_key
from paddock.clients.scaleway import Cloud
from paddock.hosts.api import (
    MacFleet,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconRemediation,
)
from paddock.hosts.bootstrap.contract import Bootstrapper
from paddock.hosts.bootstrap.credentials import HostLogins
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.revocation import RevokedNodes
from paddock.hosts.controllers.catalogue import Catalogue
from paddock.hosts.controllers.certificate_requests import CertificateRequests
from paddock.hosts.controllers.cluster import ClusterReconciler, ControlPlaneReconciler
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.controllers.core_access import CoreAccess
from paddock.hosts.controllers.ended_jobs import EndedJobs
from paddock.hosts.controllers.fleet import FleetReconciler
from paddock.hosts.controllers.host import HostReconciler
from paddock.hosts.controllers.host_keys import HostKeys
from paddock.hosts.controllers.inventory import Inventory
from paddock.hosts.controllers.machine.reconcile import MachineReconciler
from paddock.hosts.controllers.remediation import RemediationReconciler
from paddock.hosts.controllers.retire import Retirement
from paddock.hosts.controllers.sweep import Sweep, SweepMetrics
from paddock.hosts.disruption import WorkLedger
from paddock.hosts.fenced_cloud import FencedCloud
from paddock.hosts.health_check import concerns
from paddock.hosts.listing import UNLISTED_ZONES, unlisted_zones_note
from paddock.hosts.metrics import HostCollector
from paddock.hosts.orphans import HostState
from paddock.hosts.roles import CORE_ROLE
from paddock.hosts.settings import HostSettings
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.controller import Controller, Reconcile, Request, its_controller
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.leader import OPERATOR_LEASE, note_without_election
from paddock.kube.manager import Manager
from paddock.kube.reader import FreshReader
from paddock.kube.stalled import Stalls
from paddock.kube.store import CacheChange

__all__ = ["HostOperator"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine
RemediationObject = ScalewayAppleSiliconRemediation
_CATALOGUE_EVERY = 600.0
_ENDED_JOBS_EVERY = 10.0
_REQUESTS_EVERY = 60.0
_REVOKED_EVERY = 1800.0


class HostOperator:
    """Adds the host subsystem to a manager, and offers its caches to whoever shows them."""

    def __init__(
        self,
        manager: Manager,
        client: Client,
        cloud: Cloud,
        bootstrapper: Bootstrapper,
        settings: HostSettings,
        *,
        work: WorkLedger | None = None,
        new_key: Callable[[], Secret] = new_key,
    ) -> None:
        clock, rng, metrics = manager.clock, manager.rng, manager.metrics
        self._settings = settings
        self._noted: dict[str, str] | None = None
        self._clock, self._rng, self._metrics = clock, rng, metrics
        # Another release in this cluster has a ledger of its own, of the same servers: to us it is a rival's, not ours.
        self.hosts = Informer(client, Host, clock=clock, rng=rng, metrics=metrics, namespace=settings.namespace)
        self.machines = Informer(client, Machine, clock=clock, rng=rng, metrics=metrics)
        self.fleets = Informer(client, MacFleet, clock=clock, rng=rng, metrics=metrics)
        clusters = Informer(client, ScalewayAppleSiliconCluster, clock=clock, rng=rng, metrics=metrics)
        planes = Informer(client, ScalewayAppleSiliconControlPlane, clock=clock, rng=rng, metrics=metrics)
        self.remediations = Informer(client, RemediationObject, clock=clock, rng=rng, metrics=metrics)
        recorder = EventRecorder(client, "paddock", clock=clock, rng=rng, metrics=metrics)
        self._stalls = Stalls(client, recorder, clock)
        elector = manager.elector
        lease_left: Callable[[], float] = elector.lease_left if elector is not None else lambda: math.inf
        catalogue = Catalogue(cloud, self.zones)
        self.context = ReconcileContext(
            client=client,
            fresh=FreshReader(client),
            logins=HostLogins(client),
            cloud=cloud,
            fenced_cloud=FencedCloud(cloud, lease_left, settings.request_timeout),
            hosts=self.hosts.reader,
            machines=self.machines.reader,
            remediations=self.remediations.reader,
            recorder=recorder,
            bootstrapper=bootstrapper,
            catalogue=catalogue,
            clock=clock,
            settings=settings,
            live_kills=live_kills(metrics.registry),
            new_key=new_key,
            work=work,
        )
        self.inventory = Inventory(self.context, self.zones)
        self.sweep = Sweep(self.context, self.zones, SweepMetrics(metrics.registry, lambda: lease_left() > 0))
        metrics.registry.register(HostCollector(self.machines.reader.list, self.hosts.reader.list))
        manager.add_runnable("events", recorder.run)
        manager.add_periodic("catalogue", catalogue.refresh, every=_CATALOGUE_EVERY)
        if elector is not None:
            elector.notes[UNLISTED_ZONES] = lambda: unlisted_zones_note(self.inventory.problems)
        cycle = self.inventory.cycle if elector is not None else self._list_and_note
        manager.add_periodic("inventory", cycle, every=settings.inventory_interval)
        manager.add_periodic(
            "sweep", self.sweep.cycle, every=settings.reclaim_interval, first_after=settings.inventory_interval
        )
        manager.add_periodic("retirement", Retirement(self.context).cycle, every=settings.inventory_interval)
        manager.add_periodic("ended jobs", EndedJobs(self.context).cycle, every=_ENDED_JOBS_EVERY)
        keys = HostKeys(client, clock, bootstrapper, self.hosts.reader.list)
        manager.add_periodic("host keys", keys.cycle, every=settings.inventory_interval)
        requests = CertificateRequests(client, clock, self.machines.reader.list)
        manager.add_periodic("certificate requests", requests.cycle, every=_REQUESTS_EVERY)
        revoked = RevokedNodes(client, clock, settings.namespace)
        manager.add_periodic("revoked nodes", revoked.tidy, every=_REVOKED_EVERY)
        machines = self._controller("machine", MachineReconciler(self.context))
        machines.watches(self.machines).watches(self.hosts, self._concerned)
        # One that comes, goes or is changed concerns its machine; what we ourselves say in its status does not.
        machines.watches(self.remediations, self._of_remediation, predicate=_asks_otherwise)
        if settings.expect_nodes:
            nodes = Informer(client, Node, clock=clock, rng=rng, metrics=metrics)
            machines.watches(nodes, self._of_node, predicate=_comes_goes_or_turns)
        for controller in (
            machines,
            self._controller("host", HostReconciler(self.context)).watches(self.hosts),
            self._controller("fleet", FleetReconciler(self.context, rng))
            .watches(self.fleets)
            .watches(self.machines, its_controller("MacFleet")),
            self._controller("cluster", self._clusters(client)).watches(clusters, predicate=self._ours),
            self._controller("control plane", ControlPlaneReconciler(client)).watches(planes, predicate=self._ours),
            self._controller("remediation", RemediationReconciler(self.context))
            .watches(self.remediations, predicate=self._ours)
            .watches(self.machines, self._its_remediations),
        ):
            manager.add_controller(controller)

    async def _list_and_note(self) -> None:
        """Without an election nobody renews a Lease that could carry it; a write that fails is repeated by the next cycle."""
        await self.inventory.cycle()
        notes = {UNLISTED_ZONES: unlisted_zones_note(self.inventory.problems)}
        if notes == self._noted:
            return
        await note_without_election(self.context.client, OPERATOR_LEASE, self._settings.namespace, notes)
        self._noted = notes

    def _ours(self, change: CacheChange[Any]) -> bool:
        """Whether an object of Cluster API is in a namespace that this operator works in."""
        namespaces = self._settings.watch_namespaces
        return not namespaces or change.obj.metadata.namespace in namespaces

    def _clusters(self, client: Client) -> ClusterReconciler:
        """Core runs in this very cluster, so it finds the API server where this process does."""
        endpoint = ApiEndpoint(client.config.server, client.config.ca)
        access = CoreAccess(client, self._clock, endpoint, CORE_ROLE, self._settings.core_token_lifetime)
        manage = self._settings.manage_kubeconfig
        return ClusterReconciler(client, access, self.context.recorder, self._clock, manage=manage)

    def _controller(self, name: str, reconcile: Reconcile) -> Controller:
        return Controller(
            name,
            reconcile,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
            workers=self._settings.workers,
            stalls=self._stalls,
        )

    def _concerned(self, host: Host) -> list[Request]:
        """The machines that a Host concerns: its owner; when it is free, those that wait for one like it."""
        if host.spec.claim is not None:
            return [Request(host.spec.claim.machine_namespace, host.spec.claim.machine_name)]
        free = (
            host.status.state == HostState.POOLED and host.spec.release is None and host.status.cloud_status == "ready"
        )
        return [
            Request(machine.metadata.namespace, machine.metadata.name)
            for machine in self.machines.reader.list()
            if machine.status.host_name == host.metadata.name
            or (free and not machine.status.server_id and _fits(machine, host))
        ]

    def _of_node(self, node: Node) -> list[Request]:
        """The machine whose Node came or went; a Node has the name of its machine."""
        return [
            Request(machine.metadata.namespace, machine.metadata.name)
            for machine in self.machines.reader.list()
            if machine.metadata.name == node.metadata.name
        ]

    def _of_remediation(self, remediation: RemediationObject) -> list[Request]:
        """The machine of ours that a remediation is for."""
        return [
            Request(machine.metadata.namespace, machine.metadata.name)
            for machine in self.machines.reader.list(remediation.metadata.namespace)
            if concerns(remediation, machine)
        ]

    def _its_remediations(self, machine: Machine) -> list[Request]:
        """The remediations whose status tells of this machine; at rest there is none."""
        return [
            Request(each.metadata.namespace, each.metadata.name)
            for each in self.remediations.reader.list(machine.metadata.namespace)
            if concerns(each, machine)
        ]

    def zones(self) -> set[str]:
        """The zones of the flags, of every machine and of every Host: a host is found wherever it was claimed, also when the
        last machine there is gone.
        """
        named = (machine.spec.zone for machine in self.machines.reader.list())
        known = (host.spec.zone for host in self.hosts.reader.list() if host.spec.zone)
        return {*self._settings.zones, *named, *known}


def _fits(machine: Machine, host: Host) -> bool:
    return machine.spec.zone == host.spec.zone and machine.spec.type == host.status.type


def _asks_otherwise(change: CacheChange[RemediationObject]) -> bool:
    """Whether a remediation came or went, or something but its status changed."""
    old, new = change.old, change.new
    return old is None or new is None or (old.spec, _marks(old)) != (new.spec, _marks(new))


def _marks(remediation: RemediationObject) -> tuple[object, ...]:
    meta = remediation.metadata
    return meta.deletion_timestamp, meta.annotations, meta.owner_references


def _comes_goes_or_turns(change: CacheChange[Node]) -> bool:
    """Whether a Node came, went, or is ready where it was not, or the other way round. Heartbeats are none of these."""
    old, new = change.old, change.new
    return old is None or new is None or _said(old) != _said(new)


def _said(node: Node) -> str:
    return next((each.status for each in node.status.conditions if each.type == "Ready"), "")
