"""One stack, as real as this machine allows: a workflow job from webhook to success, and what is killed on its way.

GitHub's view is the judge: the job succeeded, and one runner had it. The parts share one stack and are killed one after the
other, each while a job runs; the job then ends while the part is down.
"""

import asyncio
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
import yaml
from doubles.github_judge import judge, seen
from kube.stack import RUNNERS, Stack, stack_folder, until
from kube.stack_world import StackWorld
from kube.supervision import ControlPlaneError

from paddock.kube.builtin import Node, Pod
from paddock.simulator.github.state import SimulatedJob

pytestmark = pytest.mark.asyncio(loop_scope="module")
DONE = "Job completed with result: Succeeded"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    from kube.controlplane import provide_binaries, running_control_plane

    folder = stack_folder()
    try:
        with running_control_plane(provide_binaries(), scheduler=True) as plane:
            async with StackWorld() as world, Stack(plane, world, folder) as made:
                yield made
            for name in reversed(plane.processes):
                # Nobody will look at it again: nothing has to be finished in good order.
                await asyncio.to_thread(plane.kill, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def waiting_pods(stack: Stack) -> list[str]:
    """Pods whose VMs wait for a job."""
    found = (await stack.admin.list(Pod, RUNNERS)).items
    return [
        pod.metadata.name
        for pod in found
        if pod.status.phase == "Running"
        and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    ]


async def runs(stack: Stack, job: SimulatedJob) -> bool:
    return stack.world.github.job(job.id).status == "in_progress"


async def is_over(stack: Stack, job: SimulatedJob) -> bool:
    return stack.world.github.job(job.id).status == "completed"


async def told_its_end(stack: Stack, job: SimulatedJob) -> bool:
    return any(f"Running job: {job.name}\n" in message and DONE in message for message in stack.pods.messages)


async def is_logged(stack: Stack, job: SimulatedJob) -> bool:
    """By `kubectl logs`: the API server dials the agent, which asks the cluster whether it may be told."""
    for pod in (await stack.admin.list(Pod, RUNNERS)).items:
        asked = ("-n", RUNNERS, "logs", pod.metadata.name, "--tail=50")
        with suppress(ControlPlaneError):  # another Pod's VM has not started
            if f"Running job: {job.name}\n" in await asyncio.to_thread(stack.plane.run_kubectl, *asked):
                return True
    return False


async def ready_node(stack: Stack) -> Node | None:
    nodes = (await stack.admin.list(Node)).items
    return next((n for n in nodes if any(c.type == "Ready" and c.status == "True" for c in n.status.conditions)), None)


async def test_the_operators_routes_are_behind_tls_of_its_own_authority_alone(stack: Stack):
    authority = stack.folder / "mounts" / "operator" / "dispatch-ca" / "ca.crt"

    async def mounted() -> bool:
        return authority.exists()

    await until("the operator made the certificate", mounted, told=stack.told)
    path = "/api/internal/runners/desired_replicas?fleet=macos"
    context = ssl.create_default_context(cafile=str(authority))
    async with httpx2.AsyncClient(verify=context, trust_env=False) as http:

        async def served() -> int:
            try:
                return (await http.get(f"https://localhost:{stack.internal_port}{path}")).status_code
            except httpx2.TransportError:
                return 0

        assert await until("dispatch serves with it", served, told=stack.told) == 401
        assert (await http.get(stack.dispatch_url + path)).status_code == 404


async def test_a_job_goes_from_webhook_to_success_on_a_mac_with_what_we_ship(stack: Stack):
    node = await until("the Mac is a ready Node", lambda: ready_node(stack), 720.0, stack.told)
    assert node.spec.provider_id.endswith(stack.host.id)
    await until("a VM waits for a job", lambda: waiting_pods(stack), told=stack.told)
    job = stack.world.submit("first")
    await until("the job runs", lambda: runs(stack, job), told=stack.told)
    await until("kubectl logs shows the job", lambda: is_logged(stack, job), told=stack.told)
    stack.world.let_end(job)
    await until("the job is over", lambda: is_over(stack, job), told=stack.told)
    assert (job.conclusion, stack.world.accepted[job.id]) == ("success", 1)
    await until("the Pod says how its job ended", lambda: told_its_end(stack, job), told=stack.told)


async def test_what_runs_is_what_was_built_and_the_mac_is_a_node_and_no_more(stack: Stack):
    environment = dict(stack.programs["operator"].environment)
    asked = [sys.executable, "-c", "import paddock; print(paddock.__file__)"]
    said = subprocess.run(asked, env=environment, cwd="/", capture_output=True, text=True, check=True)
    assert Path(said.stdout.strip()).is_relative_to(stack.folder / "wheel")
    pid = stack.agent_pid()
    assert pid is not None
    assert Path(f"/proc/{pid}/exe").readlink().is_relative_to(stack.mac.disk.at("/usr/local/lib/paddock/node-agent"))
    [machine] = [node.metadata.name for node in (await stack.admin.list(Node)).items]
    kubeconfig = stack.mac.disk.at("/etc/tart-kubelet/kubeconfig")
    assert [user["name"] for user in yaml.safe_load(kubeconfig.read_text())["users"]] == [f"system:node:{machine}"]
    issued = stack.plane.run_kubectl("get", "certificatesigningrequests", "-o", "wide")
    assert "kube-apiserver-client-kubelet" in issued
    assert "Approved,Issued" in issued


async def test_nobody_was_refused_what_it_asked_of_the_cluster(stack: Stack):
    """The chart's rights are enough for operator and dispatch, and a node's for the agent.

    It is asked before the API server is killed: one that starts anew refuses for a moment what it will allow.
    """
    told = {name: program.log.read_text(errors="replace") for name, program in stack.programs.items()}
    told["agent"] = stack.world.agents_log(stack.host)
    words = ("forbidden", "Not Acceptable", "Traceback")
    assert [
        (name, line) for name, text in told.items() for line in text.splitlines() if any(w in line for w in words)
    ] == []


@pytest.mark.parametrize("what", ["operator", "dispatch", "agent", "postgres", "kube-apiserver"])
async def test_a_job_succeeds_once_whoever_is_killed_in_the_middle(stack: Stack, what: str):
    job = stack.world.submit(f"under a killed {what}")
    await until("the job runs", lambda: runs(stack, job), told=stack.told)
    await stack.kill(what)
    stack.world.let_end(job)
    await until("the job is over", lambda: is_over(stack, job), told=stack.told)
    await stack.bring_back(what)
    assert (job.conclusion, stack.world.accepted[job.id]) == ("success", 1)
    await until("the Pod says how its job ended", lambda: told_its_end(stack, job), told=stack.told)
    # A new operator leads when the killed one's lease has ended: no Pod is made before.
    await until("a VM waits for the next job", lambda: waiting_pods(stack), 360.0, stack.told)


async def test_no_job_ran_twice_and_no_pod_ended_badly(stack: Stack):
    assert len(stack.world.accepted) == 6
    assert set(stack.world.accepted.values()) == {1}
    # Nothing of ours was forced, so that every count is zero: GitHub must have lost nobody's runner either.
    judge(seen(stack.world.github.state.jobs.values()), counted=0)
    assert [(end.exit_code, end.reason, end.message) for end in stack.pods.ends if end.exit_code] == []
    assert stack.mac.violations == []
