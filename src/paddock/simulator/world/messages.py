"""What Paddock and the simulated world tell each other over the control API."""

import hashlib
from pathlib import Path
from typing import Literal

import msgspec

import paddock

__all__ = [
    "Attachment",
    "FaultOrder",
    "JobOrder",
    "JobView",
    "PoolOrder",
    "Route",
    "RunnerFault",
    "WorldAccount",
    "WorldOptions",
    "WorldView",
    "version",
]


class WorldOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Size, pace and seed of a world: one with other options is another world."""

    hosts: int
    speed: float
    jobs: float
    seed: int | None = None
    linger: float = 1800.0
    """How many seconds the world goes on after it last heard from Paddock."""

    def differs(self, other: "WorldOptions") -> str:
        """Which options are not the same, as they are typed."""
        names = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)]
        return ", ".join(f"--{'world-linger' if name == 'linger' else name}" for name in names)


class WorldAccount(msgspec.Struct, frozen=True):
    """An organisation at the simulated GitHub."""

    id: int
    login: str
    installation_id: int


class WorldView(msgspec.Struct, frozen=True, kw_only=True):
    """Who this world is, and what Paddock needs to know to use its services. The keys open nothing but this simulation."""

    version: str
    pid: int
    options: WorldOptions
    project_id: str
    secret_key: str
    app_id: str
    app_key: str
    webhook_secret: str
    hosts: int
    accounts: list[WorldAccount]


class Attachment(msgspec.Struct, frozen=True):
    """Where Paddock is now: the Kubernetes API, the page with dispatch and webhooks, and the administrator's kubeconfig."""

    api: str
    page: str
    kubeconfig: str


class PoolOrder(msgspec.Struct, frozen=True):
    """A pool of hosts, for a cloud that has none."""

    hosts: int
    zones: list[str]
    prefix: str
    server_type: str


class Route(msgspec.Struct, frozen=True):
    """Which port of loopback stands for an address; 0 where nobody answers, and how long that takes to notice."""

    port: int
    silence: float


RunnerFault = Literal[
    "",
    "never registers",
    "loses the answer",
    "hangs after its job",
    "dies in its job",
    "stands still in its job",
    "retries noisily",
    "is too old",
]


class FaultOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is to go wrong. `runner` is how the next runner does."""

    kind: Literal["wedge-sshd", "lock-account", "seal-password", "power-off", "power-on", "lose-webhook", "runner"]
    server_id: str = ""
    seconds: float = 0.0
    runner: RunnerFault = ""


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One more job, as if somebody had pushed. `duration` is in simulated seconds."""

    repository: str
    labels: list[str]
    duration: float = 300.0
    name: str = "build"


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as GitHub knows it."""

    id: int
    status: str
    conclusion: str | None
    runner: str
    starts: int
    """How often a runner took it up."""
    lost: bool = False
    """Its runner went away before it had ended."""


def version() -> str:
    """The package's version and a digest of its files: an edited checkout is another version."""
    root = Path(paddock.__file__).parent
    facts = [f"{path.relative_to(root)} {(at := path.stat()).st_mtime_ns} {at.st_size}" for path in root.rglob("*.py")]
    return f"{paddock.__version__}+{hashlib.sha256(chr(10).join(sorted(facts)).encode()).hexdigest()[:12]}"
