"""The host subsystem in `paddock up`: the cloud and the Macs, real or simulated, and the controllers over them."""

import os
from dataclasses import replace

from paddock.all_in_one.application import Application
from paddock.base.secrets import Secret
from paddock.clients.scaleway import Cloud, ScalewayClient, ScalewaySettings
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.contract import Bootstrapper
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.node_access import NodeAccess, NodeAccessSettings
from paddock.hosts.disruption import WorkLedger
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.kube.manager import Manager
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.first_objects import FLEET, SERVER_TYPE, first_fleet
from paddock.simulator.world.messages import PoolOrder

__all__ = ["hosts_subsystem"]


async def hosts_subsystem(application: Application, manager: Manager, work: WorkLedger | None) -> HostOperator:
    """Adds the controllers of the host subsystem to the manager; `work` knows the jobs that no Pod shows."""
    cloud, bootstrapper = await (_real if application.world is None else _simulated)(application)
    return HostOperator(
        manager,
        application.client,
        cloud,
        bootstrapper,
        application.options.settings,
        work=work,
    )


async def _real(application: Application) -> tuple[Cloud, Bootstrapper]:
    settings = replace(
        ScalewaySettings.from_env(os.environ), request_timeout=application.options.settings.request_timeout
    )
    cloud = await application.stack.enter_async_context(ScalewayClient(settings, application.clock, application.rng))
    return cloud, _bootstrapper(application, cloud, AsyncSsh(), application.options.fleet)


async def _simulated(application: Application) -> tuple[Cloud, Bootstrapper]:
    """The same clients, with the simulated world at their other end."""
    assert application.world is not None
    options, world = application.options, application.world
    view = await world.ready()
    settings = ScalewaySettings(
        secret_key=Secret(view.secret_key),
        project_id=view.project_id,
        access_key="SCWSIMULATED00000000",
        api_url="http://127.0.0.1",
        request_timeout=options.settings.request_timeout,
    )
    cloud = await application.stack.enter_async_context(
        ScalewayClient(settings, application.clock, application.rng, transport=world.client.scaleway())
    )
    await _first_hosts(application, cloud)
    fleet = with_node_agent(options.fleet, application.folder.root / "agent")
    return cloud, _bootstrapper(application, cloud, world.client.ssh(), fleet)


async def _first_hosts(application: Application, cloud: Cloud) -> None:
    """A pool of hosts and a fleet over it, once in the life of a data folder.

    Key, pool, fleet, note: each can be repeated, and until the note is there all of them are. The key is registered before the
    hosts are delivered, because keys reach a Mac at delivery only.
    """
    assert application.world is not None
    done = application.folder.root / "first-fleet"
    if done.exists():
        return
    options, settings = application.options, application.options.settings
    await FleetKeys(application.client, cloud, namespace=settings.namespace).ensure(FLEET)
    await application.world.client.pool(
        PoolOrder(options.hosts, list(settings.zones), settings.default_adopt_pool_prefix, SERVER_TYPE)
    )
    await first_fleet(application.client, settings.namespace, options.hosts, settings.zones[0])
    done.touch()


def _bootstrapper(application: Application, cloud: Cloud, ssh: Ssh, fleet: FleetConfig) -> Bootstrapper:
    settings, client, clock, rng = application.options.settings, application.client, application.clock, application.rng
    endpoint = ApiEndpoint(application.options.api_server_url or client.config.server, client.config.ca)
    identities = NodeAccessSettings(cluster_role=NODE_ROLE, own_namespace=settings.namespace, judges_machines=True)
    access = NodeAccess(client, clock, rng, endpoint, identities)
    return FleetBootstrapper(
        BootstrapContext(client=client, cloud=cloud, ssh=ssh, clock=clock, rng=rng, access=access),
        fleet,
        port=application.options.ssh_port,
        sequencing=Sequencing(clock, rng, parallel=4 * settings.workers, spread=settings.bootstrap_spread),
    )
