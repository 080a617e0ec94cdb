"""Everything on one machine: Postgres, the API, the controllers and the page, started in order and stopped in reverse."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.types import ASGIApp

from paddock.base.chance import unseeded
from paddock.base.clock import Clock, SystemClock
from paddock.base.logs import get_logger
from paddock.base.metrics import CollectorRegistry
from paddock.base.supervise import keep_running
from paddock.clients.scaleway import Cloud, ScalewayClient, ScalewaySettings
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import definitions
from paddock.embedded.folder import DataFolder
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.listening import Tls, bind, listening
from paddock.embedded.postgres import EmbeddedPostgres, GivenPostgres, PostgresServer
from paddock.embedded.store.postgres import PostgresStore
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import FleetBootstrapper
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.controllers.tools import Bootstrapper
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE, node_role
from paddock.hosts.settings import HostSettings
from paddock.kube import config as kube_config
from paddock.kube.client import Client
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.simulator.node import NodeTwins, with_simulated_agent
from paddock.simulator.outside import SimulatedWorld, first_fleet, keep_saved, open_cloud, open_macs
from paddock.web.app import create_app
from paddock.web.live import Live
from paddock.web.pages import fragments
from paddock.web.watched import Watched

__all__ = ["Options", "Running", "all_in_one"]

log = get_logger("up")
_GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """What `paddock up` was asked for."""

    data: Path = Path(".paddock")
    port: int = 8080
    kube_port: int = 8443
    dsn: str = ""
    simulate: bool = False
    hosts: int = 20
    speed: float = 30.0
    seed: int | None = None
    fleet: FleetConfig = field(default_factory=FleetConfig)
    settings: HostSettings = field(
        default_factory=lambda: HostSettings(default_adopt_pool_prefix="tuist-pool-", lease_duration=0.0)
    )


@dataclass(frozen=True, slots=True)
class Running:
    """Where everything is, once it runs."""

    page: str
    api: str
    kubeconfig: Path


@dataclass(frozen=True, slots=True)
class _Outside:
    """What is not ours: the cloud, and the way to the Macs."""

    cloud: Cloud
    bootstrapper: Bootstrapper


@dataclass(slots=True)
class _House:
    """What the rooms share while the house is open."""

    options: Options
    clock: Clock
    chance: random.Random
    folder: DataFolder
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)


@asynccontextmanager
async def all_in_one(options: Options) -> AsyncIterator[Running]:
    """Run everything for as long as the block does. What was started last stops first.

    The order is what makes a clean stop possible: the page and the controllers go before the API they talk to, the API
    before the store, the store before Postgres.
    """
    clock = SystemClock()
    chance = unseeded()
    house = _House(options, clock, chance, DataFolder(options.data))
    house.folder.make()
    page_socket = bind(options.port, "--port")
    kube_socket = bind(options.kube_port, "--kube-port")
    async with AsyncExitStack() as stack:
        stack.callback(page_socket.close)
        stack.callback(kube_socket.close)
        store = await _store(house, stack)
        # After the database has taken the folder: a second start must not renew the files of the one that runs.
        certificates = Certificates.ensure(house.folder.certificates, clock.now())
        plane = ControlPlane(
            store,
            clock,
            chance,
            admin_token=house.folder.admin_token(),
            signing_key=house.folder.signing_key(),
            definitions=definitions(),
            roles=[node_role()],
        )
        await stack.enter_async_context(
            listening(plane.app, kube_socket, Tls(certificates.certificate, certificates.key))
        )
        await stack.enter_async_context(plane.running())
        url = f"https://127.0.0.1:{kube_socket.getsockname()[1]}"
        write_kubeconfig(
            house.folder.kubeconfig, url=url, authority=certificates.authority, token=house.folder.admin_token()
        )
        client = await stack.enter_async_context(Client(kube_config.from_kubeconfig(house.folder.kubeconfig)))
        outside = await (_simulated(house, stack, client) if options.simulate else _real(house, stack, client))
        page = await _controllers_and_page(house, stack, client, outside)
        await stack.enter_async_context(listening(page, page_socket))
        page_url = f"http://127.0.0.1:{page_socket.getsockname()[1]}"
        house.folder.say_where(api=url, page=page_url)
        yield Running(f"{page_url}/", url, house.folder.kubeconfig)


async def _store(house: _House, stack: AsyncExitStack) -> PostgresStore:
    server: PostgresServer = (
        GivenPostgres(house.options.dsn)
        if house.options.dsn
        else EmbeddedPostgres(house.folder.postgres, clock=house.clock, chance=house.chance)
    )
    await server.start()
    stack.push_async_callback(server.stop)
    return await stack.enter_async_context(await PostgresStore.open(server.dsn, clock=house.clock, chance=house.chance))


async def _real(house: _House, stack: AsyncExitStack, client: Client) -> _Outside:
    settings = replace(ScalewaySettings.from_env(os.environ), request_timeout=house.options.settings.request_timeout)
    cloud = await stack.enter_async_context(ScalewayClient(settings, house.clock, house.chance))
    return _Outside(cloud, _bootstrapper(house, client, cloud, AsyncSsh(), house.options.fleet))


async def _simulated(house: _House, stack: AsyncExitStack, client: Client) -> _Outside:
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
    cloud = await stack.enter_async_context(ScalewayClient(settings, clock, house.chance, transport=twin.transport()))
    macs = open_macs(world, twin, clock, house.chance)
    stack.push_async_callback(macs.stop)
    if not twin.hosts():
        await first_fleet(world, twin, client, cloud, options.settings)
    await _background(house, stack, "simulated cloud", twin.run)
    await _background(house, stack, "simulated nodes", NodeTwins(macs, client, clock).run)
    await _background(house, stack, "simulation save", lambda: keep_saved(world, twin, clock))
    fleet = with_simulated_agent(options.fleet, house.folder.root / "agent")
    return _Outside(cloud, _bootstrapper(house, client, cloud, macs.ssh(), fleet))


def _bootstrapper(house: _House, client: Client, cloud: Cloud, ssh: Ssh, fleet: FleetConfig) -> Bootstrapper:
    settings = house.options.settings
    return FleetBootstrapper(
        client,
        cloud,
        ssh,
        fleet,
        clock=house.clock,
        chance=house.chance,
        endpoint=ApiEndpoint(client.config.server, client.config.ca),
        cluster_role=NODE_ROLE,
        sequencing=Sequencing(house.clock, house.chance, parallel=settings.workers, spread=settings.bootstrap_spread),
    )


async def _controllers_and_page(house: _House, stack: AsyncExitStack, client: Client, outside: _Outside) -> ASGIApp:
    metrics = KubeMetrics(house.registry)
    manager = Manager(clock=house.clock, chance=house.chance, metrics=metrics, grace=_GRACE)
    operator = HostOperator(
        manager,
        client,
        outside.cloud,
        outside.bootstrapper,
        house.options.settings,
        clock=house.clock,
        chance=house.chance,
        metrics=metrics,
    )
    watched = Watched(manager, operator, client, house.clock, house.chance, metrics)
    live = Live(lambda: {name: str(part) for name, part in fragments(watched.view()).items()}, house.clock)
    watched.on_change(live.touch)
    await _background(house, stack, "controllers", manager.run)
    await _background(house, stack, "live page", live.run)
    stack.callback(live.end)
    where = "simulated cloud" if house.options.simulate else "Scaleway"
    return create_app(
        watched.view,
        live,
        house.registry,
        healthy=lambda: None if (health := manager.readyz()).ok else health.text,
        hint=f"{where} · {', '.join(house.options.settings.zones)}",
    )


async def _background(house: _House, stack: AsyncExitStack, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Work that is restarted when it fails, and cancelled and awaited when its turn to stop comes."""
    task = asyncio.create_task(keep_running(name, work, house.clock, house.chance), name=name)

    async def stop() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(stop)
