"""Which idle Pods a pool lets go: those that can be of no use, those that took too long, and those that are too many."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

from paddock.base.explanation import span
from paddock.kube.builtin import Node, Pod
from paddock.runners.pools.nodes import LICENSED, closed, healthy, marked_of, nodes_of, seats_of, unready_since
from paddock.runners.pools.observation import Draft, PoolObservation, Retirement, age, outdated
from paddock.runners.pools.pod_names import golden_label
from paddock.runners.pools.pod_predicates import (
    alive,
    drain_since,
    marked,
    operator_drained,
    pulls,
    scheduled_at,
    stalled_since,
    terminal,
    unschedulable,
    warm,
)
from paddock.runners.pools.pod_predicates import unready_since as vm_unready_since

__all__ = ["let_stalled_go", "let_surplus_go", "let_useless_go"]


def let_useless_go(draft: Draft) -> None:
    """Idle Pods that no job should get, or that will never ask for one."""
    seen = draft.seen
    crowded = _crowded(seen) if seen.pool.spec.os == "darwin" else Counter[str]()
    # The youngest first: of three VMs on a Mac, the one that came last is the one that should not have.
    for pod in sorted(draft.idle, key=age, reverse=True):
        name, node = pod.spec.node_name, seen.nodes.get(pod.spec.node_name)
        if operator_drained(pod):
            draft.let_go(pod, "operator_drain", "a person asked for it to be drained")
        elif pod.metadata.uid in seen.homeless:
            draft.let_go(pod, "no_service_account", "its ServiceAccount is gone, so it can never ask for a job")
        elif name and name in seen.gone:
            draft.let_go(pod, "node_gone", f"its Node {name} does not exist any more")
        elif node is not None and closed(node):
            draft.let_go(pod, "node_closed", f"its Node {name} is cordoned or leaving")
        elif node is not None and marked_of(node) is not None:
            draft.let_go(pod, "jobs_fail", f"jobs fail at once on its Mac {name}, so that it gets none")
        elif node is not None and _deserted(draft, node):
            draft.let_go(pod, "node_unready", f"its Node {name} has not been ready for minutes, and others are")
        elif crowded[name] > (allowed := _seats(node)):
            crowded[name] -= 1
            draft.let_go(pod, "licence", f"the Mac {name} may run {allowed} VMs, and has more")
        else:
            _overdue(draft, pod, node)


def _deserted(draft: Draft, node: Node) -> bool:
    """Not ready for as long as Kubernetes would wait. Where no Node of the fleet is, the fault is nearer to us than to them."""
    seen = draft.seen
    since = unready_since(node)
    if since is None or not any(healthy(each) for each in nodes_of(seen.pool, seen.nodes)):
        return False
    return draft.passed(since + seen.settings.unready_timeout)


def let_stalled_go(draft: Draft) -> None:
    """Pods whose poller is done and whose runner does not start; not idle by their looks, so the ledger decides."""
    seen = draft.seen
    limit = timedelta(seconds=seen.pool.spec.provisioning.start_timeout_seconds)
    for pod in draft.living if limit else ():
        since = stalled_since(pod)
        if since is not None and pod.metadata.uid not in seen.held and draft.passed(since + limit):
            why = "its poller is done and its runner did not start in time"
            draft.retire.append(Retirement(pod, "runner_not_started", why, pod.spec.node_name))


def _overdue(draft: Draft, pod: Pod, node: Node | None) -> None:
    """Pods that took too long: to find a Node, to start on it, or to listen to a drain."""
    seen = draft.seen
    pool, settings = seen.pool, seen.settings
    limit = timedelta(seconds=pool.spec.provisioning.start_timeout_seconds)
    if marked(pod) and warm(pod, pool.spec.os):
        since = drain_since(pod)
        if since is not None and draft.passed(since + settings.drain_timeout):
            draft.let_go(pod, "drain_ignored", "it was told to drain and still waits for a job")
        return
    if not limit or warm(pod, pool.spec.os):
        return
    if (bound := scheduled_at(pod)) is not None and pod.spec.node_name:
        # A Mac that does not hold the image yet fetches it first; replacing the Pod would begin that anew, for ever.
        cold = pool.spec.os == "darwin" and (node is None or golden_label(pool.spec.image) not in node.metadata.labels)
        allowed = max(limit, settings.cold_start) if cold else limit
        if pod.status.phase == "Running" and node is not None and unready_since(node) is not None:
            return  # nobody can tell how it is: what becomes of it is the question of its Node
        if cold and node is not None and unready_since(node) is None and pulls(pod):
            return  # an image may take hours, and another Pod would wait for the same
        # A VM that lost its way to dispatch has the same time again, from then on.
        began = max(bound, vm_unready_since(pod) or bound) if pool.spec.os == "darwin" else bound
        if draft.passed(began + allowed):
            why = f"it got the Node {pod.spec.node_name} and did not ask for a job there within {span(allowed)}"
            draft.let_go(pod, "start_timeout", why, pod.spec.node_name, allowed - limit)
        return
    said = unschedulable(pod)
    since = said.last_transition_time if said is not None else None
    if since is not None and draft.passed(since + limit):
        draft.let_go(pod, "unschedulable", "no Node had room for it in time; its place among the starting is needed")


def let_surplus_go(draft: Draft) -> None:
    """Let the surplus go, idle Pods only; the rest of it leaves as jobs finish."""
    seen = draft.seen
    surplus = len(draft.living) - len(draft.retire) - draft.finishing - seen.pool.spec.replicas
    if surplus <= 0:
        return
    crowd = Counter(pod.spec.node_name for pod in (*draft.living, *seen.sibling_pods) if alive(pod))
    order = sorted(draft.idle, key=lambda pod: _goes_first(pod, seen, crowd))
    for pod in order[:surplus]:
        draft.let_go(pod, "scaled_down", f"the pool needs {seen.pool.spec.replicas} Pods and has more")


def _goes_first(
    pod: Pod, seen: PoolObservation, crowd: Mapping[str, int]
) -> tuple[bool, bool, bool, bool, int, float, str]:
    """Never warm; then told to drain, then stale; then on a Node that is not healthy, or is nearly empty; then the newest.

    Emptying the emptiest Node first leaves holes that large Pods fit into.
    """
    node = seen.nodes.get(pod.spec.node_name)
    return (
        warm(pod, seen.pool.spec.os),
        not marked(pod),
        not outdated(pod, seen),
        node is not None and healthy(node),
        crowd.get(pod.spec.node_name, 0),
        -age(pod),
        pod.metadata.name,
    )


def _seats(node: Node | None) -> int:
    offered = seats_of(node) if node is not None else None
    return LICENSED if offered is None else offered


def _crowded(seen: PoolObservation) -> Counter[str]:
    """How many VMs each Mac has."""
    return Counter(_nodes_with_vm((*seen.pods, *seen.sibling_pods)))


def _nodes_with_vm(pods: Iterable[Pod]) -> Iterable[str]:
    return (pod.spec.node_name for pod in pods if pod.spec.node_name and not terminal(pod))
