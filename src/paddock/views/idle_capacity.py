"""Capacity that is good and unused beside jobs that may run, and jobs on Macs that are gone. Pure.

Either is a problem of its own, whatever its cause: a fleet on which jobs wait beside idle Macs is not healthy, and a job
whose Mac was wiped does not run, although nobody has said so yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.base.explanation import span
from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.runners.api import OWNER_LABEL, POOL_LABEL, RUNNER_LABEL, RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.runners.pools.capacity import free_places
from paddock.runners.pools.nodes import unready_since
from paddock.runners.pools.pod_predicates import alive, busy, terminal, warm, warm_since

__all__ = ["IdleBesideJobs", "LostRunner", "idle_beside_jobs", "lost_runners"]

_HANDED_OVER = timedelta(seconds=20)
"""A job is handed to a warm Pod within a second or two; the queue is measured every ten."""
_STARTED = timedelta(minutes=1)
"""A Pod for a free place is made within seconds, and its VM boots in less than this."""


@dataclass(frozen=True, slots=True)
class IdleBesideJobs:
    pool: str
    beside: timedelta
    """How long the jobs wait beside it."""
    jobs: int
    warm: int
    places: int
    cause: str

    @property
    def sentence(self) -> str:
        have = []
        if self.warm:
            have.append(f"{self.warm} warm Pod{'' if self.warm == 1 else 's'} without a job")
        if self.places:
            have.append(f"{self.places} free place{'' if self.places == 1 else 's'} on good Macs")
        may = f"{self.jobs} job{' that may run waits' if self.jobs == 1 else 's that may run wait'}"
        return f"{may} beside {' and '.join(have)}; {self.cause}"


@dataclass(frozen=True, slots=True)
class LostRunner:
    """A Pod that was assigned a job, and whose Node is gone or silent since that moment."""

    pod: str
    node: str
    since: datetime | None
    gone: bool


def idle_beside_jobs(
    pools: Sequence[RunnerPool], nodes: Sequence[Node], pods: Sequence[Pod], summary: QueueSummary, now: datetime
) -> Iterable[IdleBesideJobs]:
    """The pools in which jobs wait longer than a hand-over takes although there is room for them, each with its cause."""
    for pool in pools:
        name = pool.metadata.name
        jobs, waited = summary.dispatchable_by_pool.get(name, 0), summary.oldest_by_pool.get(name, 0.0)
        if not jobs or waited <= _HANDED_OVER.total_seconds():
            continue
        places = free_places(pool, pools, nodes, pods, now)
        idle = pool.status.idle
        beside = timedelta(seconds=waited)
        if idle and (began := _warm_since(pool, pods)) is not None:
            beside = min(beside, now - began)  # a Pod that is warm since a moment ago is about to be handed its job
        # As many Pods as there are jobs are starting: that is what can be done, and it takes as long as a VM boots.
        covered = jobs <= pool.status.starting and not idle
        handing = idle and beside <= _HANDED_OVER
        if ((idle and not handing) or (places and waited > _STARTED.total_seconds())) and not covered:
            yield IdleBesideJobs(name, beside, jobs, idle, places, _cause(pool, pods, now))


def _warm_since(pool: RunnerPool, pods: Sequence[Pod]) -> datetime | None:
    """Since when one of the pool's Pods waits for a job; None where none of them says so."""
    mine = [pod for pod in pods if pod.metadata.labels.get(POOL_LABEL) == pool.metadata.name]
    free = [pod for pod in mine if alive(pod) and not busy(pod) and warm(pod, pool.spec.os)]
    return min((since for pod in free if (since := warm_since(pod, pool.spec.os)) is not None), default=None)


def _warm_of(pool: RunnerPool, pods: Sequence[Pod]) -> int | None:
    """How many Pods of the pool's live and have no job; None where none of its Pods is known, dead or alive."""
    mine = [pod for pod in pods if pod.metadata.labels.get(POOL_LABEL) == pool.metadata.name]
    living = [pod for pod in mine if not terminal(pod)]
    return sum(OWNER_LABEL not in pod.metadata.labels for pod in living) if mine else None


def _cause(pool: RunnerPool, pods: Sequence[Pod], now: datetime) -> str:
    spec, status = pool.spec, pool.status
    there = _warm_of(pool, pods)
    if there is not None and there < status.idle:
        counted = (
            f"the operator counted {span(now - status.observed_at)} ago" if status.observed_at else "its status is old"
        )
        return f"the pool counts {status.idle} warm Pods and has {there}, because {counted}"
    ready, scaled = get_condition(status.conditions, "Ready"), get_condition(status.conditions, "Autoscaled")
    if pool.metadata.deletion_timestamp is not None:
        return "the pool is being deleted"
    if status.idle:
        return "dispatch has not handed the jobs to the warm Pods: `paddock doctor` says whether it reaches GitHub and the database"
    if ready is not None and ready.status == "False" and ready.message:
        return f"the pool says {ready.reason}: {ready.message}"
    if status.replicas >= spec.replicas:
        if spec.autoscaling.enabled and spec.replicas >= spec.autoscaling.max_replicas:
            return f"the pool may have {spec.autoscaling.max_replicas} Pods (autoscaling.maxReplicas) and has them"
        if not spec.autoscaling.enabled:
            return f"the pool is kept at {spec.replicas} Pods (replicas), and autoscaling is off"
        if scaled is not None and scaled.message:
            return f"the autoscaler wants {spec.replicas} Pods: {scaled.message}"
        return f"the autoscaler wants {spec.replicas} Pods and has not looked since"
    return f"the pool has {status.replicas} of {spec.replicas} Pods, and the operator has made no more yet"


def lost_runners(pods: Iterable[Pod], nodes: Sequence[Node]) -> Iterable[LostRunner]:
    """Assigned Pods that have not ended, on Nodes that are gone or not Ready."""
    known: Mapping[str, Node] = {node.metadata.name: node for node in nodes}
    for pod in pods:
        labels, name = pod.metadata.labels, pod.spec.node_name
        if labels.get(RUNNER_LABEL) != "true" or not labels.get(OWNER_LABEL) or not name:
            continue
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        node = known.get(name)
        if node is None:
            yield LostRunner(pod.metadata.name, name, pod.metadata.deletion_timestamp, gone=True)
        elif (since := unready_since(node)) is not None:
            yield LostRunner(pod.metadata.name, name, since, gone=False)
