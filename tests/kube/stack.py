"""One stack, as real as a machine without a Mac allows: what we make runs from what we ship.

Operator and dispatch are processes from the built wheel, with the arguments of the chart's Deployments and the rights of the
chart's accounts, on a real control plane with a scheduler, and on a real Postgres. The agent is the bundle for Linux, which
the operator installs over SSH. What others make is `stack_world`.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import httpx2
import pytest
import yaml
from agent_bundle.build import build
from agent_bundle.interpreter import from_running
from kube.kept import SOURCES, TREE, kept
from kube.mounts import Mounts
from kube.ports import free_port
from kube.real_helm import Helm
from kube.stack_world import AGENT, IMAGE, LABEL, TART_URL, StackWorld
from unit.deploy.rendering import CHART

from paddock.base.backoff import Backoff
from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.supervise import keep_running
from paddock.base.tasks import end
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.kube.builtin import ContainerStateTerminated, Pod, SecretObject
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.informer import Informer
from paddock.kube.objects import ObjectMeta
from paddock.kube.store import CacheChange

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane
    from kube.supervision import Program

    from paddock.simulator.cloud import Host
    from paddock.simulator.mac import SimulatedMac
    from paddock.simulator.mac.job_processes import JobProcesses

T = TypeVar("T")
NAMESPACE, RELEASE = "macs", "stack"
RUNNERS: Final = f"{NAMESPACE}-runners"
"""Where the chart puts pools and runner Pods."""
WITHIN: Final = 180.0


async def until(
    what: str,
    seen: Callable[[], Awaitable[T | None]],
    within: float = WITHIN,
    told: Callable[[], str] = lambda: "",
) -> T:
    """What `seen` gives as soon as it is true. `told` explains a wait that ends without it."""
    try:
        async with asyncio.timeout(within):
            while not (found := await seen()):
                await asyncio.sleep(0.2)
            return found
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}\n{told()}")


def uv() -> str:
    own = TREE / ".tools" / "bin" / "uv"
    return str(own) if own.exists() else shutil.which("uv") or "uv"


def unpacked_wheel(folder: Path) -> Path:
    """What `uv build` makes of this tree, unpacked: the code that operator and dispatch run."""

    def make(wheel: Path) -> None:
        out = wheel.with_name("dist")
        subprocess.run([uv(), "build", "--wheel", "--quiet", "--out-dir", out, TREE], check=True)
        [built] = out.glob("*.whl")
        built.rename(wheel)

    with zipfile.ZipFile(kept("paddock.whl", make, folder, of=SOURCES)) as packed:
        packed.extractall(folder / "wheel")
    return folder / "wheel"


def linux_bundle(folder: Path) -> Path:
    def make(bundle: Path) -> None:
        build(TREE, "linux-x86_64", bundle, from_running, uv=uv(), portable=False)

    return kept("bundle.tar.gz", make, folder, of=SOURCES)


class _QuickInformer(Informer[Pod]):
    BACKOFF = Backoff(base=0.05, cap=0.2)


class PodEnds:
    """How Pods ended, as the API server was told, also of Pods that are gone since."""

    def __init__(self, client: Client, namespace: str) -> None:
        clock, rng = SystemClock(), seeded("pods that ended")
        # Quicker than anybody who could remove a Pod: after an outage it is there before they are.
        self._informer = _QuickInformer(client, Pod, clock=clock, rng=rng, namespace=namespace, name="ends of pods")
        self._informer.add_handler(self._see)
        self._task: asyncio.Task[None] | None = None
        self._by_uid: dict[str, ContainerStateTerminated] = {}

    @property
    def ends(self) -> list[ContainerStateTerminated]:
        return list(self._by_uid.values())

    @property
    def messages(self) -> list[str]:
        return [each.message for each in self.ends]

    def _see(self, change: CacheChange[Pod]) -> None:
        for status in change.obj.status.container_statuses:
            if status.state.terminated is not None:
                self._by_uid[change.obj.metadata.uid] = status.state.terminated

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(
            keep_running("ends of pods", self._informer.run, SystemClock(), seeded("ends of pods"))
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        await end(self._task)


class Stack:
    """Everything, started in order. `world` is outside; the rest is ours, and may be killed."""

    def __init__(self, plane: "ControlPlane", world: StackWorld, folder: Path) -> None:
        self.plane = plane
        self.world = world
        self.folder = folder
        self.postgres = EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=random.Random(1))
        self.dispatch_port, self.operator_probe, self.dispatch_probe = free_port(), free_port(), free_port()
        self.internal_port = free_port()
        self.dispatch_url = f"http://127.0.0.1:{self.dispatch_port}"
        self.programs: dict[str, Program] = {}
        self._stack = AsyncExitStack()
        self._killed: Program
        self.host: Host
        self.mac: SimulatedMac
        self.admin: Client
        self.pods: PodEnds

    async def __aenter__(self) -> Self:
        stack = await self._stack.__aenter__()
        try:
            await stack.enter_async_context(self.postgres)
            self.admin = await stack.enter_async_context(Client(from_kubeconfig(self.plane.kubeconfig)))
            self.pods = await stack.enter_async_context(PodEnds(self.admin, RUNNERS))
            wheel, bundle = await asyncio.gather(
                asyncio.to_thread(unpacked_wheel, self.folder), asyncio.to_thread(linux_bundle, self.folder)
            )
            helm = Helm(self.plane, self.folder, NAMESPACE)
            release = await asyncio.to_thread(helm.install, CHART, RELEASE, self._values())
            assert release["status"] == "deployed", release
            await self._add_mac()
            await self._make_secrets()
            await self._start(
                "dispatch",
                wheel,
                {},
                f"--bind-address=127.0.0.1:{self.dispatch_port}",
                f"--metrics-bind-address=127.0.0.1:{self.dispatch_probe}",
                f"--internal-bind-address=127.0.0.1:{self.internal_port}",
            )
            await self._start(
                "operator",
                wheel,
                {**self._operator(), "PADDOCK_BUNDLE": str(bundle), "PADDOCK_BUNDLE_TARGET": "linux-x86_64"},
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{self.operator_probe}",
                # The name is another than the Service's, and so the operator makes the certificate for this one.
                f"--dispatch-url=https://localhost:{self.internal_port}",
                f"--ssh-port={self.world.ssh_port}",
            )
        except BaseException:
            await stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in self.programs:
            # Nobody waits for them to finish in good order.
            await asyncio.to_thread(self.plane.kill, name)
        await self._stack.aclose()

    # What it is made of

    def _values(self) -> dict[str, Any]:
        tart = {"url": TART_URL, "sha256": self.world.tart_sha256, "version": "2.35.0"}
        pool = {
            "image": IMAGE,
            "dispatchLabel": LABEL,
            "jobSource": "Webhook",
            "autoscaling": {"enabled": False},
            # One runs, one waits: the next job need not wait for the operator that was killed.
            "replicas": 2,
            # Two guests fit the machine of the tests, whatever it has.
            "podCPUMilli": 200,
            "podMemoryMB": 256,
        }
        # The rest is what people are told to copy.
        given = yaml.safe_load((TREE / "docs" / "examples" / "values.yaml").read_text())
        return {
            **given,
            "macosFleet": {**given["macosFleet"], "replicas": 1, "tart": tart, "logsPort": free_port()},
            "operator": {**given["operator"], "apiServerURL": self.plane.url},
            "dispatch": {**given["dispatch"], "runnerURL": self.dispatch_url},
            "github": {"apiURL": self.world.github_url, "webhooks": True},
            "runnerPools": {"macos": {**given["runnerPools"]["macos"], **pool}},
        }

    async def _add_mac(self) -> None:
        """The fleet's key is known to the project before the Mac is installed: keys reach a Mac at its install only."""
        settings = self.world.cloud.settings(self.world.cloud_url)
        async with ScalewayClient(settings, SystemClock(), seeded("keys")) as cloud:
            await FleetKeys(self.admin, cloud, namespace=NAMESPACE).ensure("macos")
        self.host, self.mac = await self.world.add_mac()

    def _operator(self) -> dict[str, str]:
        cloud = self.world.cloud
        return {
            "SCW_SECRET_KEY": cloud.state.secret_key,
            "SCW_DEFAULT_PROJECT_ID": cloud.state.project_id,
            "SCW_API_URL": self.world.cloud_url,
        }

    async def _make_secrets(self) -> None:
        """As docs/install.md says."""
        github = self.world.github
        github.deliver_to(f"{self.dispatch_url}/webhooks/github")
        secrets = {
            "paddock-database": {"PADDOCK_DSN": self.postgres.dsn},
            "paddock-github": {
                "PADDOCK_GITHUB_APP_ID": github.app_id,
                "PADDOCK_GITHUB_PRIVATE_KEY": github.private_key.reveal(),
                "PADDOCK_GITHUB_WEBHOOK_SECRET": github.webhook_secret.reveal(),
            },
        }
        for name, values in secrets.items():
            data = {key: value.encode() for key, value in values.items()}
            await self.admin.create(SecretObject(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))

    async def _start(self, name: str, wheel: Path, secrets: dict[str, str], *more: str) -> None:
        """The container of the chart's Deployment as a process: its arguments, its variables, its account."""
        deployment = json.loads(
            self.plane.run_kubectl("-n", NAMESPACE, "get", "deployment", f"{RELEASE}-{name}", "-o", "json")
        )
        pod = deployment["spec"]["template"]["spec"]
        [container] = pod["containers"]
        account = self.plane.service_account(NAMESPACE, pod["serviceAccountName"])
        mounts = Mounts(self.admin, NAMESPACE, pod, self.folder / "mounts" / name)
        await mounts.put()
        self._stack.push_async_callback(end, asyncio.create_task(mounts.keep(), name=f"mounts of {name}"))
        command = [sys.executable, "-m", "paddock", *map(mounts.local, container["args"]), *more]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(wheel),
            **await mounts.variables(),
            **secrets,
        }
        command.append(f"--kubeconfig={account.kubeconfig}")
        for volume in pod["volumes"]:  # what the kubelet would project
            for source in volume.get("projected", {}).get("sources", []):
                projected = source["serviceAccountToken"]
                token = self.plane.account_token(NAMESPACE, pod["serviceAccountName"], projected["audience"])
                path = self.folder / f"{name}-{projected['path']}"
                path.write_text(token)
                command.append(f"--dispatch-token-file={path}")
        self.programs[name] = self.plane.start_beside(name, command, environment)

    # What it says

    def told(self) -> str:
        """The ends of all logs, for a failure."""
        texts = {name: program.log.read_text(errors="replace") for name, program in self.programs.items()}
        texts["agent"] = self.world.agents_log(self.host)
        ends = [f"--- {name}\n" + "\n".join(text.splitlines()[-25:]) for name, text in texts.items()]
        return "\n".join(["\n".join(f"--- on the Mac: {line}" for line in self.mac.violations[-5:]), *ends])

    async def ready(self, name: str) -> bool:
        port = {"operator": self.operator_probe, "dispatch": self.dispatch_probe}[name]
        self.programs[name].check_alive()
        async with httpx2.AsyncClient(trust_env=False) as http:
            try:
                return (await http.get(f"http://127.0.0.1:{port}/readyz", timeout=15.0)).is_success
            except httpx2.TransportError:
                return False

    @property
    def keeper(self) -> "JobProcesses":
        return self.world.keepers[self.host.id]

    def agent_pid(self) -> int | None:
        return self.keeper.pid(AGENT)

    # What may happen to it

    async def kill(self, what: str) -> None:
        """`kill -9`. It stays down until `bring_back`, but for Postgres, whose supervisor is quick."""
        match what:
            case "agent":
                self.keeper.respawns = False
                os.kill(_lives(self.agent_pid()), signal.SIGKILL)
            case "postgres":
                before = _lives(self.postgres.pid)
                os.kill(before, signal.SIGKILL)
                await until("Postgres has ended", lambda: self._is_not(before), told=self.told)
            case _:
                self._killed = await asyncio.to_thread(self.plane.kill, what)

    async def bring_back(self, what: str) -> None:
        """What the machine's supervisor does about it; returns when the part serves again."""
        match what:
            case "agent":
                self.keeper.respawns = True
                await until("launchd has started the agent again", self._has_agent, told=self.told)
            case "postgres":
                await until("Postgres is back", self._has_postgres, told=self.told)
            case _:
                started = await asyncio.to_thread(self.plane.restart, self._killed)
                if what in self.programs:
                    self.programs[what] = started
                    await until(f"{what} is ready again", lambda: self.ready(what), told=self.told)

    async def _is_not(self, before: int) -> bool:
        return self.postgres.pid != before

    async def _has_postgres(self) -> bool:
        return self.postgres.pid is not None

    async def _has_agent(self) -> bool:
        return self.agent_pid() is not None


def _lives(pid: int | None) -> int:
    assert pid is not None, "it is down before it was killed"
    return pid


def stack_folder() -> Path:
    """Short, and open to the account that Postgres runs as under root."""
    folder = Path(tempfile.mkdtemp(prefix="pdk-"))
    folder.chmod(0o755)
    return folder
