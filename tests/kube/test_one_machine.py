"""`paddock up` without `--simulate`: one machine, a real Mac's worth of SSH, agent, certificates and guest, and a job.

What others make is the world of the one stack: Scaleway and GitHub over HTTP, a Mac over SSH, Tart. Ours runs from the
command line and the objects that `docs/first-mac.md` gives, but for addresses and sizes. The Mac finds this machine under another address than
the one that the kubeconfig of people has: only the certificate that `--advertise-address` asks for is good for it.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube.ports import free_port
from kube.stack import PodEnds, linux_bundle, stack_folder, until
from kube.stack_world import TART_URL, StackWorld

from paddock.hosts.api import MacFleet
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.runners.api import RunnerPool
from paddock.simulator.github.state import SimulatedJob

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
        self.process: subprocess.Popen[bytes] | None = None

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
            "PADDOCK_GITHUB_WEBHOOKS": "off",
            "PADDOCK_GITHUB_API_URL": self.world.github_url,
            "PADDOCK_BUNDLE_TARGET": "linux-x86_64",
        }

    def command(self, ssh_port: int, bundle: Path) -> list[str]:
        return [
            *(
                PADDOCK,
                "up",
                "--data",
                str(self.folder / "data"),
                "--advertise-address",
                ADDRESS,
                "--allow-account",
                "acme",
            ),
            *("--port", str(self.page_port), "--kube-port", str(self.kube_port)),
            *("--dispatch-port", str(self.dispatch_port), "--ssh-port", str(ssh_port)),
            *("--agent-bundle", str(bundle), "--tart-url", TART_URL, "--tart-sha256", self.world.tart_sha256),
            *("--log-level", "info"),
        ]

    async def start(self, bundle: Path) -> None:
        """As a person types it; returns when it says that it is up."""
        begun = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            started = self.process = subprocess.Popen(
                self.command(self.world.ssh_port, bundle),
                env=self.environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        async def said() -> bool:
            assert started.poll() is None, self.told()
            return b"Ctrl-C" in self.log.read_bytes()[begun:]

        await until("paddock up is up", said, told=self.told)

    async def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            await asyncio.to_thread(self.process.wait, 30)
            self.process = None

    def told(self) -> str:
        texts = [self.log.read_text(errors="replace"), *map(self.world.agents_log, self.world.cloud.hosts())]
        return "\n---\n".join("\n".join(text.splitlines()[-30:]) for text in texts)


@pytest.fixture
async def machine() -> AsyncIterator[OneMachine]:
    folder = stack_folder()
    try:
        async with StackWorld() as world:
            made = OneMachine(world, folder)
            try:
                yield made
            finally:
                await made.end(signal.SIGTERM)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def ready_node(client: Client) -> Node | None:
    nodes = (await client.list(Node)).items
    return next((n for n in nodes if any(c.type == "Ready" and c.status == "True" for c in n.status.conditions)), None)


async def in_progress(machine: OneMachine, job: SimulatedJob) -> bool:
    return machine.world.github.job(job.id).status == "in_progress"


async def over(machine: OneMachine, job: SimulatedJob) -> bool:
    return machine.world.github.job(job.id).status == "completed"


async def told_its_end(ends: PodEnds, job: SimulatedJob) -> bool:
    done = "Job completed with result: Succeeded"
    return any(f"Running job: {job.name}\n" in message and done in message for message in ends.messages)


async def heard_its_end(machine: OneMachine, ends: PodEnds, job: SimulatedJob) -> bool:
    """By our own watch or by its log: a Pod may be reported and gone before a watch that the kill broke follows again."""
    logged = f"Running job: {job.name}\\nJob completed with result: Succeeded"
    return await told_its_end(ends, job) or logged in machine.log.read_text(errors="replace")


async def test_a_job_runs_on_a_mac_that_one_machine_looks_after_also_when_it_is_killed(machine: OneMachine):
    world = machine.world
    world.images += [each["spec"]["image"] for each in examples() if each["kind"] == "RunnerPool"]
    bundle = await asyncio.to_thread(linux_bundle, machine.folder)
    await machine.start(bundle)
    async with Client(from_kubeconfig(machine.kubeconfig)) as client, PodEnds(client, "default") as ends:
        for made in examples():
            await client.create(made, RESOURCES[made["kind"]])
        mac = await until("the Mac is ordered and delivered", world.ordered_mac, told=machine.told)
        node = await until("the Mac is a ready Node", lambda: ready_node(client), 720.0, machine.told)

        # It speaks for itself alone, over TLS to the address it was told, by a certificate of this machine's authority.
        given = yaml.safe_load(mac.disk.at("/etc/tart-kubelet/kubeconfig").read_text())
        assert given["clusters"][0]["cluster"]["server"] == f"https://{ADDRESS}:{machine.kube_port}"
        assert given["users"][0]["name"] == f"system:node:{node.metadata.name}"

        first = world.submit("first")
        world.let_end(first)
        await until("the job is over", lambda: over(machine, first), 360.0, machine.told)
        await until("the Pod says how its job ended", lambda: told_its_end(ends, first), told=machine.told)

        second = world.submit("second")
        await until("the next job runs", lambda: in_progress(machine, second), 360.0, machine.told)
        await machine.end(signal.SIGKILL)
        world.let_end(second)
        await until("it ends without us", lambda: over(machine, second), told=machine.told)
        await machine.start(bundle)
        await until("the Pod says how its job ended", lambda: heard_its_end(machine, ends, second), told=machine.told)
    for job in (first, second):
        assert (job.conclusion, world.accepted[job.id]) == ("success", 1)
    assert [end.message for end in ends.ends if end.exit_code] == []
    assert "Traceback" not in machine.log.read_text()
    found = await doctored(machine)
    # The one thing that is wrong here is wrong on purpose: this Mac is on the same machine.
    assert "loopback, which no Mac reaches" in found["Macs to the API"]
    assert (found["node agent"], found["Tart"]) == ("Macs get one", "Macs are told where to get it")
    assert "GitHub App" not in found


async def doctored(machine: OneMachine) -> dict[str, str]:
    checked = await asyncio.to_thread(
        subprocess.run,
        [PADDOCK, "doctor", "-o", "json", "--kubeconfig", str(machine.kubeconfig)],
        env={**machine.environment(), "KUBECONFIG": str(machine.kubeconfig)},
        cwd=machine.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout, checked.stderr
    return {check["about"]: check["found"] for check in json.loads(checked.stdout)["items"]}
