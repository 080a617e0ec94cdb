"""Known bugs of peers and of our past, each as a mutant of one of our own decisions; the suite must kill every one.

A mutant is a function that stands in for the real one, mostly by lying to it about one fact. `killer` is the file of tests that
guards against it; `museum_killers` names the test in it that fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from msgspec.structs import replace as changed

from paddock.clients.scaleway import Gone, Unknown
from paddock.hosts import (
    absence,
    breaker,
    claim,
    cluster_api,
    delete,
    disruption,
    first_contact,
    fleet,
    health_check,
    names,
    order_limits,
    orphans,
    recovery,
    reinstall,
    release,
    remediation,
    retirement,
    sweep,
    validation,
    verify,
)
from paddock.hosts.bootstrap import drift, launchd
from paddock.node import decide, goldens, pods, pulling, seat_leaks
from paddock.node.machines import Liveness
from paddock.runners.healing import runner_lists
from paddock.runners.healing.verdicts import pod as pod_verdict
from paddock.runners.ledger import registrations, runner_versions, scale_sets

__all__ = ["EXHIBITS", "Exhibit"]

Function = Callable[..., Any]


@dataclass(frozen=True)
class Exhibit:
    """`bug` cites who had it, `what` says it in one sentence, `mutant` has it."""

    bug: str
    what: str
    original: Function
    mutant: Function
    killer: str


EXHIBITS: dict[str, Exhibit] = {}


def _exhibit(name: str, bug: str, original: Function, killer: str) -> Callable[[Function], Function]:
    def add(mutant: Function) -> Function:
        EXHIBITS[name] = Exhibit(bug, " ".join((mutant.__doc__ or "").split()), original, mutant, killer)
        return mutant

    return add


def _host(host: Any, **spec: Any) -> Any:
    return changed(host, spec=changed(host.spec, **spec))


class _Everything(frozenset[str]):
    def __contains__(self, item: object) -> bool:
        return True


_CHOOSE, _UNFREE, _UNFIT = claim.choose, claim._unfree, claim._unfit
_STEP, _AFTER = release.release_step, release._after_the_wipe
_VERDICT, _JUDGE = orphans.verdict, sweep.judge
_OCCUPANCY, _DRAIN = disruption.occupancy, disruption.drain_step
_DECIDE, _PLAN = decide.decide, fleet.plan
_CLAIM, _RELEASE, _SWEEP, _ORPHANS = (f"hosts/test_{name}.py" for name in ("claim", "release", "sweep", "orphans"))
_DAEMON = launchd.daemon_plist
_HEALTH_CHECK = "hosts/test_health_check.py"
_DISRUPTION, _REMEDIATION, _RECOVERY = (f"hosts/test_{name}.py" for name in ("disruption", "remediation", "recovery"))
_BREAKER, _FLEET, _VERIFY, _DELETE = (f"hosts/test_{name}.py" for name in ("breaker", "fleet", "verify", "delete"))
_REINSTALL, _CLUSTER_API = (f"hosts/test_{name}.py" for name in ("reinstall", "cluster_api"))
_NODE = "node/test_ends_of_a_vm.py"

# Claiming


@_exhibit("two machines reach for one host", "metal3#1004, BYOH items[0]", claim.choose, _CLAIM)
def _(spec: Any, prefix: str, hosts: Any, intended: Any, now: Any) -> Any:
    """What other machines already reach for is not looked at."""
    return _CHOOSE(spec, prefix, hosts, frozenset(), now)


@_exhibit("a claimed host is taken again", "metal3#3516, tuist#10858", claim._unfree, _CLAIM)
def _(host: Any, now: Any) -> Any:
    """A claim of another machine on the host is overwritten."""
    return _UNFREE(_host(host, claim=None), now)


@_exhibit("a dirty host looks free", "tuist: the pool name is given before the wipe", claim._unfree, _CLAIM)
def _(host: Any, now: Any) -> Any:
    """A host whose wipe is still to come may be claimed."""
    return _UNFREE(_host(host, release=None), now)


@_exhibit(
    "a late call reaches a new tenant",
    "leader election without fencing: a call of the old leader arrives late",
    claim._unfree,
    _CLAIM,
)
def _(host: Any, now: Any) -> Any:
    """A host is claimable at once after its last mutation."""
    return _UNFREE(_host(host, not_before=None), now)


@_exhibit("a quarantined host comes back", "CAPH#2144, BYOH#762", claim._unfree, _CLAIM)
def _(host: Any, now: Any) -> Any:
    """A quarantine keeps nobody from claiming."""
    return _UNFREE(_host(host, quarantine=""), now)


@_exhibit("bad hosts rotate", "maas#6, metal3 unhealthy", claim.failed_lives, _CLAIM)
def _(host: Any) -> int:
    """A host's record does not matter for the choice."""
    return 0 * len(host.metadata.name)


@_exhibit("a host of another type is claimed", "labgrid#1477", claim._unfit, _CLAIM)
def _(spec: Any, server_type: str, family: str, name: str) -> Any:
    """The type of the host is not compared."""
    return _UNFIT(changed(spec, type=server_type), server_type, family, name)


@_exhibit(
    "a host of another OS is claimed",
    "tuist: a host is reinstalled with another OS than its fleet has",
    claim._unfit,
    _CLAIM,
)
def _(spec: Any, server_type: str, family: str, name: str) -> Any:
    """The OS of the host is not compared."""
    return _UNFIT(changed(spec, os=family or name or spec.os), server_type, family or spec.os, name)


# Releasing


@_exhibit("freed before it is wiped", "tuist ReleaseToPool: rename, then reinstall", release.release_step, _RELEASE)
def _(host: Any, server: Any, now: Any) -> Any:
    """The pool name comes first, the wipe after it."""
    step = _STEP(host, server, now)
    return release.Finish() if isinstance(step, release.Reinstall) else step


@_exhibit("a renamed host is wiped all the same", "tuist retry wipes a live host", release.own_names, _RELEASE)
def _(*_: Any) -> frozenset[str]:
    """Whatever name the cloud shows counts as ours."""
    return _Everything()


@_exhibit("not knowing is read as gone", "karpenter-gcp#242", release.release_step, _RELEASE)
def _(host: Any, server: Any, now: Any) -> Any:
    """An answer that is missing proves that the server does not exist."""
    return _STEP(host, Gone("a guess") if isinstance(server, Unknown) else server, now)


@_exhibit("a failed wipe waits for ever", "BMO#1184", release._after_the_wipe, _RELEASE)
def _(host: Any, recorded: Any, server: Any, now: Any) -> Any:
    """A reinstall that ends in an error is waited for, and never asked for again."""
    step = _AFTER(host, recorded, server, now)
    return release.Wait("it will come", 15) if isinstance(step, release.Reinstall) else step


@_exhibit("a wipe that runs is asked for again", "terraform-maas#260, CAPH#393", release.release_step, _RELEASE)
def _(host: Any, server: Any, now: Any) -> Any:
    """A server that is being wiped is wiped once more."""
    step = _STEP(host, server, now)
    wiping = getattr(server, "status", "") == "reinstalling" and isinstance(step, release.Wait | release.MarkStarted)
    return release.Reinstall("Tahoe") if wiping else step


@_exhibit("freed before the cloud is done", "CAPT#440", release._after_the_wipe, _RELEASE)
def _(host: Any, recorded: Any, server: Any, now: Any) -> Any:
    """A host is free although the cloud still works on it."""
    step = _AFTER(host, recorded, server, now)
    return release.Finish() if isinstance(step, release.Wait) else step


@_exhibit(
    "a person's pool is deleted at once",
    "terminate without a floor or a cap",
    retirement.retire_step,
    "hosts/test_retirement.py",
)
def _(host: Any, others: Any, last: Any, now: Any) -> Any:
    """Hosts are retired all at once, and while they are still paid for."""
    return retirement.RetireHost("now") if host.spec.retire and host.spec.release is None else None


# Sweeping


@_exhibit("an emptied cluster wipes its fleet", "MCM#657", sweep.owners_vanished, _SWEEP)
def _(dead: int, held: int, machines: int) -> bool:
    """That all owners are gone at once is no reason to wait."""
    return dead < 0 > machines + held


@_exhibit("one sighting is enough", "nodepool's two scans, TF#3802", sweep.judge, _SWEEP)
def _(name: str, verdict: Any, observations: int, prefix: str, *, given: bool) -> Any:
    """What is seen once is reclaimed."""
    return _JUDGE(name, verdict, observations + 1, prefix, given=given)


@_exhibit("a rival's host is reclaimed", "the sweep of the cluster that a clusterctl move left", sweep.judge, _SWEEP)
def _(name: str, verdict: Any, observations: int, prefix: str, *, given: bool) -> Any:
    """What another cluster recorded counts as ours."""
    return _JUDGE(name, verdict, observations, prefix, given=True)


@_exhibit("a claim of long ago is for ever", "our own: names of two clusters that begin alike", sweep.ours, _SWEEP)
def _(host: Any, name: str) -> bool:
    """A host that this cluster had once stays its own, whoever took it from the pool since."""
    return host is not None and (host.spec.claim is not None or host.spec.epoch > 0)


@_exhibit("report-only reclaims", "tuist: what activeReclaim switches", sweep.judge, _SWEEP)
def _(name: str, verdict: Any, observations: int, prefix: str, *, given: bool) -> Any:
    """Without the prefix every orphan may be reclaimed."""
    return _JUDGE(name, verdict, observations, prefix or name[:1], given=given)


@_exhibit("a short list makes orphans", "TF#167", orphans.verdict, _ORPHANS)
def _(server: Any, host: Any, owners: Any, **more: Any) -> Any:
    """Machines that were not listed own nothing."""
    return _VERDICT(server, host, orphans.Owners.of([]), **more)


@_exhibit("a release that runs is forgotten", "TF#5453", orphans.verdict, _ORPHANS)
def _(server: Any, host: Any, owners: Any, **more: Any) -> Any:
    """A recorded release says nothing about whose the host is."""
    return _VERDICT(server, _host(host, release=None) if host is not None else None, owners, **more)


@_exhibit("a namesake owns an older tenant's disk", "tuist adoption by name", orphans._of_an_older_tenant, _ORPHANS)
def _(*_: Any) -> bool:
    """The name alone makes an owner, whatever uid the claim says."""
    return False


@_exhibit("two wrong lists are proof", "our own: a fleet of one; TF#167", absence.absence_step, "hosts/test_absence.py")
def _(host: Any, claimant: Any, found: Any, now: Any) -> Any:
    """A server that lists do not show is gone, whatever a read of itself says."""
    return _ABSENCE(host, claimant, found if isinstance(found, Gone) and found.listed != 0 else Gone("two lists"), now)


_ABSENCE = absence.absence_step


@_exhibit(
    "a failed update passes for done", "tuist#12433, #12439", drift.after_failed_update, "hosts/bootstrap/test_drift.py"
)
def _(status: Any, desired: str, failures: int, now: Any) -> Any:
    """What should be on the host is written down as what it carries, although the update failed."""
    return changed(_FAILED_UPDATE(status, desired, failures, now), host_config_hash=desired)


@_exhibit("an update that is given up looks well", "tuist#12119", drift.given_up, "hosts/bootstrap/test_drift.py")
def _(status: Any, reason: str) -> Any:
    """The machine has the reason of its failure, and a phase that nobody alerts on."""
    return changed(_GIVEN_UP(status, reason), phase=status.phase)


_FAILED_UPDATE, _GIVEN_UP = drift.after_failed_update, drift.given_up


# Moving, pausing, deleting


@_exhibit(
    "a move wipes what it moved",
    "clusterctl mover.go: the source deletes what it has moved",
    cluster_api.may_delete,
    "hosts/test_cluster_api.py",
)
def _(*_: Any) -> Any:
    """A deletion has effects although clusterctl moves the machine."""
    return cluster_api.Go()


@_exhibit("a paused machine is worked on", "cluster-api#2370", cluster_api.may_reconcile, "hosts/test_cluster_api.py")
def _(*_: Any) -> Any:
    """A pause is not looked at."""
    return cluster_api.Go()


@_exhibit(
    "a deletion after a move forgets its host", "tuist status.serverID, metal-operator#626", delete.ending, _DELETE
)
def _(machine: Any, host: Any, prefix: str) -> Any:
    """A machine without its status has no host to give back."""
    lost = changed(machine, status=changed(machine.status, server_id=""), spec=changed(machine.spec, provider_id=""))
    return _ENDING(lost, host, prefix)


_ENDING = delete.ending


@_exhibit("a claim counts before late renames are past", "two clusters in one project", verify.verification, _VERIFY)
def _(machine: Any, claimed: Any, server: Any, now: Any, settle: timedelta) -> Any:
    """The name is read at once, and never again."""
    return _VERIFICATION(machine, claimed, server, now, settle * 0)


_VERIFICATION = verify.verification


@_exhibit("a rival's claim is kept for ours", "metal3#3516, tuist#12780", verify.ownership, _VERIFY)
def _(*_: Any) -> Any:
    """A machine keeps the server that it names, whoever else has it."""
    return verify.KeepBinding()


@_exhibit(
    "whoever answers is believed", "SSH without pinned keys", first_contact.first_contact, "hosts/test_first_contact.py"
)
def _(host: Any, now: Any) -> Any:
    """A host that showed no key in time is dialled all the same."""
    step = _CONTACT(host, now)
    return first_contact.Believe(now) if isinstance(step, first_contact.Refuse) else step


_CONTACT = first_contact.first_contact

# Recovering


@_exhibit("a host is rebooted again and again", "CAPH#393, tuist one-shot flag", recovery.after_failure, _RECOVERY)
def _(attempts: int, *, reboot_issued: bool, can_release: bool, tiers: Any) -> Any:
    """That it was rebooted already is forgotten."""
    return _FAILURE(attempts, reboot_issued=False, can_release=can_release, tiers=tiers)


_FAILURE = recovery.after_failure


@_exhibit("a host goes back to no pool", "tuist tier 2 without a prefix", recovery.after_failure, _RECOVERY)
def _(attempts: int, *, reboot_issued: bool, can_release: bool, tiers: Any) -> Any:
    """Giving back is possible without a pool."""
    return _FAILURE(attempts, reboot_issued=reboot_issued, can_release=True, tiers=tiers)


@_exhibit("a failing host is dialled without a pause", "tuist#11855", recovery.seconds_until_retry, _RECOVERY)
def _(*_: Any) -> float:
    """A host that failed is tried again at once."""
    return 0.0


@_exhibit("a sealed password waits for ever", "tuist#11013", recovery.sealed_for_too_long, _RECOVERY)
def _(*_: Any) -> bool:
    """A seal never counts as a failure."""
    return False


@_exhibit("a silent Mac stays ready", "tuist: no tiers for running nodes", remediation.trouble_of, _REMEDIATION)
def _(*_: Any) -> None:
    """A Node that is not ready is nobody's trouble."""


@_exhibit(
    "silence is taken for death", "gitlab-runner#30953, MCM health timeouts", remediation.proven_dead, _REMEDIATION
)
def _(*_: Any) -> bool:
    """A Mac that does not answer has no jobs."""
    return True


@_exhibit(
    "an outage reboots the fleet",
    "karpenter repair without its 20 % brake, MCM#657",
    remediation.next_step,
    _REMEDIATION,
)
def _(trouble: Any, machine: Any, machines: Any, now: Any, **more: Any) -> Any:
    """How many others are in trouble does not matter."""
    return _NEXT(trouble, machine, [], now, **more)


_NEXT = remediation.next_step
_TROUBLE = remediation.trouble_of


@_exhibit("a whole fleet reboots at once", "tuist: synchronized restarts", remediation._disrupted, _REMEDIATION)
def _(*_: Any) -> str:
    """Which Macs of the fleet are being rebooted does not matter."""
    return ""


@_exhibit("remediation always ends in a wipe", "CAPH#1983: deleted although the reboot worked", _NEXT, _REMEDIATION)
def _(trouble: Any, machine: Any, machines: Any, now: Any, **more: Any) -> Any:
    """No tier has a pause in which it could help."""
    done = machine.status.remediation
    unpaused = changed(machine, status=changed(machine.status, remediation=done and changed(done, at=None)))
    return _NEXT(trouble, unpaused, machines, now, **more)


@_exhibit(
    "a late reboot meets new work",
    "Metal3 remediation, machine-api-operator",
    remediation.reboot_may_come,
    _REMEDIATION,
)
def _(*_: Any) -> bool:
    """A Mac that looks well takes work at once, although its reboot may still come."""
    return False


@_exhibit("a request keeps itself alive", "CAPH#1983: every remediation ended in deletion", _TROUBLE, _HEALTH_CHECK)
def _(*args: Any, **more: Any) -> Any:
    """A Machine is not ready because a health check asks for its remediation, and so is never found well again."""
    found = _TROUBLE(*args, **more)
    return found and replace(found, urgent=True)


@_exhibit(
    "nobody comes for a Machine",
    "a MachineHealthCheck on a Machine without an owner",
    health_check.replaceable,
    _HEALTH_CHECK,
)
def _(*_: Any) -> bool:
    """A Machine is given to its owner although it has none, or core does not call it unhealthy."""
    return True


@_exhibit("a drain of core's is undone", "our own, found under the real core", health_check.leaving, _HEALTH_CHECK)
def _(*_: Any) -> bool:
    """A Machine that core deletes is taken for one that has recovered."""
    return False


@_exhibit(
    "a new disk is wiped again",
    "our own, found by the model: a deposed leader's request",
    reinstall.reinstall_step,
    _REINSTALL,
)
def _(machine: Any, server: Any, now: Any, _settle: Any) -> Any:
    """A new disk is used although a late request may arrive."""
    return _INSTALL(machine, server, now, timedelta(0))


@_exhibit(
    "somebody else's Mac is reinstalled", "CAPT: freed hosts, names as identity", reinstall.reinstall_step, _REINSTALL
)
def _(machine: Any, server: Any, now: Any, settle: Any) -> Any:
    """The name is not read before the cloud is asked."""
    named = changed(server, name=machine.metadata.name) if hasattr(server, "name") else server
    return _INSTALL(machine, named, now, settle)


_INSTALL = reinstall.reinstall_step


@_exhibit("one mistake wipes every host", "tuist#12306", breaker.fleet_halt, _BREAKER)
def _(*_: Any) -> None:
    """What fails alike everywhere is each host's own fault."""


@_exhibit("the same error never looks the same", "ids in messages", breaker.signature, _BREAKER)
def _(problem: str) -> str:
    """Errors are compared with their ids and numbers."""
    return problem


@_exhibit("a missing payload buys Macs", "servo/ci-runners#44", order_limits.may_order, "hosts/test_order_limits.py")
def _(*_: Any, **__: Any) -> Any:
    """Orders have neither a cap nor a budget."""
    return order_limits.MayOrder()


# Draining


@_exhibit("a Pod that is deleted does not count", "ARC#4197", disruption.occupancy, _DISRUPTION)
def _(node: Any, listed: Any, now: Any, **more: Any) -> Any:
    """Deleting a Pod is taken for the end of its VM."""
    return _OCCUPANCY(node, [pod for pod in listed if pod.metadata.deletion_timestamp is None], now, **more)


@_exhibit("only a stamp is work", "tuist#11133", disruption.occupancy, _DISRUPTION)
def _(node: Any, listed: Any, now: Any, **more: Any) -> Any:
    """A Pod without a stamp holds no job."""
    seen = _OCCUPANCY(node, listed, now, **more)
    return disruption.Idle() if isinstance(seen, disruption.Busy) and not seen.jobs else seen


@_exhibit("a moved Mac is idle until it speaks", "clusterctl move: status and Pods stay", verify.unheard, _VERIFY)
def _(*_: Any) -> bool:
    """Nobody waits for the first report of an agent to this cluster."""
    return False


@_exhibit(
    "a move loses a claim in flight",
    "clusterctl move without block-move",
    cluster_api.lost_in_a_move,
    _CLUSTER_API,
)
def _(*_: Any) -> str:
    """A status may be lost at any moment."""
    return ""


@_exhibit(
    "a moved Mac looks idle", "clusterctl move (our own, found by reading)", disruption._of_another_cluster, _DISRUPTION
)
def _(*_: Any) -> list[Any]:
    """Jobs that another cluster began are not seen."""
    return []


@_exhibit("a read that failed lets pass", "GARM#814, MCM#657", disruption.drain_step, _DISRUPTION)
def _(seen: Any, node: Any, **more: Any) -> Any:
    """Not knowing who works is taken for idle."""
    return _DRAIN(disruption.Idle() if isinstance(seen, disruption.Unknown) else seen, node, **more)


@_exhibit("a drain gives jobs up by itself", "fleeting/taskscaler#20", disruption.drain_step, _DISRUPTION)
def _(seen: Any, node: Any, **more: Any) -> Any:
    """Every drain is forced."""
    more["force"] = disruption.Force(everything=True)
    return _DRAIN(seen, node, **more)


@_exhibit("who gives one job up gives all up", "our own: a job that came later", disruption.force_of, _DISRUPTION)
def _(annotations: Any) -> Any:
    """Force is the whole Mac's, whatever Pods it names."""
    return disruption.Force(everything=bool(annotations.get(disruption.FORCE)))


@_exhibit("taken without a fence", "CAPI drain races the scheduler", disruption.drain_step, _DISRUPTION)
def _(seen: Any, node: Any, **more: Any) -> Any:
    """An idle Mac is taken without a cordon."""
    return _DRAIN(seen, None if isinstance(seen, disruption.Idle) else node, **more)


@_exhibit("busy Macs go first", "gitlab taskscaler", fleet.plan, _FLEET)
def _(wanted: Any, machines: Any, hosts: Any, now: Any, jobs: Any = None) -> Any:
    """Who works is not looked at when a fleet shrinks."""
    return _PLAN(wanted, machines, hosts, now, {})


@_exhibit("a typo buys a thousand machines", "ARC#3203", fleet._growth, _FLEET)
def _(wanted: Any, living: Any, said: str, now: Any) -> Any:
    """A fleet grows at one stroke."""
    return fleet.FleetPlan(wanted.spec.replicas - len(living), (), said)


@_exhibit("impossible input reaches the cloud", "outscale#497", validation.bad_input, "hosts/test_validation.py")
def _(*_: Any, **__: Any) -> None:
    """Nothing in a spec is wrong."""


@_exhibit(
    "a machine may have a pool's name", "names as identity (CAPI best practice)", names.kind_of, "hosts/test_names.py"
)
def _(*_: Any) -> Any:
    """Every name is an ordinary one."""
    return names.NameKind.OTHER


# On the Mac


@_exhibit(
    "a flush opens private networks",
    "our own: loaded at boot only",
    launchd.daemon_plist,
    "hosts/bootstrap/test_jobs.py",
)
def _(label: str, program: str, **_: Any) -> str:
    """The packet filter's rules are loaded at the start of the Mac, and never again."""
    return _DAEMON(label, program)


@_exhibit("a probe that fails ends a VM", "ORCH#454", decide.decide, _NODE)
def _(facts: Any) -> Any:
    """A VM of which nothing is known is dead."""
    dead = facts.liveness is Liveness.UNKNOWN
    return _DECIDE(changed(facts, liveness=Liveness.GONE) if dead else facts)


@_exhibit("a cache that is behind ends a VM", "tuist#11986, TF#4391", decide.decide, _NODE)
def _(facts: Any) -> Any:
    """A Pod that the cache does not show is gone."""
    return _DECIDE(changed(facts, gone=facts.gone or facts.pod is None))


@_exhibit("a move ends a running job", "clusterctl move: Pods do not move", decide.decide, _NODE)
def _(facts: Any) -> Any:
    """Another cluster's word that a Pod does not exist is believed."""
    return _DECIDE(changed(facts, other_cluster=False))


@_exhibit("a job runs twice", "actions/runner#4309, ARC#4230", decide._retry, _NODE)
def _(facts: Any, entry: Any) -> bool:
    """A VM that ended at once is run again, whatever its guest did."""
    return facts.exit is not None and entry.attempt < decide.STARTS


@_exhibit("an unreadable share counts against the guest", "tuist#12431", decide.decide, _NODE)
def _(facts: Any) -> Any:
    """A share that cannot be read is one in which nothing is written."""
    return _DECIDE(changed(facts, guest=changed(facts.guest, readable=True)))


@_exhibit("tart's zero is taken for success", "tart run: zero after a VM that failed", decide._end, _NODE)
def _(facts: Any, entry: Any) -> Any:
    """The exit code of `tart run` says how the job ended."""
    end = _END(facts, entry)
    fine = facts.exit is not None and facts.exit.code == 0
    return changed(end, succeeded=True, code=0, reason="Completed") if fine else end


_END = decide._end


@_exhibit("a third VM on a Mac", "Apple's limit of two, ORCH scheduling", pods.admission, "node/test_pods.py")
def _(pod: Any, offer: Any, others: Any, *, ending: int, pressure: str) -> Any:
    """Who is there already is not counted."""
    return _ADMISSION(pod, offer, [], ending=0, pressure=pressure)


_ADMISSION = pods.admission


@_exhibit("a large image never arrives", "tuist: 20 minutes a pull, 65 GB", pulling.ended_for, "node/test_pulling.py")
def _(progress: Any, disk: Any) -> str:
    """A pull that gets on is ended after twenty minutes, and begins at zero."""
    return "the deadline has passed" if progress.lasted >= 1200.0 else _ENDED_FOR(progress, disk)


_ENDED_FOR = pulling.ended_for


@_exhibit("a golden goes from under its VM", "tuist#11517", goldens.reclaim_order, "node/test_goldens.py")
def _(machines: Any, needed: Any, running: Any, since: Any) -> list[str]:
    """An image that a Pod names may go although a VM that may run is its clone."""
    return _RECLAIM_ORDER(machines, needed, running - needed, since)


_RECLAIM_ORDER = goldens.reclaim_order


@_exhibit("one leaked seat is invisible", "tart#1217", seat_leaks.leaked_seats, "node/test_seat_leaks.py")
def _(alive: int) -> int:
    """A leak is seen only where no VM runs."""
    return 0 if alive else _LEAKED_SEATS(alive)


_LEAKED_SEATS = seat_leaks.leaked_seats


@_exhibit(
    "a listener that retries lives for ever",
    "tuist#11864, actions/runner#4191, ARC#4183",
    pod_verdict._listens_in_vain,
    "runners/healing/verdicts/test_pod.py",
)
def _(facts: Any) -> bool:
    """Whatever moves is alive, also a listener that GitHub does not know."""
    return False


@_exhibit(
    "another place's refusal hides a runner",
    "our own: an App with the rights of the install page",
    runner_lists.possible_places,
    "runners/healing/test_runner_lists.py",
)
def _(registration: Any) -> Any:
    """A runner may stand in any list, wherever it was registered."""
    return _PLACES(changed(registration, place=None))


_PLACES = runner_lists.possible_places


@_exhibit(
    "runners of others are unregistered",
    "our own: staging beside production",
    registrations.is_marked,
    "runners/dispatch/test_pure.py",
)
def _(name: str, mark: str) -> bool:
    """A runner is ours because it is named like ours."""
    return re.search(r"-[0-9a-f]{8}$", name) is not None


@_exhibit(
    "one job of two sources takes two Macs",
    "our own: a pool that goes from webhooks to a scale set",
    scale_sets.may_act_on,
    "runners/ledger/test_sources.py",
)
def _(minted_for: int | None, job_id: int) -> bool:
    """A runner may be what runs any row."""
    return True


@_exhibit(
    "a retired runner version loops",
    "tuist#12253",
    runner_versions.version_refused,
    "runners/ledger/test_runner_versions.py",
)
def _(newest_first: Any) -> Any:
    """A runner's own code is believed, whether or not it got a job."""
    return _REFUSED([changed(one, worked=False) for one in newest_first])


_REFUSED = runner_versions.version_refused


def table() -> str:
    """The rows of docs/design/bug-museum.md."""
    rows = [
        f"| {name} | {each.bug} | `{each.original.__module__.removeprefix('paddock.')}.{each.original.__name__}`: {each.what} | `tests/unit/{each.killer}` |"
        for name, each in EXHIBITS.items()
    ]
    return "\n".join(["| bug | seen in | our mutant | killed by |", "|---|---|---|---|", *rows])
