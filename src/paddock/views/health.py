"""Is all well, and if not, what first? One survey for the page and for `paddock status`, so that both say the same. Pure.

What is under way and young is no problem: a Mac that boots, a Pod that starts. What a person must know is a problem at
once, however young: a host that no machine owns, jobs that no runner runs, a spec that cannot work.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from paddock.base.explanation import Explanation, span
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.listing import unlisted_zones
from paddock.hosts.node_health import troubles
from paddock.hosts.orphans import HostState
from paddock.hosts.why import why_host, why_machine
from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition
from paddock.runners.api import RUNNER_LABEL, RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.causes import Known, by_cause
from paddock.views.folding import Found, folded, same
from paddock.views.idle_capacity import idle_beside_jobs, lost_runners
from paddock.views.problem import Problem, Ties
from paddock.views.runner_troubles import of_runners
from paddock.views.under_way import POOL_UNDER_WAY, is_young, under_way

__all__ = ["ASIDE", "FleetHealth", "Numbers", "survey"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine

_WIPING = timedelta(minutes=45)
_POD_STARTS = timedelta(minutes=5)
_POD_ENDS = timedelta(minutes=10)
_WAITS = timedelta(minutes=1)
_WAITS_TOO_LONG = timedelta(minutes=10)
_OUT_OF_SERVICE = frozenset({"HostInTrouble", "NodeMissing"})
"""Why a machine that was Ready is not."""
_WRITTEN_WRONG = frozenset({"InvalidConfiguration", "AmbiguousDispatchLabel"})
_POOL_GRACE = timedelta(minutes=1)
_RUNBOOKS = {"NoAvailableHost": "PaddockNoAvailableHost"}

# How much it hurts: jobs before Macs, Macs before money, money before housekeeping.
_KILLED, _NO_SERVICE, _LOST, _JOBS_WAIT, _UNSERVED, _POOL, _TOLD, _FAILED, _NOT_READY, _ORPHANED, _SHORT, _POD, ASIDE = (
    100, 95, 92, 90, 85, 80, 75, 70, 60, 50, 45, 40, 10,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Numbers:
    """The summary bar. None where the ledger cannot be asked. `held` waits for an approval, `unserved` for a pool."""

    oldest_dispatchable_seconds: float | None
    waiting: int | None
    withheld: int | None
    running: int | None
    warm: int
    hosts_ready: int
    hosts: int
    orphaned: int
    healed_last_day: int | None
    live_jobs_killed: int | None
    held: int | None = None
    unserved: int | None = None


@dataclass(frozen=True, slots=True)
class FleetHealth:
    ok: bool
    sentence: str
    numbers: Numbers
    problems: tuple[Problem, ...]
    """Causes, the worst first, each with what hangs on it."""
    going_on: tuple[Problem, ...] = ()
    """What is under way and no problem, the oldest first: why something waits."""


def survey(
    *,
    hosts: Sequence[Host],
    machines: Sequence[Machine],
    fleets: Sequence[MacFleet],
    pools: Sequence[RunnerPool],
    pods: Sequence[Pod],
    summary: QueueSummary | None,
    now: datetime,
    healed_last_day: int | None = None,
    live_jobs_killed: int | None = None,
    live_jobs_forced: int = 0,
    told: Sequence[str] = (),
    runners: bool = True,
    nodes: Sequence[Node] | None = None,
) -> FleetHealth:
    """How everything is at this moment. `nodes` is None where they were not read: then nothing is said of them.

    `summary` is None where the ledger did not answer; `live_jobs_forced` is how many of the jobs that were killed a person, or
    a limit that a person set, gave up: they are shown, and are no problem; `told` are sentences of processes about themselves, such as a watch
    that stalls; `runners` is False where there is no runner subsystem, and then its ledger is not missed.
    """
    ours = [host for host in hosts if host.status.state not in (HostState.FOREIGN, "gone")]
    ready = {machine.status.host_name for machine in machines if machine.status.ready}
    numbers = Numbers(
        oldest_dispatchable_seconds=summary.oldest_dispatchable_seconds if summary is not None else None,
        waiting=summary.dispatchable + summary.resting if summary is not None else None,
        withheld=summary.withheld if summary is not None else None,
        running=summary.running if summary is not None else None,
        warm=sum(pool.status.idle for pool in pools),
        hosts_ready=sum(host.metadata.name in ready for host in ours),
        hosts=len(ours),
        orphaned=sum(host.status.state == HostState.ORPHANED for host in hosts),
        healed_last_day=healed_last_day,
        live_jobs_killed=live_jobs_killed,
        held=summary.held if summary is not None else None,
        unserved=summary.unserved if summary is not None else None,
    )
    found = [
        *_of_the_ledger(summary, pools, (live_jobs_killed or 0) - live_jobs_forced, now, runners=runners),
        *_of_capacity(summary, pools, pods, nodes, now),
        *_of_lost_runners(pods, nodes),
        *of_runners(summary, impact=_POOL, unheard=_UNSERVED),
        *_of_processes(told, hosts),
        *_of_fleets(fleets),
        *folded([*_of_machines(machines, hosts, now), *_of_nodes(machines, nodes or (), now)], "machines"),
        *folded(_of_hosts(hosts, machines, now), "hosts"),
        *_of_pools(pools, now),
        *folded(_of_pods(pods, now), "pods"),
    ]
    known = Known(warm=numbers.warm, without_host=sum(not machine.status.host_name for machine in machines))
    problems = by_cause(sorted(found, key=lambda one: (-one.impact, one.since or now, one.about)), known, ASIDE)
    # What a person set aside on purpose is listed, and is no reason for alarm.
    wrong = [problem for problem in problems if problem.impact > ASIDE]
    going_on = under_way(machines, hosts, nodes or (), pools, summary, now)
    return FleetHealth(not wrong, _sentence(wrong, numbers), numbers, problems, going_on)


def _sentence(wrong: Sequence[Problem], numbers: Numbers) -> str:
    if not wrong:
        jobs = "" if numbers.running is None else f", {numbers.running} jobs run"
        return f"Healthy: {numbers.hosts_ready} of {numbers.hosts} Macs are ready{jobs}, nothing needs a person."
    first = wrong[0].sentence.partition(";")[0]
    count = sum(1 + len(problem.symptoms) for problem in wrong)
    more = f" ({count} problems in all)" if count > 1 else ""
    return f"Not healthy: {wrong[0].about}: {first}{more}"


def _of_the_ledger(
    summary: QueueSummary | None, pools: Sequence[RunnerPool], killed: int, now: datetime, *, runners: bool
) -> Iterable[Problem]:
    if killed > 0:
        yield Problem(
            _KILLED,
            "healing",
            f"{killed} live job{' was' if killed == 1 else 's were'} killed by healing, which must never happen",
            commands=("paddock get heals -o wide",),
            runbook="PaddockLiveJobKilled",
        )
    if summary is None:
        if runners:
            yield Problem(
                _NO_SERVICE,
                "dispatch",
                "the dispatch service or its database does not answer, so no job is handed out",
                doing="waiting Pods ask again by themselves",
                commands=("paddock doctor",),
                runbook="PaddockDispatchAbsent",
            )
        return
    waited = timedelta(seconds=summary.oldest_dispatchable_seconds)
    if waited > _WAITS:
        starting = sum(pool.status.starting for pool in pools)
        warm = sum(pool.status.idle for pool in pools)
        yield Problem(
            _JOBS_WAIT if waited > _WAITS_TOO_LONG else _NOT_READY,
            "queue",
            f"a job that may run now has waited {span(waited)}; {summary.dispatchable} may run, {warm} Pod{' is' if warm == 1 else 's are'} warm",
            since=now - waited,
            doing=f"{starting} Pod{'s are' if starting > 1 else ' is'} starting" if starting else "",
            commands=("paddock get jobs", *(f"paddock why pool {pool.metadata.name}" for pool in pools[:1])),
            runbook="PaddockJobsWaitTooLong",
        )


def _of_capacity(
    summary: QueueSummary | None,
    pools: Sequence[RunnerPool],
    pods: Sequence[Pod],
    nodes: Sequence[Node] | None,
    now: datetime,
) -> Iterable[Problem]:
    """Jobs that could run and do not: for want of a pool, or beside capacity that is idle."""
    if summary is None:
        return
    if summary.unserved:
        one = summary.unserved == 1
        yield Problem(
            _UNSERVED,
            "queue",
            f"{summary.unserved} job{' has labels' if one else 's have labels'} that no pool offers: {summary.unserved_why}",
            since=summary.unserved_since,
            doing="they are queued as soon as a pool offers their labels",
            commands=("paddock get jobs", "paddock get pools -o wide"),
            runbook="PaddockJobsUnserved",
            ties=Ties(by_itself=True),
        )
    if summary.resting and summary.resting_since is not None and now - summary.resting_since > _WAITS:
        said = f"{summary.resting} job{' waits' if summary.resting == 1 else 's wait'} because GitHub makes no runner"
        yield Problem(
            _UNSERVED,
            "github",
            f"{said}: {summary.resting_why}" if summary.resting_why else said,
            since=summary.resting_since,
            doing="asked again by itself, with growing pauses",
            commands=("paddock get jobs", "paddock doctor"),
            runbook="PaddockJobsWaitTooLong",
        )
    for source in summary.job_sources:
        if trouble := source.trouble(now):
            refused = source.state == "Refused"
            yield Problem(
                _UNSERVED,
                f"pool {source.pool}",
                f"jobs of {source.where} are not heard of: {trouble}",
                since=source.heard_at or source.since,
                doing="asked again every five minutes"
                if refused
                else "asked again by itself; GitHub keeps its messages",
                commands=(f"paddock why pool {source.pool}", "paddock doctor"),
                runbook="PaddockJobSourceRefused" if refused else "PaddockJobSourceLost",
                ties=Ties(by_itself=True),
            )
    for found in idle_beside_jobs(pools, nodes or (), pods, summary):
        yield Problem(
            _JOBS_WAIT if found.waited > _WAITS_TOO_LONG else _POOL,
            f"pool {found.pool}",
            found.sentence,
            since=now - found.waited,
            commands=(f"paddock why pool {found.pool}", "paddock get jobs", "paddock get pods"),
            runbook="PaddockIdleBesideJobs",
            ties=Ties(by_itself=True),
        )


def _of_lost_runners(pods: Sequence[Pod], nodes: Sequence[Node] | None) -> Iterable[Problem]:
    """Pods with a job on Macs that are gone or silent: what they ran does not run any more, or nobody can tell."""
    lost = list(lost_runners(pods, nodes)) if nodes is not None else []
    if not lost:
        return
    first = min(lost, key=lambda one: (not one.gone, one.pod))
    gone = sum(one.gone for one in lost)
    what = f"{gone} of their Nodes are gone" if gone else "their Nodes are not Ready"
    jobs = "a Pod with a job is" if len(lost) == 1 else f"{len(lost)} Pods with a job are"
    yield Problem(
        _LOST,
        "jobs",
        f"{jobs} on Macs that are gone or silent, such as {first.pod} on {first.node}; {what}",
        since=min((one.since for one in lost if one.since is not None), default=None),
        doing="GitHub fails such a job ten minutes after it last heard of its runner; the Pods are let go once that is proven",
        commands=("paddock get pods", f"paddock why pod {first.pod}"),
    )


def _of_processes(told: Sequence[str], hosts: Sequence[Host]) -> Iterable[Problem]:
    """What processes say about themselves; of zones that are not listed, what a Host says where nobody else does."""
    zones = {one.zone: one for one in unlisted_zones(hosts)}
    for sentence in told:
        zone = next((zone for zone in zones if sentence.startswith(f"zone {zone} ")), None)
        yield Problem(_TOLD, "paddock", sentence, since=zones.pop(zone).since if zone is not None else None)
    for one in zones.values():
        yield Problem(_TOLD, "paddock", one.sentence, since=one.since, commands=("paddock doctor",))


def _of_fleets(fleets: Sequence[MacFleet]) -> Iterable[Problem]:
    """Only what their machines do not tell: that there are too few of them."""
    for fleet in fleets:
        missing = fleet.spec.replicas - fleet.status.replicas
        if missing > 0 and fleet.status.observed_generation == fleet.metadata.generation:
            name = fleet.metadata.name
            yield Problem(
                _FAILED,
                f"fleet {name}",
                f"{missing} of its {fleet.spec.replicas} machines are not even made: {_message(fleet.status.conditions)}",
                since=_since(fleet.status.conditions),
                commands=(f"paddock why fleet {name}",),
                runbook="PaddockFleetBelowSize",
                ties=Ties(fleet=name),
            )


def _of_machines(machines: Sequence[Machine], hosts: Sequence[Host], now: datetime) -> Iterable[Found]:
    for machine in machines:
        meta, status = machine.metadata, machine.status
        if status.ready or PAUSED in meta.annotations:
            continue
        ready = get_condition(status.conditions, "Ready")
        reason = ready.reason if ready is not None else ""
        since = meta.deletion_timestamp or _since(status.conditions) or meta.creation_timestamp
        if is_young(machine, now):
            continue
        yield Found(
            _FAILED if status.failure_reason else _NOT_READY,
            status.failure_reason or ("Deleting" if meta.deletion_timestamp else reason),
            since,
            partial(why_machine, machine, hosts, machines, now),
            f"paddock why machine {meta.name}",
            "PaddockMachineFailed" if status.failure_reason else _RUNBOOKS.get(reason, "PaddockFleetBelowSize"),
            Ties(
                fleet=machine.spec.fleet_name,
                node=meta.name,
                lacks_host=not status.host_name,
                was_in_service=reason in _OUT_OF_SERVICE,
            ),
        )


def _of_nodes(machines: Sequence[Machine], nodes: Sequence[Node], now: datetime) -> Iterable[Found]:
    """Macs whose machine and Node are Ready, and which take no job all the same, such as for want of disk."""
    up = {
        node.metadata.name: node
        for node in nodes
        if any(said.type == "Ready" and said.status == "True" for said in node.status.conditions)
    }
    for machine in machines:
        name = machine.metadata.name
        if not machine.status.ready or name not in up or PAUSED in machine.metadata.annotations:
            continue
        if wrong := [trouble.sentence for trouble in troubles(up[name], now) if trouble.urgent]:
            said = Explanation(about=f"machine {name}", sentence="; ".join(wrong))
            ties = Ties(fleet=machine.spec.fleet_name, node=name, was_in_service=True)
            yield Found(_NOT_READY, "", None, partial(same, said), f"paddock why machine {name}", ties=ties)


def _of_hosts(hosts: Sequence[Host], machines: Sequence[Machine], now: datetime) -> Iterable[Found]:
    for host in hosts:
        release = host.spec.release
        if host.spec.quarantine:
            yield _host_found(host, machines, now, ASIDE, "quarantined")
        elif release is not None:
            if (asked := release.requested_at) is not None and now - asked > _WIPING:
                yield _host_found(host, machines, now, _POD, "being given back", "PaddockPoolRunningDry", asked)
        elif host.status.state == HostState.ORPHANED:
            yield _host_found(host, machines, now, _ORPHANED, "stranded", "PaddockStrandedHosts")


def _host_found(
    host: Host,
    machines: Sequence[Machine],
    now: datetime,
    impact: int,
    kind: str,
    runbook: str = "",
    since: datetime | None = None,
) -> Found:
    began, why = since or _since(host.status.conditions), partial(why_host, host, machines, now)
    return Found(impact, kind, began, why, f"paddock why host {host.metadata.name}", runbook)


def _of_pools(pools: Sequence[RunnerPool], now: datetime) -> Iterable[Problem]:
    for pool in pools:
        yield from _refused_fields(pool)
        ready = get_condition(pool.status.conditions, "Ready")
        if ready is None or ready.status == "True" or (ready.reason in POOL_UNDER_WAY and not _none_starts(pool, now)):
            continue
        if (began := _pool_since(pool)) is not None and now - began < _POOL_GRACE:
            continue  # a runner that has just ended is being replaced: that is how pools live
        name, message = pool.metadata.name, ready.message or ready.reason
        if ready.reason in POOL_UNDER_WAY and ready.last_transition_time is not None:
            message = f"none of its Pods has got ready for {span(now - ready.last_transition_time)}: {message}"
        yield Problem(
            _POOL if not pool.status.idle else _SHORT,
            f"pool {name}",
            message,
            since=ready.last_transition_time,
            doing=_message(pool.status.conditions, "Autoscaled"),
            commands=(f"paddock why pool {name}", f"paddock describe pool {name}"),
            runbook="PaddockJobsWaitTooLong",
            ties=Ties(fleet=pool.spec.fleet_selector, by_itself=ready.reason in _WRITTEN_WRONG),
        )


def _pool_since(pool: RunnerPool) -> datetime | None:
    """Since when it is not ready for the reason that it gives. A busy pool is never all ready: for want of room it is so only
    since there is none, and a Pod that leaves may give it back the next moment.
    """
    placeable = get_condition(pool.status.conditions, "Placeable")
    began = _since(pool.status.conditions)
    if placeable is None or placeable.status != "False" or placeable.last_transition_time is None:
        return began
    return max(began or placeable.last_transition_time, placeable.last_transition_time)


def _none_starts(pool: RunnerPool, now: datetime) -> bool:
    """Whether all its Pods have been starting for so long that each of them was given up at least once."""
    ready, status = get_condition(pool.status.conditions, "Ready"), pool.status
    since = ready.last_transition_time if ready is not None and ready.reason == "Starting" else None
    return since is not None and now - since > _POD_STARTS and status.starting == status.replicas > 0


def _refused_fields(pool: RunnerPool) -> Iterable[Problem]:
    """What a person wrote into a pool and no controller can follow; the pool goes on without it."""
    name = pool.metadata.name
    for kind in ("WarmWindows", "Profiles"):
        said = get_condition(pool.status.conditions, kind)
        if said is not None and said.status == "False" and said.reason not in POOL_UNDER_WAY:
            yield Problem(
                _SHORT,
                f"pool {name}",
                said.message,
                since=said.last_transition_time,
                commands=(f"paddock why pool {name}", f"paddock describe pool {name}"),
                ties=Ties(by_itself=True),
            )


def _of_pods(pods: Sequence[Pod], now: datetime) -> Iterable[Found]:
    for pod in pods:
        meta = pod.metadata
        if meta.labels.get(RUNNER_LABEL) != "true":
            continue
        gone, made = meta.deletion_timestamp, meta.creation_timestamp
        if gone is None and pod.status.phase != "Pending":
            continue  # as nearly all of thousands are: nothing is made for them
        about, ask, ties = f"pod {meta.name}", f"paddock why pod {meta.name}", Ties(node=pod.spec.node_name)
        if gone is not None and now - gone > _POD_ENDS:
            said = Explanation(about=about, sentence=f"has been deleting for {span(now - gone)}")
            yield Found(_POD, "deleting", gone, partial(same, said), ask, ties=ties)
        elif gone is None and pod.status.phase == "Pending" and made is not None and now - made > _POD_STARTS:
            where = f"on {pod.spec.node_name}" if pod.spec.node_name else "and has no Node"
            why = next(
                (f": {each.message}" for each in pod.status.conditions if each.type == "Ready" and each.message), ""
            )
            said = Explanation(about=about, sentence=f"has been starting for {span(now - made)} {where}{why}")
            yield Found(_POD, "starting", made, partial(same, said), ask, ties=ties)


def _since(conditions: Sequence[Condition]) -> datetime | None:
    ready = get_condition(conditions, "Ready")
    return ready.last_transition_time if ready is not None else None


def _message(conditions: Sequence[Condition], kind: str = "Ready") -> str:
    found = get_condition(conditions, kind)
    return (found.message or found.reason) if found is not None else ""
