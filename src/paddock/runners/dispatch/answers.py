"""What a waiting Pod can be told, and which Pods have to go instead of being given a job: docs/design/dispatch.md."""

from dataclasses import dataclass
from typing import Final

from paddock.base.secrets import Secret
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import (
    ACCOUNT_LABEL,
    DRAIN_ELIGIBLE_LABEL,
    OPERATOR_DRAIN_LABEL,
    RUNNER,
    RunnerPool,
)

__all__ = ["NOTHING", "SUPERSEDED", "HandedJob", "PollAnswer", "exit_now", "later", "must_go", "must_wait"]


@dataclass(frozen=True, slots=True)
class HandedJob:
    """A runner for this Pod alone. The config is shown once, in the body of the answer, and nowhere else."""

    config: Secret
    owner: str
    job_id: int


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """`outcome` is what the counters call it; `reason` is what the Pod's log will say."""

    status: int
    outcome: str
    reason: str = ""
    retry_after: float = 0.0
    handed: HandedJob | None = None


NOTHING: Final = PollAnswer(204, "nothing")
SUPERSEDED: Final = PollAnswer(204, "superseded")
"""A newer request of the same Pod waits in this one's place."""


def exit_now(outcome: str, reason: str) -> PollAnswer:
    """The Pod ends and is replaced; it is never given a job, or never a second one."""
    return PollAnswer(410, outcome, reason)


def later(outcome: str, reason: str, seconds: float = 2.0) -> PollAnswer:
    """Nothing is wrong with the Pod: it asks again after that."""
    return PollAnswer(503, outcome, reason, retry_after=seconds)


def must_go(pod: Pod | None, pool: RunnerPool | None) -> PollAnswer | None:
    """The 410 for a Pod that is to end, or None for one that may be served.

    What could not be looked up counts as good: a blip of the API server must not stop dispatch, and everything that
    matters for safety is settled by the ledger. An older image alone is no reason, its turn in the roll must have come.
    """
    if pod is None:
        return None
    labels = pod.metadata.labels
    if pod.metadata.deletion_timestamp is not None:
        return exit_now("deleting", "this Pod is being deleted")
    if ACCOUNT_LABEL in labels:
        # Its 200 was lost. It must not wait for a second tenant.
        return exit_now("committed", "this Pod was handed a runner before")
    if labels.get(OPERATOR_DRAIN_LABEL) == "true":
        return exit_now("operator_drain", "an operator asked for this Pod to be retired")
    if labels.get(DRAIN_ELIGIBLE_LABEL) == "true" and pool is not None and _image(pod) not in ("", pool.spec.image):
        return exit_now("drain", "this Pod runs an older image of its pool")
    return None


def must_wait(pod: Pod | None, node: Node | None) -> PollAnswer | None:
    """The 503 for a Pod whose Node takes no more work, or None. A Node that is not known is no reason to wait.

    Whoever drains a Node fences it first: a job that came after that would be waited for, or lost with the Mac. The Pod
    itself is fine, so it asks again: its Node may be opened, or its pool retires it.
    """
    if pod is None or node is None or not pod.spec.node_name:
        return None
    if not node.spec.unschedulable and node.metadata.deletion_timestamp is None:
        return None
    what = "is cordoned" if node.spec.unschedulable else "is being deleted"
    return later("cordoned", f"Node {node.metadata.name} {what}: no job is given to its Pods until it is opened", 5.0)


def _image(pod: Pod) -> str:
    """The image of the container that runs the job."""
    containers = pod.spec.containers
    named = next((container for container in containers if container.name == RUNNER), None)
    return (named or containers[0]).image if containers else ""
