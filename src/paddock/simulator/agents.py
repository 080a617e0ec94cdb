"""The node agents of the simulated Macs: where a Mac's launchd runs the agent's job, the shipped agent's code runs.

Each agent has what its Mac has: the arguments of its job, read by the shipped command line, the kubeconfig that the bootstrap
put there, a journal on that Mac's disk, and that Mac's Tart. An agent ends with its job; VMs outlive it, and end with the
Mac's power.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx2

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack, end
from paddock.base.tls import default_tls
from paddock.kube import config as kube_config
from paddock.kube.client import Client
from paddock.kube.metrics import KubeMetrics
from paddock.node.agent import Agent, World
from paddock.node.certificate import CertificateRenewal, RotatingIdentity
from paddock.node.files import DiskFiles
from paddock.node.kube_link import KubernetesLink
from paddock.node.metrics import AgentMetrics
from paddock.node.settings import AgentSettings
from paddock.simulator.agent_payload import DISPATCH, LABEL
from paddock.simulator.github.sessions import RunnerSession
from paddock.simulator.mac import Fleet, SimulatedMac
from paddock.simulator.mac.disk import Disk
from paddock.simulator.pods import Hang, RunnerFaults, RunnerPace
from paddock.simulator.tart import GuestPace, SimulatedHost, SimulatedRunner, TartPace
from paddock.simulator.tart.kept_disk import KeptDisk, KeptTart

__all__ = ["Addresses", "AgentCommand", "AgentParser", "AgentWorld", "SimulatedAgents", "dispatch_clients"]

log = get_logger("simulated agents")
_LOOK_EVERY: Final = 0.5
_THROTTLE: Final = 10.0
"""launchd starts a job that ended again after so many seconds."""


class _Lossy(httpx2.AsyncBaseTransport):
    """The way to dispatch, on which an answer with a job can be lost."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, faults: RunnerFaults) -> None:
        self._inner = inner
        self._faults = faults

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.status_code == 200 and self._faults.take(Hang.LOSES_ANSWER) is not None:
            await response.aclose()
            raise httpx2.ReadError("the answer was lost on its way")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def dispatch_clients(faults: RunnerFaults) -> Callable[[], httpx2.AsyncClient]:
    """Makes clients for conversations with dispatch; all share one TLS context, which costs megabytes by itself."""
    tls = default_tls()

    def client() -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)
        return httpx2.AsyncClient(transport=_Lossy(transport, faults), trust_env=False)

    return client


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """What the arguments of an agent's job mean."""

    kubeconfig: str
    settings: AgentSettings


AgentParser = Callable[[Sequence[str]], AgentCommand]
"""Reads the arguments of an agent's job, without the program; the shipped one is `paddock.cli.node_agent.agent_command`.
Raises whatever a wrong command line makes of it: the agent ends, and launchd starts it again."""


@dataclass(slots=True)
class Addresses:
    """Where the Kubernetes API and dispatch are now, whatever port they had when a Mac was told: they stand for the names that
    would lead there. An agent is started once they are known, and again when they change.
    """

    api: str = ""
    dispatch_url: str = ""


@dataclass(frozen=True, slots=True)
class AgentWorld:
    """What the agents and VMs of all Macs share. `connect` brings a runner online at the simulated GitHub."""

    addresses: Addresses
    command: AgentParser
    dispatch: Callable[[], httpx2.AsyncClient]
    connect: Callable[[str], RunnerSession]
    runner_faults: RunnerFaults
    clock: Clock
    rng: random.Random
    pace: RunnerPace = field(default_factory=RunnerPace)


@dataclass(slots=True)
class _Inside:
    """What is inside one install of one Mac beside its disk, and the agent that runs there now."""

    mac: SimulatedMac
    install: int
    boots: int
    mac_disk: Disk
    disk: KeptDisk
    host: SimulatedHost
    tart: KeptTart
    task: asyncio.Task[None] | None = None
    pid: int | None = None
    reaches: tuple[str, str] = ("", "")
    again_at: float = float("inf")

    def dark(self) -> None:
        """The power is gone: agent and VMs end there and then, and GitHub loses the runners' connections."""
        self.tart.power_off()
        if self.task is not None:
            self.task.cancel()

    def session_ended(self) -> None:
        """VMs belong to the user's session, and end with it."""
        for name in self.tart.running():
            self.tart.crash(name)

    async def end_agent(self) -> None:
        """The job ended. VMs go on."""
        if self.task is not None:
            await end(self.task)
        self.task, self.pid = None, None

    async def end(self) -> None:
        self.dark()
        await self.end_agent()
        if self.dark in self.mac.on_power_off:
            self.mac.on_power_off.remove(self.dark)
            self.mac.on_session_end.remove(self.session_ended)


class SimulatedAgents:
    """Starts and ends an agent on each Mac as its launchd does. Ending it is a power cut for all Macs."""

    def __init__(self, fleet: Fleet, installed: Callable[[], Iterable[str]], world: AgentWorld) -> None:
        """`installed` names the hosts whose Macs an earlier process left behind: they come up by themselves."""
        self._fleet = fleet
        self._installed = installed
        self._world = world
        self._inside: dict[str, _Inside] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            for host in self._installed():
                _ = self._fleet.mac(host).disk  # a Mac boots when somebody first looks at its disk
                await asyncio.sleep(0)
            while True:
                await self._look()
                await self._world.clock.sleep(_LOOK_EVERY)
        finally:
            await asyncio.gather(*(inside.end() for inside in self._inside.values()))
            self._inside.clear()

    def running(self) -> list[str]:
        """The Macs on which an agent runs."""
        return sorted(name for name, each in self._inside.items() if each.task is not None and not each.task.done())

    async def _look(self) -> None:
        macs = {mac.name: mac for mac in self._fleet.macs}
        for name, inside in list(self._inside.items()):
            if macs.get(name) is not inside.mac or inside.install != inside.mac.install:
                await inside.end()
                del self._inside[name]
        for mac in macs.values():
            await self._follow(mac)

    async def _follow(self, mac: SimulatedMac) -> None:
        inside = self._inside.get(mac.name)
        job = mac.job(LABEL) if mac.powered else None
        if job is None or job.pid is None:
            if inside is not None:
                await inside.end_agent()
            return
        addresses = self._world.addresses
        reaches = (addresses.api, addresses.dispatch_url)
        if not addresses.api:
            return  # Paddock has not been here yet
        if inside is None:
            inside = self._inside[mac.name] = self._made(mac, self._data(mac, job.program[1:]))
        if inside.boots != mac.boots:
            await inside.end_agent()
            inside.boots = mac.boots
            inside.tart.power_on()
        inside.host.no_session = "" if mac.session else f"user {mac.username} has no Aqua session on the console"
        now = self._world.clock.monotonic()
        if inside.task is not None and inside.task.done() and inside.again_at == float("inf"):
            inside.again_at = now + _THROTTLE
        if inside.task is None or inside.pid != job.pid or inside.reaches != reaches or now >= inside.again_at:
            await inside.end_agent()
            inside.pid, inside.reaches, inside.again_at = job.pid, reaches, float("inf")
            inside.task = asyncio.create_task(self._agent(inside, job.program[1:]), name=f"node agent on {mac.name}")

    def _data(self, mac: SimulatedMac, arguments: Sequence[str]) -> Path:
        try:
            return self._world.command(arguments).settings.data
        except Exception:  # noqa: BLE001 - what is wrong with the command line is said when the agent is started with it
            return Path(f"/Users/{mac.username}/.paddock/node")

    def _made(self, mac: SimulatedMac, data: Path) -> _Inside:
        world, pace = self._world, self._world.pace
        mac_disk = mac.disk
        disk = KeptDisk(mac_disk, data)
        # A Mac comes up as after a reboot when the simulation is started again: the number says which boot it is.
        host = SimulatedHost(mac.name, world.clock, address=mac.address, boots=int(world.clock.now().timestamp()))
        tart = KeptTart(
            disk,
            host,
            SimulatedRunner(world.connect, world.clock, world.rng, pace, world.runner_faults),
            clock=world.clock,
            rng=world.rng,
            pace=_scaled(TartPace(), pace.speed),
            guest_pace=_scaled(GuestPace(), pace.speed),
        )
        tart.keep(disk, data / "tart.json")
        inside = _Inside(mac, mac.install, mac.boots, mac_disk, disk, host, tart)
        mac.on_power_off.append(inside.dark)
        mac.on_session_end.append(inside.session_ended)
        mac.virtual_machines = lambda: len(tart.running())
        return inside

    async def _agent(self, inside: _Inside, arguments: Sequence[str]) -> None:
        """One life of one agent, put together as `paddock node-agent` does."""
        try:
            await self._live(inside, self._world.command(arguments))
        except Exception as error:  # noqa: BLE001 - the end of a process, whatever it died of: launchd starts it again
            log.warning("a node agent ended; launchd starts it again", mac=inside.mac.name, why=str(error))

    async def _live(self, inside: _Inside, command: AgentCommand) -> None:
        world = self._world
        api, dispatch_url = inside.reaches
        settings = command.settings
        if settings.dispatch_url == DISPATCH:
            settings = replace(settings, dispatch_url=dispatch_url)
        kubeconfig = inside.mac_disk.at(command.kubeconfig)
        connection = kube_config.from_kubeconfig(kubeconfig, clock=world.clock)
        connection = replace(connection, server=api)
        identity = await connection.credentials.current()
        rotating = RotatingIdentity(identity) if identity.certificate else None
        if rotating is not None:
            connection = replace(connection, credentials=rotating)
        metrics = AgentMetrics()
        kube_metrics = KubeMetrics(metrics.registry)
        async with Client(connection, metrics=kube_metrics, pool=2) as client, TaskStack() as tasks:
            if rotating is not None:
                renewal = CertificateRenewal(
                    client,
                    rotating,
                    kubeconfig,
                    DiskFiles(),
                    node_name=settings.node_name,
                    clock=world.clock,
                    rng=world.rng,
                    metrics=metrics,
                )
                tasks.start(keep_running("certificate", renewal.run, world.clock, world.rng))
            link = KubernetesLink(
                client,
                world.dispatch,
                settings,
                clock=world.clock,
                rng=world.rng,
                metrics=metrics,
                kube_metrics=kube_metrics,
            )
            around = World(link, inside.tart, inside.host, inside.disk, world.clock, world.rng)
            await Agent(around, settings, metrics=metrics).run()


def _scaled(pace: Any, speed: float) -> Any:
    """The same pace in a world that is so many times faster."""
    return replace(pace, **{name: getattr(pace, name) / speed for name in pace.__dataclass_fields__})
