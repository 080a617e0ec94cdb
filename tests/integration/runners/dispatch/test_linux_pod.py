"""The rendered Linux Pod is executed: its poller asks the real dispatch, its runner starts with the job and nothing else.

GitHub and its runner program are simulated; `/home/runner/run.sh` stands for the stock image's.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from integration.runners.dispatch.pod_executor import PodExecutor
from integration.runners.dispatch.rig import ACCOUNTS, NAMESPACE, PODS, Rig, until
from integration.runners.ledger.rig import job
from integration.served import served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from paddock.base.clock import SystemClock
from paddock.clients.github import GitHubClient
from paddock.kube.builtin import ObjectReference
from paddock.runners.api import OPERATOR_DRAIN_LABEL, RunnerPool
from paddock.runners.dispatch import PATH
from paddock.runners.pools.pod_template import pod_of, service_account_of
from paddock.runners.pools.settings import PoolSettings
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.sessions import RunnerRefusedError

LINUX = "linux-x64"

_RUN_SH = f"""#!/bin/sh
[ $# = 0 ] || {{ echo "run.sh got arguments"; exit 9; }}
exec {sys.executable} - <<'END'
import os, urllib.request
config = os.environ["ACTIONS_RUNNER_INPUT_JITCONFIG"]
request = urllib.request.Request("@GITHUB@/connect", data=config.encode())
print("runner:", urllib.request.urlopen(request, timeout=30).read().decode())
END
"""


class LinuxWorld:
    """Dispatch over the simulated GitHub, both on loopback, and a Linux pool."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig, self.folder = rig, folder
        self.github = SimulatedGitHub(SystemClock(), random.Random(5), speed=100.0)
        self.account = self.github.add_organization("acme", "app")
        self.url = self.runner_url = ""
        self.dispatcher: Any = None

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator["LinuxWorld"]:
        await self.rig.ledger.accounts.enrol(self.account.id, "acme", self.account.installation_id)
        await self.rig.ledger.allow_list.allow(self.account.id, "acme", by="test", why="as the test needs it")
        await self.rig.cluster.pool(
            LINUX,
            os="linux",
            image="ghcr.io/actions/actions-runner:latest",
            dispatchLabel="paddock-linux",
            runnerLabels=["self-hosted", "Linux"],
        )
        runner_side = Starlette(routes=[Route("/connect", self._connect, methods=["POST"])])
        async with (
            GitHubClient(self.github.settings(), SystemClock(), random.Random(6), self.github.transport()) as github,
            served(runner_side) as self.runner_url,
        ):
            self.dispatcher = await self.rig.dispatcher(github=github)
            async with served(Starlette(routes=list(self.dispatcher.service.routes))) as self.url:
                driving = asyncio.create_task(self.github.run())
                yield self
                driving.cancel()
                await asyncio.gather(driving, return_exceptions=True)
                await self.dispatcher.service.stop()
        await self.github.aclose()

    async def _connect(self, request: Request) -> PlainTextResponse:
        try:
            session = self.github.connect((await request.body()).decode())
        except RunnerRefusedError as error:
            return PlainTextResponse(str(error), status_code=403)
        return PlainTextResponse(f"{await session.run_one(20.0)}")

    async def pod(self, name: str, url: str = "") -> PodExecutor:
        """A Pod as the pool controller asks for it, with the token that a kubelet would project."""
        client = self.rig.cluster.client
        pool = await client.get(RunnerPool, LINUX, NAMESPACE)
        manifest = pod_of(pool, name, PoolSettings(dispatch_url=url or self.url, poller_image="paddock:test"))
        await client.create(service_account_of(pool, name), ACCOUNTS)
        made = await client.create(manifest, PODS)
        token, _ = await client.create_token(
            name,
            NAMESPACE,
            audiences=[manifest["spec"]["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["audience"]],
            bound_to=ObjectReference(api_version="v1", kind="Pod", name=name, uid=made["metadata"]["uid"]),
        )
        run_sh = _RUN_SH.replace("@GITHUB@", self.runner_url)
        executor = PodExecutor(self.folder / name, made, {"/home/runner/run.sh": run_sh})
        executor.write_token(token.reveal())
        return executor

    async def submit(self) -> int:
        submitted = self.github.submit("acme/app", labels=["self-hosted", "Linux"], duration=1.0)
        await self.rig.bench.queue(
            job(
                submitted.id,
                self.account.id,
                pool=LINUX,
                vcpus=2,
                memory_mb=4096,
                platform="linux",
                repository="acme/app",
            )
        )
        return submitted.id


@pytest.fixture
async def world(rig: Rig, tmp_path: Path) -> AsyncIterator[LinuxWorld]:
    async with LinuxWorld(rig, tmp_path).living() as world:
        yield world


async def test_a_rendered_pod_waits_for_a_job_and_runs_it(world: LinuxWorld) -> None:
    pod = await world.pod("linux-runner-1")
    running = asyncio.create_task(pod.run())
    await until(lambda: len(world.dispatcher.service.waiting) == 1, seconds=20)
    number = await world.submit()
    ended = await running
    assert ended.codes == {"poller": 0, "runner": 0}, ended.output
    assert ended.phase == "Succeeded"
    assert "runner: success" in ended.output["runner"]
    assert world.github.job(number).conclusion == "success"


async def test_neither_token_nor_config_is_in_an_argument_or_an_output(world: LinuxWorld) -> None:
    pod = await world.pod("linux-runner-1")
    await world.submit()
    ended = await pod.run()
    config = (pod.volume("tuist-runner-jit") / "config").read_text()
    token = (pod.volume("tuist-runner-token") / "token").read_text()
    assert ended.phase == "Succeeded", ended.output
    for secret in (config, token):
        assert secret not in repr(ended)
        assert secret not in repr(pod.pod)


async def test_a_pod_that_is_told_to_go_succeeds_without_a_runner(world: LinuxWorld) -> None:
    pod = await world.pod("linux-runner-1")
    running = asyncio.create_task(pod.run())
    await until(lambda: len(world.dispatcher.service.waiting) == 1, seconds=20)
    await world.rig.cluster.client.merge_patch(
        PODS, "linux-runner-1", {"metadata": {"labels": {OPERATOR_DRAIN_LABEL: "true"}}}, NAMESPACE
    )
    ended = await running
    assert ended.phase == "Succeeded", ended.output
    assert "runner:" not in ended.output["runner"]
    assert "nothing is run" in ended.output["runner"]
    assert not world.github.runners()


async def test_a_pod_whose_token_is_refused_fails_before_its_runner(world: LinuxWorld) -> None:
    pod = await world.pod("linux-runner-1")
    (pod.volume("tuist-runner-token") / "token").chmod(0o600)
    pod.write_token("no.such.token")
    ended = await pod.run()
    assert ended.codes == {"poller": 1}, ended.output
    assert "refuses this Pod" in ended.output["poller"]


@pytest.mark.slow
async def test_the_poller_takes_the_address_with_or_without_the_endpoint(world: LinuxWorld) -> None:
    pod = await world.pod("linux-runner-1", url=world.url + PATH)
    await world.submit()
    ended = await pod.run()
    assert ended.phase == "Succeeded", ended.output


async def test_the_runner_has_no_way_to_the_token(world: LinuxWorld) -> None:
    """Its command line, run with what it mounts, cannot name a path that leads to the token."""
    pod = await world.pod("linux-runner-1")
    pod.pod["spec"]["initContainers"] = []
    pod.pod["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", "cat /var/run/secrets/paddock/token"]
    ended = await pod.run()
    assert ended.codes == {"runner": 1}
