"""The host half put together: which informers, controllers and sweeps one process runs.

`paddock operator` runs this against a cluster, `paddock up` against its own API: the same controllers, the same flags.
"""

import random
from dataclasses import dataclass

from paddock.base.clock import Clock
from paddock.clients.scaleway import Cloud
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.controllers.inventory import Inventory
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics

__all__ = ["HostOperator", "HostSettings"]


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The operator's flags, as values."""

    namespace: str = "default"
    default_adopt_pool_prefix: str = ""
    zones: tuple[str, ...] = ("fr-par-1",)
    claim_name_prefix: str = ""
    inventory_interval: float = 10.0


class HostOperator:
    """Adds the host half to a manager, and offers its caches to whoever shows them."""

    def __init__(
        self,
        manager: Manager,
        client: Client,
        cloud: Cloud,
        settings: HostSettings,
        *,
        clock: Clock,
        chance: random.Random,
        metrics: KubeMetrics,
    ) -> None:
        self.hosts = Informer(client, ScalewayAppleSiliconHost, clock=clock, chance=chance, metrics=metrics)
        self.machines = Informer(client, ScalewayAppleSiliconMachine, clock=clock, chance=chance, metrics=metrics)
        self._settings = settings
        self.inventory = Inventory(
            client,
            cloud,
            self.hosts.reader,
            self.machines.reader,
            clock,
            namespace=settings.namespace,
            zones=self.zones,
            pool_prefix=settings.default_adopt_pool_prefix,
            claim_name_prefix=settings.claim_name_prefix,
        )
        manager.add_informer(self.hosts)
        manager.add_informer(self.machines)
        manager.add_periodic("inventory", self.inventory.cycle, every=settings.inventory_interval)

    def zones(self) -> set[str]:
        """The zones of the flags and those of every machine: a host is found wherever it was claimed."""
        return {*self._settings.zones, *(machine.spec.zone for machine in self.machines.reader.list())}
