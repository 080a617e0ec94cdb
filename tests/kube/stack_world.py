"""The world around the one stack: what others make, each behind the wire by which ours reach it.

Scaleway and GitHub are simulated over HTTP; the Mac is a real SSH server over a folder, with stand-ins of the macOS programs,
a launchd that really runs the agent, and a `tart` whose guests really run our script. GitHub's runner in those guests is a
stub that talks to the simulated GitHub by one held request: a guest that dies is a runner that is gone.
"""

import asyncio
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

from integration.served import served
from kube.ports import free_port
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.simulator.cloud import Host, SimulatedCloud
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.sessions import RunnerGoneError, RunnerRefusedError
from paddock.simulator.github.state import SimulatedJob
from paddock.simulator.mac import Fleet, Pace, SimulatedMac
from paddock.simulator.mac.job_processes import JobProcesses
from paddock.simulator.tart_program import install

IMAGE: Final = "registry.example/team/macos-base:latest"
LABEL: Final = "tuist-macos"
AGENT: Final = "dev.paddock.node-agent"
TART_URL: Final = "https://files.example/tart.tar.gz"
REPOSITORY: Final = "acme/app"
_DATA, _SHARES, _LOG = "/usr/local/var/paddock/node", "/Volumes/paddock-shares", "/var/log/paddock-node-agent.log"
_RUNNER: Final = """#!/bin/bash
mkdir -p _diag
diag="_diag/Runner_$$-utc.log"
worker=
echo connecting >"$diag"
printf '%s' "$ACTIONS_RUNNER_INPUT_JITCONFIG" | /usr/bin/curl -sS -N --noproxy '*' --data-binary @- {url}/_runner |
  while read -r word rest; do
    echo "$word $rest" >>"$diag"
    case $word in
      listening) echo "Listening for Jobs" ;;
      job) bin/Runner.Worker & worker=$!; echo "Running job: $rest" ;;
      result) kill "$worker"; echo "Job completed with result: $rest" ;;
    esac
  done
"""
_WORKER: Final = "#!/bin/sh\nwhile :; do sleep 1; done\n"


class StackWorld:
    """Everything outside, for as long as the block lasts. Only `add_mac` puts a Mac into the pool."""

    def __init__(self) -> None:
        clock = self.clock = SystemClock()
        # Not pytest's own folder: its path is too long for what lies below it.
        self.folder = Path(tempfile.mkdtemp(prefix="pdk-stack-")).resolve()
        self.cloud = SimulatedCloud(clock, seeded("the stack's cloud"), speed=2000.0)
        self.cloud.state.next_ip = "127.0.0.1"
        self.macs = Fleet(
            self.cloud, clock=clock, rng=seeded("macs"), pace=Pace(speed=2000.0), folder=self.folder / "macs"
        )
        self.github = SimulatedGitHub(clock, seeded("the stack's GitHub"), speed=1.0)
        self.github.add_organization("acme", "app")
        self.cloud_url = self.github_url = ""
        self.images = [IMAGE]
        self.ssh_port = free_port()
        """Where the Mac answers, once it is there: ours are told before."""
        self.tart = self._tart()
        self.tart_sha256 = hashlib.sha256(self.tart).hexdigest()
        self.accepted: Counter[int] = Counter()
        """How many runners got each job: whatever happens, one."""
        self._may_end: dict[int, asyncio.Event] = {}
        self.keepers: dict[str, JobProcesses] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        stack = await self._stack.__aenter__()
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        front = Starlette(routes=[Route("/_runner", self._runner, methods=["POST"]), Mount("", app=self.github.app)])
        self.cloud_url = await stack.enter_async_context(served(self.cloud.app))
        self.github_url = await stack.enter_async_context(served(front))
        stack.push_async_callback(self.macs.stop)
        stack.push_async_callback(self.github.aclose)
        for driver in (self.cloud.run(), self.github.run()):
            task = asyncio.create_task(driver)
            stack.push_async_callback(_ended, task)
        return self

    def agents_log(self, host: Host) -> str:
        """What the agent says, and before it what launchd heard of its start and its end."""
        beside = self.folder / "beside" / host.id
        places = (beside / "launchd.log", beside / "node" / "agent.log")
        return "".join(place.read_text(errors="replace") for place in places if place.exists())

    async def __aexit__(self, *_: object) -> None:
        for keeper in self.keepers.values():
            keeper.end()
        await self._stack.aclose()

    # The Mac

    async def add_mac(self) -> tuple[Host, SimulatedMac]:
        """A Mac in the pool that answers on `ssh_port` of loopback, with the keys that the project has now."""
        [host] = self.cloud.seed_pool(1, server_type="M2-L")
        host.ip = "127.0.0.1"
        return host, await self.answer(host)

    async def ordered_mac(self) -> SimulatedMac | None:
        """The Mac that somebody ordered, once it is delivered; it answers from then on."""
        host = next(iter(self.cloud.hosts()), None)
        return None if host is None or host.activity is not None else await self.answer(host)

    async def answer(self, host: Host) -> SimulatedMac:
        mac = self.macs.mac(host.id)
        mac.sshd.port = self.ssh_port
        await mac.start()
        mac.downloads[TART_URL] = self.tart
        self._furnish(mac)
        beside = self.folder / "beside" / host.id
        keeper = JobProcesses(
            mac,
            moved={_DATA: beside / "node", _SHARES: beside / "shares", _LOG: beside / "launchd.log"},
            more={AGENT: ("--metrics-bind-address=0", "--log-level=debug")},
        )
        mac.job_keeper = self.keepers[host.id] = keeper
        mac.on_power_off.append(keeper.end)
        return mac

    def _furnish(self, mac: SimulatedMac) -> None:
        """The registry's image, with a runner in it, as a guest of this Mac will find it."""
        runner = self.folder / "image" / "Users" / "admin" / "actions-runner"
        (runner / "bin").mkdir(parents=True, exist_ok=True)
        for path, text in {"run.sh": _RUNNER.replace("{url}", self.github_url), "bin/Runner.Worker": _WORKER}.items():
            (runner / path).write_text(text)
            (runner / path).chmod(0o755)
        home = mac.disk.at(f"/Users/{mac.username}") / ".tart" / "simulated"
        home.mkdir(parents=True)
        (home / "world.json").write_text(
            json.dumps({"images": {name: {"disk": str(self.folder / "image")} for name in self.images}})
        )

    def _tart(self) -> bytes:
        """The release archive that Macs fetch: the stand-in where the real binary is."""
        program = install(self.folder / "tart")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            tar.add(program, "tart.app/Contents/MacOS/tart")
        return packed.getvalue()

    # Jobs

    def submit(self, name: str) -> SimulatedJob:
        """A job that runs until `let_end` is called, however long its runner waits."""
        job = self.github.submit(REPOSITORY, labels=["self-hosted", LABEL], name=name)
        self._may_end[job.id] = asyncio.Event()
        return job

    def let_end(self, job: SimulatedJob) -> None:
        self._may_end[job.id].set()

    async def _runner(self, request: Request) -> Response:
        """GitHub's side of one runner process: lives as long as the request does."""
        try:
            session = self.github.connect((await request.body()).decode())
        except RunnerRefusedError as error:
            return PlainTextResponse(f"refused {error}\n", 403)

        async def lines() -> AsyncIterator[str]:
            try:
                yield "listening\n"
                job = await session.next_job(900)
                if job is None:
                    return
                self.accepted[job.job_id] += 1
                yield f"job {job.name}\n"
                await self._may_end[job.job_id].wait()
                session.finish()
                yield "result Succeeded\n"
            except RunnerGoneError:
                yield "gone\n"
            finally:
                session.disconnect()

        return StreamingResponse(lines())


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
