"""Everything on one machine: Postgres, the API, the controllers, dispatch and the page, started in order and stopped in reverse."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from paddock.base.chance import unseeded
from paddock.base.clock import SystemClock
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import definitions
from paddock.embedded.fault_panel import SimulatedFaults
from paddock.embedded.folder import DataFolder
from paddock.embedded.host_half import SimulatedHosts, host_half
from paddock.embedded.house import House, Options, in_background
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.listening import Tls, bind, listening
from paddock.embedded.outage import Outage
from paddock.embedded.postgres import EmbeddedPostgres, GivenPostgres, PostgresServer
from paddock.embedded.runner_half import RunnerHalf, runner_half
from paddock.embedded.store.postgres import PostgresStore
from paddock.hosts.roles import node_role
from paddock.kube import config as kube_config
from paddock.kube.client import Client
from paddock.kube.manager import Manager
from paddock.web.actions import Actor
from paddock.web.app import Pages, create_app
from paddock.web.doorkeeper import Doorkeeper
from paddock.web.front import front_parts
from paddock.web.ledger_reader import LedgerReader
from paddock.web.live import Live
from paddock.web.runbooks import Runbooks
from paddock.web.shell import Site
from paddock.web.watched import Sources, Watched

__all__ = ["Options", "Running", "all_in_one"]

_GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """Where everything is, once it runs."""

    page: str
    api: str
    kubeconfig: Path


@asynccontextmanager
async def all_in_one(options: Options) -> AsyncIterator[Running]:
    """Run everything for as long as the block does. What was started last stops first.

    The order is what makes a clean stop possible: the page and the controllers go before the API they talk to, the API
    before the store, the store before Postgres.
    """
    clock, chance = SystemClock(), unseeded()
    async with AsyncExitStack() as stack:
        house = House(options, clock, chance, DataFolder(options.data), stack)
        house.folder.make()
        page_socket = bind(options.port, "--port")
        outside = urlsplit(options.api_server_url).hostname or ""
        # Macs are elsewhere: where they are told an address, the API must be reachable there. It is TLS and tokens only.
        kube_socket = bind(options.kube_port, "--kube-port", "0.0.0.0" if outside else "127.0.0.1")  # noqa: S104
        stack.callback(page_socket.close)
        stack.callback(kube_socket.close)
        house.page = f"http://127.0.0.1:{page_socket.getsockname()[1]}"
        store = await _store(house)
        # After the database has taken the folder: a second start must not renew the files of the one that runs.
        certificates = Certificates.ensure(house.folder.certificates, clock.now(), outside)
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
        house.client = await stack.enter_async_context(Client(kube_config.from_kubeconfig(house.folder.kubeconfig)))
        page = await _halves_and_page(house)
        await stack.enter_async_context(listening(page, page_socket))
        settings = options.settings
        house.folder.say_where(
            api=url,
            page=house.page,
            sweeping={
                "pool_prefix": settings.default_adopt_pool_prefix,
                "claim_name_prefix": settings.claim_name_prefix,
            },
        )
        yield Running(f"{house.page}/", url, house.folder.kubeconfig)


async def _store(house: House) -> PostgresStore:
    server: PostgresServer = (
        GivenPostgres(house.options.dsn)
        if house.options.dsn
        else EmbeddedPostgres(house.folder.postgres, clock=house.clock, chance=house.chance)
    )
    await server.start()
    house.stack.push_async_callback(server.stop)
    house.dsn = server.dsn
    return await house.stack.enter_async_context(
        await PostgresStore.open(server.dsn, clock=house.clock, chance=house.chance)
    )


async def _halves_and_page(house: House) -> ASGIApp:
    manager = Manager(clock=house.clock, chance=house.chance, metrics=house.metrics, grace=_GRACE)
    hosts, simulated = await host_half(house, manager)
    runners = await runner_half(house, manager)
    sources = Sources.of(
        house.client,
        house.clock,
        house.chance,
        house.metrics,
        hosts=hosts.hosts,
        machines=hosts.machines,
        fleets=hosts.fleets,
    )
    for informer in sources.own:
        manager.add_informer(informer)
    ledger = LedgerReader(runners.service, house.clock, house.registry) if runners is not None else None
    watched = Watched(sources, house.clock, ledger=ledger, told=hosts.inventory.problems.values)
    runbooks = Runbooks()
    live = Live(lambda: front_parts(watched.seen(), runbooks.href), house.clock, f"{house.chance.getrandbits(32):08x}")
    watched.on_change(live.touch)
    await in_background(house, "controllers", manager.run)
    if ledger is not None:
        await in_background(house, "page's ledger", lambda: ledger.run(live.touch))
    await in_background(house, "live page", live.run)
    house.stack.callback(live.end)
    outage = Outage(house.clock)
    faults = _faults(house, watched, simulated, runners, outage)
    where = "simulated cloud" if house.options.simulate else "Scaleway"
    return create_app(
        Pages(
            watched,
            live,
            Site(
                f"{where} · {', '.join(house.options.settings.zones)}",
                simulated=house.options.simulate,
                faults=faults is not None,
                actions=True,
            ),
            # A simulation listens on loopback and can break nothing real: nobody has to fetch a token to try it.
            Doorkeeper(house.folder.action_token(), house.clock, house.chance, open_house=house.options.simulate),
            Actor(house.client, hosts.tools.recorder),
            faults,
            runbooks,
            house.options.settings.default_adopt_pool_prefix,
        ),
        house.registry,
        healthy=lambda: None if (health := manager.readyz()).ok else health.text,
        more=[*outage.behind(runners.service.routes), *runners.service.readable] if runners is not None else (),
    )


def _faults(
    house: House, watched: Watched, hosts: SimulatedHosts | None, runners: RunnerHalf | None, outage: Outage
) -> SimulatedFaults | None:
    if hosts is None:
        return None
    faults = SimulatedFaults(
        house.client,
        watched.seen,
        hosts,
        runners.twins if runners is not None else None,
        outage,
        healing=house.options.dispatch.healing,
        reclaims=bool(house.options.settings.claim_name_prefix),
        clock=house.clock,
        chance=house.chance,
    )
    house.stack.push_async_callback(faults.stop)
    return faults
