"""The Macs of the simulated cloud, each with the shipped agent on a simulated Tart; they live and die with the cloud's power."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from paddock.base.rng import seeded
from paddock.clients.scaleway import Credentials
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapped, ReportStep
from paddock.kube.client import Client
from paddock.node.agent import Agent
from paddock.node.agent import World as AgentWorld
from paddock.node.kube_link import KubernetesLink
from paddock.node.names import golden_name
from paddock.node.settings import AgentSettings
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.cloud.state import Host as CloudHost
from paddock.simulator.fake_macs import FakeBootstrap, FakeMacs
from paddock.simulator.github.sessions import RunnerSession
from paddock.simulator.pods import RunnerPace
from paddock.simulator.process import Process, World
from paddock.simulator.tart import GuestPace, SimulatedDisk, SimulatedHost, SimulatedRunner, SimulatedTart, TartPace
from paddock.simulator.tart.machines import _Machine

__all__ = ["InstallingBootstrap", "Mac", "Macs"]

_DATA = Path("/node")


@dataclass
class Mac:
    """One install of one Mac: what is on it is gone with the next wipe."""

    machine: ScalewayAppleSiliconMachine
    server_id: str
    install: int
    disk: SimulatedDisk
    host: SimulatedHost
    tart: SimulatedTart
    agent: Process | None = None

    @property
    def jobs(self) -> list[str]:
        """The VMs in which a job runs at this moment."""
        return [
            name
            for name, vm in self.tart.vms.items()
            if vm.running and vm.guest is not None and vm.guest.stage in ("starting", "running")
        ]


@dataclass
class Macs:
    """Every Mac with an agent, by server. `under_a_job` are the wipes, reboots and deletions that hit a Mac at work."""

    world: World
    cloud: SimulatedCloud
    client: Callable[[], Client]
    dispatch: Callable[[], httpx2.AsyncClient]
    connect: Callable[[str], RunnerSession]
    image: str
    pull: float = 120.0
    here: dict[str, Mac] = field(default_factory=dict)
    wiped: list[str] = field(default_factory=list)
    rebooted: list[str] = field(default_factory=list)
    under_a_job: list[str] = field(default_factory=list)
    installs: int = 0

    def __post_init__(self) -> None:
        self.cloud.on_power.append(self._power)
        self.cloud.on_delete.append(lambda host: self._dark(host, "deleted"))

    def install(self, machine: ScalewayAppleSiliconMachine, server_id: str) -> None:
        """The bootstrap has put the agent there, and launchd runs it; an agent that is there is started again."""
        server = self.cloud.state.hosts[server_id]
        mac = self.here.get(server_id)
        if mac is None or mac.install != server.install or mac.machine.metadata.uid != machine.metadata.uid:
            assert mac is None or not mac.tart.running(), "another tenant's VMs run there"
            mac = self.here[server_id] = self._made(machine, server)
        self._start(mac)

    def _made(self, machine: ScalewayAppleSiliconMachine, server: CloudHost) -> Mac:
        clock, rng = self.world.clock, self.world.rng(f"mac {server.id} {server.install}")
        host = SimulatedHost(server.id, clock, address=server.ip)
        disk = SimulatedDisk()
        runner = SimulatedRunner(self.connect, clock, rng, RunnerPace())
        tart = SimulatedTart(
            disk, host, runner, clock=clock, rng=rng, pace=TartPace(pull=self.pull), guest_pace=GuestPace()
        )
        return Mac(machine, server.id, server.install, disk, host, tart)

    def _start(self, mac: Mac) -> None:
        if mac.agent is not None and mac.agent.running:
            mac.agent.crash()
        self.installs += 1
        name = f"agent-{self.installs} on {mac.machine.metadata.name}"
        mac.agent = self.world.process(name, lambda: self._agent(mac, name), restart_after=10.0)

    async def _agent(self, mac: Mac, name: str) -> None:
        starts = self.world.processes[name].starts
        spec = mac.machine.spec
        settings = AgentSettings(
            node_name=mac.machine.metadata.name,
            data=_DATA,
            dispatch_url="http://dispatch",
            guest_script=b"#!/bin/sh\n",
            provider_id=spec.provider_id,
            tick=5.0,
            sweep_every=60.0,
            lease_every=20.0,
            labels={"tuist.dev/runtime": "tart"} | ({"tuist.dev/fleet": spec.fleet_name} if spec.fleet_name else {}),
        )
        rng = seeded(f"{name} {starts} of {self.world.seed}")
        link = KubernetesLink(self.client(), self.dispatch, settings, clock=self.world.clock, rng=rng)
        around = AgentWorld(link, mac.tart, mac.host, mac.disk, self.world.clock, rng)
        await Agent(around, settings).run()

    def all_off(self) -> None:
        """The end of the world: no VM is left running in it."""
        for mac in self.here.values():
            mac.tart.power_off()

    def kill_agent(self, server_id: str) -> None:
        """`kill -9`; launchd brings it back after ten seconds. VMs go on."""
        mac = self.here[server_id]
        assert mac.agent is not None
        mac.agent.crash()

    def hold(self, image: str) -> None:
        """Every Mac has this image already."""
        for mac in self.here.values():
            mac.tart.cache.add(image)
            mac.tart.vms[golden_name(image)] = _Machine(golden_name(image), image)

    # What the cloud does to them

    def _power(self, server: CloudHost, on: bool) -> None:
        if not on:
            self._dark(server, "wiped" if server.activity == "reinstalling" else "rebooted")
            return
        mac = self.here.get(server.id)
        if mac is not None and mac.install == server.install:
            mac.host.reboot()
            mac.host.no_session = "no user is logged in: a Mac without a display does not do so by itself"
            mac.tart.power_on()
            self._start(mac)

    def _dark(self, server: CloudHost, how: str) -> None:
        (self.rebooted if how == "rebooted" else self.wiped).append(server.id)
        mac = self.here.get(server.id)
        if mac is None:
            return
        if jobs := mac.jobs:
            self.under_a_job.append(f"{mac.machine.metadata.name} was {how} with {len(jobs)} jobs")
        mac.tart.power_off()
        if mac.agent is not None:
            self._end(mac.agent)
        if how != "rebooted":
            del self.here[server.id]

    def _end(self, agent: Process) -> None:
        agent._restart_after = None
        life = agent.life
        if life is not None:
            # Never from inside the very call that pulled the plug.
            asyncio.get_running_loop().call_soon(life.end)


class InstallingBootstrap(FakeBootstrap):
    """The bootstrap without SSH: what it leaves on the Mac is the agent."""

    def __init__(self, macs: Macs, fakes: FakeMacs) -> None:
        super().__init__(macs.world.clock, fakes, macs.cloud)
        self._real = macs

    async def kick_session(
        self,
        machine: ScalewayAppleSiliconMachine,
        host: ScalewayAppleSiliconHost,
        credentials: Credentials,
        progress: ReportStep,
    ) -> Bootstrapped | BootstrapFailed:
        done = await FakeBootstrap._work(self, machine, host, progress, credentials)
        mac = self._real.here.get(host.spec.server_id)
        if not isinstance(done, Bootstrapped) or mac is None or not mac.host.no_session:
            return done
        if mac.tart.running():
            return BootstrapFailed("kick-session", "a virtual machine runs, so that nobody is logged in anew")
        mac.host.no_session = ""
        return done

    async def _work(
        self,
        machine: ScalewayAppleSiliconMachine,
        host: ScalewayAppleSiliconHost,
        progress: ReportStep,
        login: Credentials | None = None,
    ) -> Bootstrapped | BootstrapFailed:
        done: Any = await super()._work(machine, host, progress, login)
        if isinstance(done, Bootstrapped):
            self._real.install(machine, host.spec.server_id)
        return done
