"""One stack, as real as this machine allows: a workflow job from webhook to success, and what is killed on its way.

GitHub's view is the judge: the job succeeded, and one runner had it.
"""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kube.stack import NAMESPACE, Stack, stack_folder, until
from kube.stack_world import StackWorld

from paddock.kube.builtin import Node, Pod
from paddock.simulator.github.state import SimulatedJob

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    from kube.controlplane import provide_binaries, running_control_plane

    folder = stack_folder()
    try:
        with running_control_plane(provide_binaries(), scheduler=True) as plane:
            async with StackWorld() as world, Stack(plane, world, folder) as made:
                yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def waiting_pod(stack: Stack) -> str | None:
    """A Pod whose VM waits for a job."""
    for pod in (await stack.admin.list(Pod, NAMESPACE)).items:
        ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        if ready and pod.status.phase == "Running":
            return pod.metadata.name
    return None


async def in_progress(stack: Stack, job: SimulatedJob) -> bool:
    return stack.world.github.job(job.id).status == "in_progress"


async def over(stack: Stack, job: SimulatedJob) -> bool:
    return stack.world.github.job(job.id).status == "completed"


async def test_a_job_goes_from_webhook_to_success_on_a_mac_with_what_we_ship(stack: Stack):
    async def node() -> Node | None:
        found = (await stack.admin.list(Node)).items
        ready = [n for n in found if any(c.type == "Ready" and c.status == "True" for c in n.status.conditions)]
        return ready[0] if ready else None

    made = await until("the Mac is a ready Node", node, 240.0, stack.told)
    assert made.spec.provider_id.endswith(stack.host.id)
    await until("a VM waits for a job", lambda: waiting_pod(stack), told=stack.told)
    job = stack.world.submit("first")
    await until("the job runs", lambda: in_progress(stack, job), told=stack.told)
    stack.world.let_end(job)
    await until("the job is over", lambda: over(stack, job), told=stack.told)
    assert (job.conclusion, stack.world.accepted[job.id]) == ("success", 1)


@pytest.mark.parametrize("what", ["operator", "dispatch", "agent", "postgres", "kube-apiserver"])
async def test_a_job_succeeds_once_whoever_is_killed_in_the_middle(stack: Stack, what: str):
    job = stack.world.submit(f"under a killed {what}")
    await until("the job runs", lambda: in_progress(stack, job), 90.0, stack.told)
    await stack.kill(what)
    stack.world.let_end(job)
    await until("the job is over", lambda: over(stack, job), told=stack.told)
    assert (job.conclusion, stack.world.accepted[job.id]) == ("success", 1)
