"""Everything on one machine: Postgres, the API, the controllers, dispatch and the page, started in order and stopped in reverse."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from paddock.all_in_one.application import Application, Options, in_background
from paddock.all_in_one.disk_space import DiskSpace
from paddock.all_in_one.fault_panel import FaultContext, SimulatedFaults
from paddock.all_in_one.hosts_subsystem import hosts_subsystem
from paddock.all_in_one.outage import Outage
from paddock.all_in_one.own_files import OwnFiles
from paddock.all_in_one.runners_subsystem import RunnersSubsystem, runners_subsystem
from paddock.all_in_one.world_process import WorldProcess
from paddock.base.clock import SystemClock
from paddock.base.event_loop import report_turns
from paddock.base.http_server import Tls, bind, listening
from paddock.base.rng import unseeded
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.api.http import ApiServer
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import definitions
from paddock.embedded.folder import DataFolder
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.postgres import EmbeddedPostgres, GivenPostgres, PostgresServer
from paddock.embedded.store.postgres import PostgresStore
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.roles import cluster_identity, node_roles, renewal_binding
from paddock.kube import config as kube_config
from paddock.kube.client import Client
from paddock.kube.manager import HealthProbes, Manager
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import concerns_route, writes_concern
from paddock.simulator.world.folder import WorldFolder
from paddock.simulator.world.messages import Attachment, WorldOptions
from paddock.views.dispatch_word import DispatchWord
from paddock.web.actions import Actor
from paddock.web.app import Pages, create_app
from paddock.web.front import front_parts
from paddock.web.ledger_reader import LedgerReader
from paddock.web.live import Live
from paddock.web.runbooks import Runbooks
from paddock.web.sampler import Sampler
from paddock.web.session_authentication import SessionAuthentication
from paddock.web.shell import Site
from paddock.web.watched import Sources, Watched

__all__ = ["Options", "Running", "all_in_one", "unwell"]

_GRACE = 1.0
_MACHINES = ScalewayAppleSiliconMachine.RESOURCE


@dataclass(frozen=True, slots=True)
class Running:
    """Where everything is, once it runs."""

    page: str
    api: str
    kubeconfig: Path
    failed: Callable[[], Awaitable[Exception]]
    """Waits until the store has failed for good, and says why: nothing works then but to stop and to start again."""


@asynccontextmanager
async def all_in_one(options: Options) -> AsyncIterator[Running]:
    """Run everything for as long as the block does. What was started last stops first.

    The order is what makes a clean stop possible: the page and the controllers go before the API they talk to, the API
    before the store, the store before Postgres.
    """
    clock, rng = SystemClock(), unseeded()
    async with AsyncExitStack() as stack:
        application = Application(options, clock, rng, DataFolder(options.data), stack)
        application.folder.make()
        report_turns(application.registry, "up")
        page_socket = bind(options.port, "--port")
        outside = urlsplit(options.api_server_url).hostname or ""
        # Macs are elsewhere: where they are told an address, the API must be reachable there. It is TLS, certificates and tokens only.
        kube_socket = bind(options.kube_port, "--kube-port", "0.0.0.0" if outside else "127.0.0.1")  # noqa: S104
        stack.callback(page_socket.close)
        stack.callback(kube_socket.close)
        application.page = f"http://127.0.0.1:{page_socket.getsockname()[1]}"
        _begin_world(application)
        store = await _store(application)
        # After the database has taken the folder: a second start must not take the world, nor renew the files, of the one that
        # runs.
        if application.world is not None:
            await application.world.start()
        certificates = Certificates.ensure(
            application.folder.certificates, clock.now(), outside, urlsplit(options.runner_url).hostname or ""
        )
        application.tls = Tls(certificates.certificate, certificates.key)
        plane = ControlPlane(
            store,
            clock,
            rng,
            admin_token=application.folder.admin_token(),
            signing_key=application.folder.signing_key(),
            definitions=definitions(),
            roles=[*node_roles(), renewal_binding(), *cluster_identity()],
            authority=ClientAuthority.of_folder(application.folder.certificates),
            machines=f"{_MACHINES.plural}.{_MACHINES.group}",
            node_lifecycle=True,
        )
        await stack.enter_async_context(
            listening(plane.app, kube_socket, Tls(certificates.certificate, certificates.key, certificates.authority))
        )
        await stack.enter_async_context(plane.running())
        url = f"https://127.0.0.1:{kube_socket.getsockname()[1]}"
        write_kubeconfig(
            application.folder.kubeconfig,
            url=url,
            authority=certificates.authority,
            token=application.folder.admin_token(),
        )
        # From here on a command finds whose API this is, also while the rest starts: nobody calls that an outage.
        settings = options.settings
        application.folder.say_where(
            api=url,
            page=application.page,
            sweeping={
                "pool_prefix": settings.default_adopt_pool_prefix,
                "claim_name_prefix": settings.claim_name_prefix,
            },
            macs=_told_to_macs(options),
        )
        application.client = await stack.enter_async_context(
            Client(kube_config.from_kubeconfig(application.folder.kubeconfig))
        )
        page, runners = await _halves_and_page(application, plane.app)
        await stack.enter_async_context(listening(page, page_socket))
        if application.world is not None:
            # Last, so that it ends first: agents and webhooks come once all is there, and go before anything does.
            stack.push_async_callback(application.world.detach)
            await application.world.attend(
                Attachment(url, application.page, str(application.folder.kubeconfig.resolve()))
            )
        if runners is not None:
            # Before the world: a claim that is being served is finished, and no answer is lost on the way to its Mac.
            stack.push_async_callback(runners.service.stop)
        yield Running(f"{application.page}/", url, application.folder.kubeconfig, store.failed)


def _begin_world(application: Application) -> None:
    options = application.options
    if not options.simulate:
        return
    application.world = WorldProcess(
        WorldFolder(options.data),
        WorldOptions(
            hosts=options.hosts,
            speed=options.speed,
            jobs=options.jobs,
            seed=options.seed,
            linger=options.world_linger,
        ),
        clock=application.clock,
        rng=application.rng,
    )
    application.stack.push_async_callback(application.world.stop)
    application.world.begin()


def _told_to_macs(options: Options) -> dict[str, object]:
    """What `paddock doctor` looks at: how real Macs reach us, and what they get. Nothing where they are simulated."""
    if options.simulate:
        return {}
    return {
        "api": options.api_server_url,
        "dispatch": options.runner_url,
        "agent": options.fleet.agent is not None,
        "tart": any(payload.name == "tart" for payload in options.fleet.payloads),
        "softnet": options.fleet.virtual_machines is not None and bool(options.fleet.virtual_machines.softnet),
        "github": bool(os.environ.get("PADDOCK_GITHUB_APP_ID")),
    }


async def _store(application: Application) -> PostgresStore:
    server: PostgresServer = (
        GivenPostgres(application.options.dsn)
        if application.options.dsn
        else EmbeddedPostgres(application.folder.postgres, clock=application.clock, rng=application.rng)
    )
    await server.start()
    application.stack.push_async_callback(server.stop)
    application.dsn = server.dsn
    store = await application.stack.enter_async_context(
        await PostgresStore.open(server.dsn, clock=application.clock, rng=application.rng)
    )
    space = DiskSpace(application.folder.root, application.clock)
    if not application.options.dsn:
        await in_background(application, "disk space", space.run)
    files = OwnFiles.of_this_process(application.clock)
    await in_background(application, "own files", files.run)
    application.concerns = lambda: [
        *writes_concern(store.refusals.standing(), "the database of the API", "nothing is claimed, made or healed"),
        *space.concerns(),
        *files.concerns(),
    ]
    return store


async def _halves_and_page(application: Application, api: ApiServer) -> tuple[ASGIApp, RunnersSubsystem | None]:
    if application.world is not None:
        application.stack.push_async_callback(application.world.begin_to_stop)
    manager = Manager(clock=application.clock, rng=application.rng, metrics=application.metrics, grace=_GRACE)
    runners = await runners_subsystem(application, manager)
    if runners is not None:
        api.logs.source = runners.service.ledger.runner_logs
    work = DispatchWord(runners.service.retirement) if runners is not None else None
    hosts = await hosts_subsystem(application, manager, work)
    sources = Sources.of(
        application.client,
        application.clock,
        application.rng,
        application.metrics,
        hosts=hosts.hosts,
        machines=hosts.machines,
        fleets=hosts.fleets,
    )
    for informer in sources.own:
        manager.add_informer(informer)
    ledger = LedgerReader(runners.service, application.clock) if runners is not None else None
    concerns = runners.service.concerns if runners is not None else application.concerns
    watched = Watched(
        sources, application.clock, ledger=ledger, told=hosts.inventory.problems.values, concerns=concerns
    )
    runbooks = Runbooks()
    live = Live(
        lambda: partial(front_parts, watched.seen(), runbooks.href),
        application.clock,
        f"{application.rng.getrandbits(32):08x}",
    )
    watched.on_change(live.touch)
    await in_background(application, "controllers", manager.run)
    if ledger is not None:
        await in_background(application, "page's ledger", lambda: ledger.run(live.touch))
    if runners is not None:
        service = runners.service
        sampler = Sampler(service.ledger, watched.complete, service.queue.summary, application.clock, who="paddock up")
        await in_background(application, "sampler", sampler.run)
    await in_background(application, "live page", live.run)
    application.stack.callback(live.end)
    outage = Outage(application.clock)
    faults = _faults(application, watched, outage)
    where = "simulated cloud" if application.options.simulate else "Scaleway"
    page = create_app(
        Pages(
            watched,
            live,
            Site(
                f"{where} · {', '.join(application.options.settings.zones)}",
                simulated=application.options.simulate,
                faults=faults is not None,
                actions=True,
            ),
            # A simulation listens on loopback and can break nothing real: nobody has to fetch a token to try it.
            SessionAuthentication(
                application.folder.action_token(),
                application.clock,
                application.rng,
                open_house=application.options.simulate,
            ),
            Actor(application.client, hosts.context.recorder),
            faults,
            runbooks,
            past=runners is not None,
        ),
        application.registry,
        healthy=lambda: unwell(manager.readyz(), concerns()),
        # What is gone answers nobody: neither Pods and GitHub, nor commands.
        more=()
        if runners is None
        else outage.behind([*runners.service.routes, *runners.service.readable, concerns_route(concerns)]),
    )
    return page, runners


def unwell(ready: HealthProbes, concerns: Sequence[Concern]) -> str | None:
    """What keeps it from its work, line by line; None where nothing does."""
    stops = [one.found for one in concerns if one.weight == "stops"]
    return "\n".join(stops if ready.ok else [ready.text, *stops]) or None


def _faults(application: Application, watched: Watched, outage: Outage) -> SimulatedFaults | None:
    if application.world is None:
        return None
    context = FaultContext(
        client=application.client,
        seen=watched.seen,
        order=application.world.client.fault,
        outage=outage,
        clock=application.clock,
        rng=application.rng,
        webhooks=application.options.job_source == "Webhook",
    )
    faults = SimulatedFaults(
        context,
        healing=application.options.dispatch.healing,
        reclaims=bool(application.options.settings.claim_name_prefix),
    )
    application.stack.push_async_callback(faults.stop)
    return faults
