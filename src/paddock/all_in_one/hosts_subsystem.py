"""The host subsystem in `paddock up`: the cloud and the Macs, real or simulated, and the controllers over them."""

import asyncio
import os
from dataclasses import dataclass, replace

from paddock.all_in_one.application import Application, in_background
from paddock.clients.scaleway import Cloud, ScalewayClient, ScalewaySettings
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.contract import Bootstrapper
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.node_access import NodeAccess, NodeAccessSettings
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.kube.manager import Manager
from paddock.simulator.agents import with_node_agent
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet
from paddock.simulator.outside import SimulatedWorld, first_fleet, keep_saved, open_cloud, open_macs

__all__ = ["SimulatedHosts", "hosts_subsystem"]


@dataclass(frozen=True, slots=True)
class SimulatedHosts:
    """The simulators of the host subsystem, for the fault panel."""

    world: SimulatedWorld
    cloud: SimulatedCloud
    macs: Fleet

    def installed(self) -> list[str]:
        """The hosts whose Macs have a disk from before."""
        return [host.id for host in self.cloud.hosts() if (self.world.macs / host.id / "disk.json").is_file()]


async def hosts_subsystem(application: Application, manager: Manager) -> tuple[HostOperator, SimulatedHosts | None]:
    """Adds the controllers of the host subsystem to the manager."""
    simulators = None
    if application.options.simulate:
        cloud, bootstrapper, simulators = await _simulated(application)
    else:
        cloud, bootstrapper = await _real(application)
    operator = HostOperator(
        manager,
        application.client,
        cloud,
        bootstrapper,
        application.options.settings,
        clock=application.clock,
        rng=application.rng,
        metrics=application.metrics,
    )
    return operator, simulators


async def _real(application: Application) -> tuple[Cloud, Bootstrapper]:
    settings = replace(
        ScalewaySettings.from_env(os.environ), request_timeout=application.options.settings.request_timeout
    )
    cloud = await application.stack.enter_async_context(ScalewayClient(settings, application.clock, application.rng))
    return cloud, _bootstrapper(application, cloud, AsyncSsh(), application.options.fleet)


async def _simulated(application: Application) -> tuple[Cloud, Bootstrapper, SimulatedHosts]:
    """A cloud and its Macs in this process; they are kept across restarts."""
    options, clock = application.options, application.clock
    world = SimulatedWorld(
        application.folder.root,
        options.hosts,
        options.speed,
        options.seed,
        options.settings.zones,
        options.settings.default_adopt_pool_prefix,
    )
    simulated = await asyncio.to_thread(open_cloud, world, clock, application.rng)
    settings = replace(simulated.settings(), request_timeout=options.settings.request_timeout)
    cloud = await application.stack.enter_async_context(
        ScalewayClient(settings, clock, application.rng, transport=simulated.transport())
    )
    macs = open_macs(world, simulated, clock, application.rng)
    application.stack.push_async_callback(macs.stop)
    if not simulated.hosts():
        await first_fleet(world, simulated, application.client, cloud, options.settings)
    await in_background(application, "simulated cloud", simulated.run)
    await in_background(application, "simulation save", lambda: keep_saved(world.file, simulated.to_json, clock))
    fleet = with_node_agent(options.fleet, application.folder.root / "agent")
    return cloud, _bootstrapper(application, cloud, macs.ssh(), fleet), SimulatedHosts(world, simulated, macs)


def _bootstrapper(application: Application, cloud: Cloud, ssh: Ssh, fleet: FleetConfig) -> Bootstrapper:
    settings, client, clock, rng = application.options.settings, application.client, application.clock, application.rng
    endpoint = ApiEndpoint(application.options.api_server_url or client.config.server, client.config.ca)
    identities = NodeAccessSettings(cluster_role=NODE_ROLE, own_namespace=settings.namespace)
    access = NodeAccess(client, clock, rng, endpoint, identities)
    return FleetBootstrapper(
        BootstrapContext(client=client, cloud=cloud, ssh=ssh, clock=clock, rng=rng, access=access),
        fleet,
        port=application.options.ssh_port,
        sequencing=Sequencing(clock, rng, parallel=settings.workers, spread=settings.bootstrap_spread),
    )
