"""How a pool replaces Pods of an older image or shape: a few at a time, and none that serves a job."""

from paddock.kube.builtin import Pod
from paddock.runners.pools.observation import Draft, PoolObservation, age
from paddock.runners.pools.pod_predicates import marked, warm

__all__ = ["roll"]


def roll(draft: Draft) -> None:
    """Replace stale Pods, a few at a time.

    What is unavailable counts against the few: Pods told to drain, Pods that start, and Pods that are missing; so a new
    image that does not start stops its own roll. Pods that run (a VM) are told to drain and leave by themselves; the
    others are replaced.
    """
    seen, pool = draft.seen, draft.seen.pool
    old = [pod for pod in draft.idle if pod.metadata.uid in draft.outdated]
    if not old:
        return
    # What never started serves nobody: waiting its turn, a shape that fits nowhere would keep the corrected one from its place.
    for pod in [pod for pod in old if pod.status.phase == "Pending" and not pod.spec.node_name]:
        old.remove(pod)
        draft.let_go(pod, "rolled", "its pool has a newer image, RuntimeClass or shape, and it has no Node yet")
    cap = max(1, pool.spec.replicas * pool.spec.rollout.max_concurrent_percent // 100)
    os = pool.spec.os
    rolling = sum(marked(pod) for pod in old)
    rolling += sum(pod.metadata.uid not in draft.outdated and not warm(pod, os) for pod in draft.idle)
    rolling += len(draft.retire) + max(0, pool.spec.replicas - len(draft.living))
    waiting = sorted((pod for pod in old if not marked(pod)), key=lambda pod: (_asks(pod, os), age(pod)))
    for pod in waiting[: max(0, cap - rolling)]:
        if _asks(pod, os) and _same_but_image(pod, seen):
            draft.mark.append(pod)
        else:
            draft.let_go(pod, "rolled", "its pool has a newer image, RuntimeClass or shape")


def _asks(pod: Pod, os: str) -> bool:
    """Runs, and hears of a drain when it next asks for a job."""
    return pod.status.phase == "Running" and (os != "darwin" or warm(pod, os))


def _same_but_image(pod: Pod, seen: PoolObservation) -> bool:
    """Whether dispatch can see that the Pod is stale: it compares images, and drains no Pod of the current one."""
    return all(container.image != seen.pool.spec.image for container in pod.spec.containers)
