"""`paddock up` without `--simulate`: one machine, a real Mac's worth of SSH, agent, certificates and guest, and a job.

What others make is the world of the one stack: Scaleway and GitHub over HTTP, a Mac over SSH, Tart. Ours runs from the
command line and the objects that `docs/first-mac.md` gives, but for addresses and sizes. The Mac finds this machine under another address than
the one that the kubeconfig of people has: only the certificate that `--advertise-address` asks for is good for it.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube.stack import PodEnds, linux_bundle, stack_folder, until
from kube.stack_world import TART_URL, StackWorld, free_port

from paddock.hosts.api import MacFleet
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.runners.api import RunnerPool

ADDRESS = "127.0.0.2"
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "first-mac.yaml"
RESOURCES = {kind.RESOURCE.kind: kind.RESOURCE for kind in (MacFleet, RunnerPool)}
PADDOCK = str(Path(sys.executable).with_name("paddock"))


def examples() -> list[dict[str, Any]]:
    """What the guide lets people apply; a VM is smaller here, so that it fits the machine of the tests."""
    fleet, pool = yaml.safe_load_all(EXAMPLE.read_text())
    pool["spec"] |= {"podCPUMilli": 200, "podMemoryMB": 256}
    return [{**each, "metadata": {**each["metadata"], "namespace": "default"}} for each in (fleet, pool)]


class OneMachine:
    """A running `paddock up` and its world."""

    def __init__(self, world: StackWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.kube_port, self.dispatch_port, self.page_port = free_port(), free_port(), free_port()
        self.log = folder / "up.log"
        self.kubeconfig = folder / "data" / "kubeconfig"

    def environment(self) -> dict[str, str]:
        github, cloud = self.world.github, self.world.cloud
        (self.folder / "app.pem").write_text(github.private_key.reveal())
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "SCW_SECRET_KEY": cloud.state.secret_key,
            "SCW_DEFAULT_PROJECT_ID": cloud.state.project_id,
            "SCW_API_URL": self.world.cloud_url,
            "PADDOCK_GITHUB_APP_ID": github.app_id,
            "PADDOCK_GITHUB_PRIVATE_KEY_FILE": str(self.folder / "app.pem"),
            "PADDOCK_GITHUB_WEBHOOK_SECRET": github.webhook_secret.reveal(),
            "PADDOCK_GITHUB_API_URL": self.world.github_url,
            "PADDOCK_BUNDLE_TARGET": "linux-x86_64",
        }

    def command(self, ssh_port: int, bundle: Path) -> list[str]:
        return [
            *(PADDOCK, "up", "--data", str(self.folder / "data"), "--advertise-address", ADDRESS),
            *("--port", str(self.page_port), "--kube-port", str(self.kube_port)),
            *("--dispatch-port", str(self.dispatch_port), "--ssh-port", str(ssh_port)),
            *("--agent-bundle", str(bundle), "--tart-url", TART_URL, "--tart-sha256", self.world.tart_sha256),
            *("--log-level", "info"),
        ]

    def told(self) -> str:
        texts = [self.log.read_text(errors="replace"), *map(self.world.agents_log, self.world.cloud.hosts())]
        return "\n---\n".join("\n".join(text.splitlines()[-30:]) for text in texts)


@asynccontextmanager
async def up(machine: OneMachine, ssh_port: int, bundle: Path) -> AsyncIterator[None]:
    with machine.log.open("ab") as log:
        process = subprocess.Popen(
            machine.command(ssh_port, bundle),
            env=machine.environment(),
            cwd=machine.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    async def said() -> bool:
        assert process.poll() is None, machine.told()
        return "Ctrl-C" in machine.log.read_text()

    try:
        await until("paddock up is up", said, told=machine.told)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)


@pytest.fixture
async def machine() -> AsyncIterator[OneMachine]:
    folder = stack_folder()
    try:
        async with StackWorld() as world:
            yield OneMachine(world, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def ready_node(client: Client) -> Node | None:
    nodes = (await client.list(Node)).items
    return next((n for n in nodes if any(c.type == "Ready" and c.status == "True" for c in n.status.conditions)), None)


async def test_a_job_runs_on_a_mac_that_one_machine_looks_after(machine: OneMachine):
    world = machine.world
    world.images += [each["spec"]["image"] for each in examples() if each["kind"] == "RunnerPool"]
    bundle = await asyncio.to_thread(linux_bundle, machine.folder)
    async with up(machine, world.ssh_port, bundle):
        world.github.deliver_to(f"http://127.0.0.1:{machine.page_port}/webhooks/github")
        async with Client(from_kubeconfig(machine.kubeconfig)) as client, PodEnds(client, "default") as ends:
            for made in examples():
                await client.create(made, RESOURCES[made["kind"]])
            mac = await until("the Mac is ordered and delivered", world.ordered_mac, told=machine.told)
            node = await until("the Mac is a ready Node", lambda: ready_node(client), 180.0, machine.told)

            # It speaks for itself alone, over TLS to the address it was told, by a certificate of this machine's authority.
            given = yaml.safe_load(mac.disk.at("/etc/tart-kubelet/kubeconfig").read_text())
            assert given["clusters"][0]["cluster"]["server"] == f"https://{ADDRESS}:{machine.kube_port}"
            assert given["users"][0]["name"] == f"system:node:{node.metadata.name}"

            job = world.submit("on one machine")

            async def over() -> bool:
                return world.github.job(job.id).status == "completed"

            world.let_end(job)
            await until("the job is over", over, 120.0, machine.told)
            assert (job.conclusion, world.accepted[job.id]) == ("success", 1)

            async def said() -> bool:
                return any("Job completed with result: Succeeded" in end for end in ends.messages)

            await until("the Pod says how its job ended", said, told=machine.told)
        checked = await asyncio.to_thread(
            subprocess.run,
            [PADDOCK, "doctor", "-o", "json", "--kubeconfig", str(machine.kubeconfig)],
            env={**machine.environment(), "KUBECONFIG": str(machine.kubeconfig)},
            cwd=machine.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        found = {check["about"]: check["found"] for check in json.loads(checked.stdout)}
        # The one thing that is wrong here is wrong on purpose: this Mac is on the same machine.
        assert "loopback, which no Mac reaches" in found["Macs to the API"]
        assert (found["node agent"], found["Tart"]) == ("Macs get one", "Macs are told where to get it")
        assert "GitHub App" not in found
