"""What the parts of `paddock up` share while it runs."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from paddock.all_in_one.world_process import WorldProcess
from paddock.base.clock import Clock
from paddock.base.http_server import Tls
from paddock.base.metrics import CollectorRegistry
from paddock.base.supervise import keep_running
from paddock.base.tasks import end
from paddock.embedded.folder import DataFolder
from paddock.hosts.bootstrap import FleetConfig
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api import JobSource
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.http.concern import Concern

__all__ = ["Application", "Options", "in_background"]


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
    jobs: float = 0.0
    """Jobs a minute of simulated time, as a share of what the hosts could run; 0 submits none."""
    job_source: JobSource = "ScaleSet"
    """How the first pool of a simulation hears of its jobs."""
    seed: int | None = None
    world_linger: float = 1800.0
    """How many seconds the simulated world goes on after Paddock was killed and nobody came back."""
    fleet: FleetConfig = field(default_factory=FleetConfig)
    settings: HostSettings = field(
        default_factory=lambda: HostSettings(default_adopt_pool_prefix="tuist-pool-", lease_duration=0.0)
    )
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    api_server_url: str = ""
    """Where the Macs find the Kubernetes API; given, it listens on every address and not on loopback alone."""
    macs_door: tuple[str, int] | None = None
    """Where Macs ask for jobs, with TLS by our own authority, which they know from their kubeconfig."""
    ssh_port: int = 22
    runner_door: tuple[str, int] | None = None
    """Where GitHub and the Macs come in, if not on loopback."""
    runner_url: str = ""
    """What runners are told to ask for a job; the page's own address unless given."""


@dataclass(slots=True)
class Application:
    """Options, clock, rng, folder and registry: one each for all parts. `dsn` and `page` are known once they exist."""

    options: Options
    clock: Clock
    rng: random.Random
    folder: DataFolder
    stack: AsyncExitStack
    page: str = ""
    dsn: str = ""
    tls: Tls | None = None
    """What listeners show that Macs reach."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    world: WorldProcess | None = None
    """The simulated world, where there is one."""
    concerns: Callable[[], Sequence[Concern]] = tuple
    """What the database and its disk say of themselves, once there is one."""
    metrics: KubeMetrics = field(init=False)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = KubeMetrics(self.registry)


async def in_background(application: Application, name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Work that is restarted when it fails, and cancelled and awaited when its turn to stop comes."""
    task = asyncio.create_task(keep_running(name, work, application.clock, application.rng), name=name)
    application.stack.push_async_callback(end, task)
