"""The host half in `paddock up`: the cloud and the Macs, real or simulated, and the controllers over them."""

import asyncio
import os
from dataclasses import dataclass, replace

from paddock.clients.scaleway import Cloud, ScalewayClient, ScalewaySettings
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.embedded.house import House, in_background
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import FleetBootstrapper
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.controllers.tools import Bootstrapper
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.kube.manager import Manager
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet
from paddock.simulator.node import NodeTwins, with_simulated_agent
from paddock.simulator.outside import SimulatedWorld, first_fleet, keep_saved, open_cloud, open_macs

__all__ = ["SimulatedHosts", "host_half"]


@dataclass(frozen=True, slots=True)
class SimulatedHosts:
    """The twins of the host half, for whoever wants to break them."""

    world: SimulatedWorld
    cloud: SimulatedCloud
    macs: Fleet


async def host_half(house: House, manager: Manager) -> tuple[HostOperator, SimulatedHosts | None]:
    """Adds the controllers of the host half to the manager."""
    twins = None
    if house.options.simulate:
        cloud, bootstrapper, twins = await _simulated(house)
    else:
        cloud, bootstrapper = await _real(house)
    operator = HostOperator(
        manager,
        house.client,
        cloud,
        bootstrapper,
        house.options.settings,
        clock=house.clock,
        chance=house.chance,
        metrics=house.metrics,
    )
    return operator, twins


async def _real(house: House) -> tuple[Cloud, Bootstrapper]:
    settings = replace(ScalewaySettings.from_env(os.environ), request_timeout=house.options.settings.request_timeout)
    cloud = await house.stack.enter_async_context(ScalewayClient(settings, house.clock, house.chance))
    return cloud, _bootstrapper(house, cloud, AsyncSsh(), house.options.fleet)


async def _simulated(house: House) -> tuple[Cloud, Bootstrapper, SimulatedHosts]:
    """A cloud and its Macs in this process; they are kept across restarts."""
    options, clock = house.options, house.clock
    world = SimulatedWorld(
        house.folder.root,
        options.hosts,
        options.speed,
        options.seed,
        options.settings.zones,
        options.settings.default_adopt_pool_prefix,
    )
    twin = await asyncio.to_thread(open_cloud, world, clock, house.chance)
    settings = replace(twin.settings(), request_timeout=options.settings.request_timeout)
    cloud = await house.stack.enter_async_context(
        ScalewayClient(settings, clock, house.chance, transport=twin.transport())
    )
    macs = open_macs(world, twin, clock, house.chance)
    house.stack.push_async_callback(macs.stop)
    if not twin.hosts():
        await first_fleet(world, twin, house.client, cloud, options.settings)
    await in_background(house, "simulated cloud", twin.run)
    await in_background(house, "simulated nodes", NodeTwins(macs, house.client, clock).run)
    await in_background(house, "simulation save", lambda: keep_saved(world.file, twin.to_json, clock))
    fleet = with_simulated_agent(options.fleet, house.folder.root / "agent")
    return cloud, _bootstrapper(house, cloud, macs.ssh(), fleet), SimulatedHosts(world, twin, macs)


def _bootstrapper(house: House, cloud: Cloud, ssh: Ssh, fleet: FleetConfig) -> Bootstrapper:
    settings, client = house.options.settings, house.client
    return FleetBootstrapper(
        client,
        cloud,
        ssh,
        fleet,
        clock=house.clock,
        chance=house.chance,
        endpoint=ApiEndpoint(house.options.api_server_url or client.config.server, client.config.ca),
        cluster_role=NODE_ROLE,
        sequencing=Sequencing(house.clock, house.chance, parallel=settings.workers, spread=settings.bootstrap_spread),
    )
