"""The world at work: every simulator of the outside in one process, and the three sockets on which it is reached."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import httpx2
import msgspec

from paddock.base.clock import Clock
from paddock.base.http_server import bind_unix, listening
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack, end
from paddock.kube import config as kube_config
from paddock.kube.client import Client
from paddock.simulator.agents import Addresses, AgentParser, AgentWorld, SimulatedAgents, dispatch_clients
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.github import SimulatedGitHub, Workload
from paddock.simulator.github.book import GitHubBook
from paddock.simulator.github.faults import Fault, FaultKind
from paddock.simulator.github.state import SimulatedJob
from paddock.simulator.mac import Fleet
from paddock.simulator.pods import Hang, RunnerFaults, RunnerPace, SimulatedPods
from paddock.simulator.world.control import control_app
from paddock.simulator.world.folder import Sockets, WorldFolder
from paddock.simulator.world.kept import KeptCloud, KeptWorld, open_cloud, open_github, open_macs
from paddock.simulator.world.messages import (
    Attachment,
    FaultOrder,
    JobOrder,
    JobView,
    PoolOrder,
    Route,
    WorldAccount,
    WorldOptions,
    WorldView,
    version,
)

__all__ = ["World"]

log = get_logger("simulated world")
_SAVE_EVERY: Final = 1.0
_NO_ANSWER: Final = 15.0
_REPOSITORIES: Final = ("acme/app", "acme/kit", "bolt/wallet", "crux/reader")


class World:
    """One world. `run` works until it is told to stop, or until nobody has come for too long; ending it is a power cut."""

    def __init__(
        self, folder: WorldFolder, options: WorldOptions, command: AgentParser, *, clock: Clock, rng: random.Random
    ) -> None:
        self._folder = folder
        self._options = options
        self._clock = clock
        self._rng = rng
        self._version = version()
        self._stopping = asyncio.Event()
        self._heard = clock.monotonic()
        self._addresses = Addresses()
        self._attachment: Attachment | None = None
        self._clients: list[Client] = []
        self._talking: list[asyncio.Task[None]] = []
        self._driving: asyncio.Task[None] | None = None
        kept = KeptWorld(folder.data, options.speed, options.seed)
        self._cloud: SimulatedCloud = open_cloud(kept, clock, rng)
        self._kept_cloud = KeptCloud(kept.file, self._cloud)
        self._cloud.keep = self._kept_cloud.save_before_answering
        self._book = GitHubBook(kept.github)
        self._github: SimulatedGitHub = open_github(kept, self._book, clock, rng)
        self._github.keep = self._save_github
        self._macs: Fleet = open_macs(kept, self._cloud, clock, rng)
        self._disks = kept.macs
        self._runner_faults = RunnerFaults()
        self._pods: SimulatedPods | None = None
        self._agents = SimulatedAgents(
            self._macs,
            self._installed,
            AgentWorld(
                self._addresses,
                command,
                dispatch_clients(self._runner_faults),
                self._github.connect,
                self._runner_faults,
                clock,
                rng,
                RunnerPace(speed=options.speed),
            ),
        )
        self._workload = (
            Workload(
                self._github,
                kept.drawn(rng),
                clock,
                repos=_REPOSITORIES,
                labels=("tuist-macos",),
                rate=max(0.2, options.jobs * options.hosts / 6.0),
            )
            if options.jobs
            else None
        )

    async def run(self, sockets: Sockets) -> str:
        """Work until the end; returns why it came. The caller holds the world's folder."""
        async with AsyncExitStack() as stack:
            stack.callback(self._book.close)
            stack.callback(self._save)
            stack.push_async_callback(self._macs.stop)
            stack.push_async_callback(self.detach)
            if (page := self._last_page()) is not None:
                # Before Paddock is back: what happens meanwhile is a delivery that failed, and not one that was never tried.
                self._github.deliver_to(f"{page}/webhooks/github")
            tasks = await stack.enter_async_context(TaskStack())
            for name, work in (
                ("simulated cloud", self._cloud.run),
                ("saving", self._keep_saved),
            ):
                tasks.start(keep_running(name, work, self._clock, self._rng))
            self._drive_github()
            served = (
                listening(self._cloud.app, bind_unix(sockets.scaleway)),
                listening(self._github.app, bind_unix(sockets.github), date=False),
                listening(control_app(self), bind_unix(sockets.control)),
            )
            await asyncio.gather(*(each.__aenter__() for each in served))
            try:
                return await self._until_the_end()
            finally:
                await asyncio.gather(*(each.__aexit__(None, None, None) for each in served))

    async def _until_the_end(self) -> str:
        while not self._stopping.is_set():
            alone = self._clock.monotonic() - self._heard
            if alone >= self._options.linger:
                return f"nobody has come for {alone:.0f} s"
            try:
                async with asyncio.timeout(min(5.0, self._options.linger - alone + 0.01)):
                    await self._stopping.wait()
            except TimeoutError:
                continue
        return "it was told to stop"

    # What the control API does

    def view(self) -> WorldView:
        cloud, github = self._cloud, self._github
        return WorldView(
            version=self._version,
            pid=os.getpid(),
            options=self._options,
            project_id=cloud.state.project_id,
            secret_key=cloud.state.secret_key,
            app_id=github.app_id,
            app_key=github.private_key.reveal(),
            webhook_secret=github.webhook_secret.reveal(),
            hosts=len(cloud.hosts()),
            accounts=[WorldAccount(a.id, a.login, a.installation_id) for a in github.state.accounts.values()],
        )

    async def attach(self, where: Attachment) -> None:
        """Paddock is there now. It says so every two seconds; only what changed has an effect."""
        self._heard = self._clock.monotonic()
        if where == self._attachment and self._talking:
            return
        self._attachment = where
        draft = self._folder.attached.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(where))
        draft.replace(self._folder.attached)
        self._github.deliver_to(f"{where.page}/webhooks/github")
        self._addresses.api, self._addresses.dispatch_url = where.api, where.page
        client = Client(kube_config.from_kubeconfig(Path(where.kubeconfig), clock=self._clock), pool=2)
        self._clients.append(client)
        if self._pods is None:
            self._pods = self._new_pods(client, where.page)
        else:
            self._pods.reach(client, where.page)
        self._drive_github()
        if not self._talking:
            work = [("simulated agents", self._agents.run), ("simulated Pods", self._pods.run)]
            if self._workload is not None:
                work.append(("simulated workload", self._workload.run))
            self._talking = [self._kept_running(name, run) for name, run in work]

    async def detach(self) -> None:
        """Paddock stops in order, and so will this world: what talks to Paddock ends first, as at a power cut."""
        talking, self._talking = self._talking, []
        if self._driving is not None:
            talking, self._driving = [*talking, self._driving], None
        await asyncio.gather(*(end(task) for task in talking))
        for client in self._clients:
            await client.aclose()
        self._clients.clear()
        await self._github.aclose()

    def pool(self, order: PoolOrder) -> None:
        if self._cloud.hosts():
            return  # it was ordered before
        for index, zone in enumerate(order.zones):
            share = order.hosts // len(order.zones) + (index < order.hosts % len(order.zones))
            self._cloud.seed_pool(share, zone=zone, server_type=order.server_type, prefix=order.prefix)
        self._kept_cloud.save()

    async def route(self, address: str) -> Route:
        silence = _NO_ANSWER / self._options.speed
        mac = self._macs.at(address)
        if mac is None or not mac.powered:
            return Route(0, silence)
        await mac.start()
        return Route(mac.sshd.port, silence)

    def fault(self, order: FaultOrder) -> None:
        match order.kind:
            case "wedge-sshd":
                self._macs.mac(order.server_id).wedge_sshd("hang")
            case "lock-account":
                self._macs.mac(order.server_id).lock_account()
            case "seal-password":
                self._cloud.seal(order.server_id, order.seconds * self._options.speed)
            case "power-off" | "power-on":
                self._cloud.set_power(order.server_id, on=order.kind == "power-on")
            case "lose-webhook":
                self._github.inject(Fault(kind=FaultKind.UNDELIVERED, operations=("queued",)))
            case "runner":
                self._runner_faults.next.append(Hang(order.runner))
        log.info("a fault was ordered", kind=order.kind, server_id=order.server_id, runner=order.runner)

    def submit(self, order: JobOrder) -> JobView:
        job = self._github.submit(order.repository, labels=order.labels, duration=order.duration, name=order.name)
        self._save_github()
        return _view(job)

    def jobs(self) -> list[JobView]:
        self._github.tick()
        return [_view(job) for job in self._github.state.jobs.values()]

    def stop(self) -> None:
        self._stopping.set()

    # Inside

    def _new_pods(self, client: Client, page: str) -> SimulatedPods:
        pods = SimulatedPods(
            client,
            lambda: httpx2.AsyncClient(verify=False, trust_env=False),
            page,
            self._github.connect,
            clock=self._clock,
            rng=self._rng,
            pace=RunnerPace(speed=self._options.speed),
            macos=False,
        )
        pods.runner_faults = self._runner_faults
        return pods

    def _installed(self) -> list[str]:
        """The hosts whose Macs have a disk from before."""
        return [host.id for host in self._cloud.hosts() if (self._disks / host.id / "disk.json").is_file()]

    def _last_page(self) -> str | None:
        try:
            return msgspec.json.decode(self._folder.attached.read_bytes(), type=Attachment).page
        except (OSError, msgspec.DecodeError):
            return None

    def _drive_github(self) -> None:
        if self._driving is None:
            self._driving = self._kept_running("simulated GitHub", self._github.run)

    def _kept_running(self, name: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        return asyncio.create_task(keep_running(name, work, self._clock, self._rng), name=name)

    async def _keep_saved(self) -> None:
        while True:
            self._save()
            await self._clock.sleep(_SAVE_EVERY)

    def _save(self) -> None:
        self._kept_cloud.save()
        self._save_github()

    def _save_github(self) -> None:
        self._github.save_to(self._book)


def _view(job: SimulatedJob) -> JobView:
    return JobView(
        id=job.id,
        status=job.status,
        conclusion=job.conclusion,
        runner=job.runner_name or "",
        starts=job.starts,
        lost=job.lost_since is not None,
    )
