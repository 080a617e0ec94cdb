"""Is all well, and if not, what first? One survey for the page and for `paddock status`, so that both say the same. Pure.

What is under way and young is no problem: a Mac that boots, a Pod that starts. What a person must know is a problem at
once, however young: a host that no machine owns, jobs that no runner runs, a spec that cannot work.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.orphans import HostState
from paddock.kube.builtin import Lease, Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.http.concern import Concern
from paddock.runners.ledger.views import QueueSummary
from paddock.views.causes import Known, by_cause
from paddock.views.folding import folded
from paddock.views.leadership import leading
from paddock.views.problem import Problem
from paddock.views.problems.capacity import of_capacity
from paddock.views.problems.fleets import of_fleets
from paddock.views.problems.hosts import of_hosts
from paddock.views.problems.impact import ASIDE, POOL, UNSERVED
from paddock.views.problems.lost_runners import of_lost_runners
from paddock.views.problems.machines import of_machines
from paddock.views.problems.nodes import of_nodes
from paddock.views.problems.pods import of_pods
from paddock.views.problems.pools import of_pools
from paddock.views.problems.processes import of_processes
from paddock.views.problems.queue import of_queue
from paddock.views.problems.services import Unread, of_services
from paddock.views.problems.stalled import of_stalled
from paddock.views.runner_troubles import of_runners
from paddock.views.under_way import being_made, is_on_its_way, under_way

__all__ = ["ASIDE", "FleetHealth", "Numbers", "survey"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Numbers:
    """The summary bar. None where the ledger cannot be asked. `held` waits for an approval, `unserved` for a pool.

    Of the jobs that wait `dispatchable` may run now; the oldest of them may have been allowed to this very moment, and has 0 seconds.
    """

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
    """Within a day, whoever ended them; those that a person, or a limit of a person's, gave up are counted, and are no problem."""
    held: int | None = None
    unserved: int | None = None
    dispatchable: int | None = None
    unsure: int | None = None
    """Served by no pool, and perhaps meant for runners of others."""


@dataclass(frozen=True, slots=True)
class FleetHealth:
    ok: bool
    sentence: str
    numbers: Numbers
    problems: tuple[Problem, ...]
    """Causes, the worst first, each with what hangs on it."""
    going_on: tuple[Problem, ...] = ()
    """What is under way and no problem, the oldest first: why something waits."""
    starting: bool = False
    """Nothing is wrong, and no Mac is ready yet: all that are wanted are on their way."""


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
    told: Sequence[str] = (),
    runners: bool = True,
    nodes: Sequence[Node] | None = None,
    concerns: Sequence[Concern] = (),
    unread: Sequence[Unread] = (),
    leaderless: str = "",
    leases: Sequence[Lease] = (),
) -> FleetHealth:
    """How everything is at this moment. `nodes` is None where they were not read: then nothing is said of them.

    `summary` is None where the ledger did not answer; `told` are sentences of processes about themselves, such as a watch
    that stalls; `runners` is False where there is no runner subsystem, and then its ledger is not missed; `concerns` are what
    dispatch says of what it stands on, `unread` the reads that failed; `leaderless` is why no operator leads, empty where one does or
    nobody can say; `leases` are those of operators.
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
        live_jobs_killed=summary.killed_last_day if summary is not None else None,
        held=summary.held if summary is not None else None,
        unserved=summary.unserved if summary is not None else None,
        dispatchable=summary.dispatchable if summary is not None else None,
        unsure=summary.unsure if summary is not None else None,
    )
    found = [
        *of_services(concerns, unread, runners and summary is None, leaderless),
        *of_queue(summary, pools, now),
        *of_capacity(summary, pools, pods, nodes, now),
        *of_lost_runners(pods, nodes),
        *of_runners(summary, impact=POOL, unheard=UNSERVED),
        *of_processes(told, hosts, machines, leading(leases, now)),
        *of_stalled((("machine", machines), ("host", hosts), ("fleet", fleets), ("pool", pools))),
        *of_fleets(fleets, now),
        *folded([*of_machines(machines, hosts, now), *of_nodes(machines, nodes or (), now)], "machines"),
        *folded(of_hosts(hosts, machines, now), "hosts"),
        *of_pools(pools, now),
        *folded(of_pods(pods, now), "pods"),
    ]
    known = Known(warm=numbers.warm, without_host=sum(not machine.status.host_name for machine in machines))
    problems = by_cause(sorted(found, key=lambda one: (-one.impact, one.since or now, one.about)), known, ASIDE)
    # What a person set aside on purpose is listed, and is no reason for alarm.
    wrong = [problem for problem in problems if problem.impact > ASIDE]
    going_on = under_way(machines, hosts, nodes or (), fleets, pools, summary, now)
    wanted, coming = _wanted(machines, fleets, now)
    starting = not wrong and coming > 0 and not numbers.hosts_ready
    if not wrong:
        said = _well(numbers, wanted, coming, starting=starting)
        return FleetHealth(True, said, numbers, problems, going_on, starting)
    return FleetHealth(False, _first(wrong), numbers, problems, going_on)


def _wanted(machines: Sequence[Machine], fleets: Sequence[MacFleet], now: datetime) -> tuple[int, int]:
    """How many Macs people ask for, and how many of these are on their way: machines, and those still to be made."""
    living = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
    made = Counter(owner.uid for machine in living for owner in machine.metadata.owner_references)
    # A fleet's own count is a moment older than the list of its machines.
    unmade = sum(
        min(being_made(fleet, now), max(0, fleet.spec.replicas - made[fleet.metadata.uid])) for fleet in fleets
    )
    young = sum(not machine.status.ready and is_on_its_way(machine, now) for machine in living)
    return len(living) + unmade, young + unmade


def _well(numbers: Numbers, wanted: int, coming: int, *, starting: bool) -> str:
    macs = f"{numbers.hosts_ready} of {wanted} Mac{'' if wanted == 1 else 's'} {'is' if wanted == 1 else 'are'} ready"
    way = f", {coming} {'is' if coming == 1 else 'are'} on the way" if coming else ""
    running = numbers.running
    jobs = "" if running is None else f", {running} job{' runs' if running == 1 else 's run'}"
    return f"{'Starting' if starting else 'Healthy'}: {macs}{way}{jobs}, nothing needs a person."


def _first(wrong: Sequence[Problem]) -> str:
    first = wrong[0].sentence.partition(";")[0]
    count = sum(1 + len(problem.symptoms) for problem in wrong)
    more = f" ({count} problems in all)" if count > 1 else ""
    return f"Not healthy: {wrong[0].about}: {first}{more}"
