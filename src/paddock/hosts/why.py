"""Why a Mac, a machine or a fleet is as it is: the same sentence for the command line and the page. Pure.

A condition's message is written by the controller that acts; these functions add what only several objects together
tell, such as when the next host comes free for a machine that waits for one.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from paddock.base.explanation import Evidence, Explanation, ago, listed, span, utc
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.claim import being_wiped
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.fleet import TEMPLATE_VALID, outdated
from paddock.hosts.node_health import NodeTrouble, cordoned, troubles
from paddock.hosts.orphans import HostState
from paddock.hosts.release import LIVES_TO_QUARANTINE
from paddock.hosts.remediation import tried
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition

__all__ = ["older_template", "why_fleet", "why_host", "why_machine"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine
_WAITS = {
    "HostBeingWiped": "It is claimed as soon as it is pooled; nobody need do anything.",
    "NoAvailableHost": "A host that is released or ordered is claimed within seconds of being free.",
    "Bootstrapping": "The machine is Ready when the last step is done.",
    "NodeMissing": "The machine is Ready as soon as its Node is there.",
    # What comes next depends on the operator's flags and on what was tried: who decided it has written it into the condition.
    "BootstrapFailed": "",
    "HostInTrouble": "",
    "ZoneNotListed": "The zone is listed again every 30 seconds; then a free host is claimed.",
    "Reinstalling": "It keeps its host, and is bootstrapped anew when the cloud has installed the disk, which takes 10 to 30 minutes.",
}
_PAGES = {"NoAvailableHost": "PaddockNoAvailableHost", "BootstrapFailed": "PaddockRecoveryRate"}
"""The runbook of a reason; the others have a row in the page on conditions."""


def why_machine(
    machine: Machine,
    hosts: Sequence[Host],
    now: datetime,
    *,
    node: Node | None = None,
) -> Explanation:
    """Why a machine is, or is not, Ready; with `node`, what its Node says is wrong as well."""
    meta, status = machine.metadata, machine.status
    ready = _ready(status.conditions)
    host = next((host for host in hosts if host.metadata.name and host.metadata.name == status.host_name), None)
    evidence = [Evidence("cluster", _of_machine(machine, ready, now))]
    if host is not None:
        evidence += _of_host(host, now)
    elif status.server_id:
        evidence.append(Evidence("cloud", f"server {status.server_id} is not in the inventory"))
    if (looked_after := status.remediation) is not None and looked_after.since is not None:
        said = f"its Mac is in trouble {ago(looked_after.since, now)}{tried(looked_after)}"
        evidence.append(Evidence("host", said))
    wrong = troubles(node, now) if node is not None else []
    evidence += [Evidence("host", trouble.sentence) for trouble in wrong]
    said = Explanation(about=f"machine {meta.name}", sentence="", evidence=tuple(evidence), healthy=status.ready)
    if meta.deletion_timestamp is not None:
        return replace(
            said,
            sentence=f"being deleted {ago(meta.deletion_timestamp, now)}: {_message(ready, 'its host is being given back')}",
            next="The machine goes as soon as the release is recorded on its host; the machine does not wait for the wipe.",
        )
    if PAUSED in meta.annotations:
        return replace(
            said,
            sentence=f"paused by the annotation {PAUSED}: nothing is done to it or to its host",
            commands=(f"kubectl annotate samm {meta.name} {PAUSED}-",),
        )
    if status.ready:
        sentence = f"Ready {ago(_since(ready), now)}: {_message(ready, 'its Node reports Ready')}"
        closed = cordoned(node) if node is not None else ""
        if not wrong and closed:
            return replace(said, sentence=f"{sentence}; but {closed}", commands=(f"paddock undrain {meta.name}",))
        if not wrong:
            return replace(said, sentence=sentence)
        wrong += [NodeTrouble(closed, urgent=False)] if closed else []
        return replace(
            said,
            sentence=f"{sentence}; but {'; '.join(trouble.sentence for trouble in wrong)}",
            commands=(f"kubectl describe node {meta.name}",),
            runbook="conditions",
            healthy=not any(trouble.urgent for trouble in wrong),
        )
    reason = ready.reason if ready is not None else ""
    page = reason
    sentence = f"not Ready {ago(_since(ready), now)}: {_message(ready, 'no controller has looked at it yet')}"
    commands = [f"paddock describe machine {meta.name}"]
    if reason == "Bootstrapping" and status.bootstrap_attempts:
        # The attempt that runs says only how far it is; that earlier ones failed is what makes it worth a look.
        sentence += f"; {_tries(machine, now)}"
        page = "BootstrapFailed"
        commands.append(f"paddock events --for machine/{meta.name}")
    then = _WAITS.get(reason, "The controller tries again by itself, with growing pauses.")
    if not status.server_id and machine.spec.source == "Pool":
        then = _next_host(machine, hosts, now) or then
        commands.append("paddock sweep --explain")
    return replace(
        said,
        evidence=tuple(evidence),
        sentence=sentence,
        next=then,
        commands=tuple(commands),
        runbook=_PAGES.get(page, "conditions") if page else "",
    )


def why_host(host: Host, machines: Sequence[Machine], now: datetime, *, node: Node | None = None) -> Explanation:
    """Why a host is in its state, and what will happen to it; `node` is that of its machine, where it was read."""
    name, status, spec = host.metadata.name, host.status, host.spec
    machine = next((m for m in machines if spec.claim is not None and m.metadata.uid == spec.claim.machine_uid), None)
    judged = _ready(status.conditions)
    evidence = list(_of_host(host, now))
    if machine is not None:
        evidence.append(Evidence("cluster", _of_machine(machine, _ready(machine.status.conditions), now)))
    answer = Explanation(about=f"host {name}", sentence="", evidence=tuple(evidence))
    if spec.retire and spec.release is None:
        waits = next((each.message for each in status.conditions if each.type == "Retired"), "it is looked at soon")
        return replace(
            answer,
            sentence=f"to be retired: {spec.retire}; {waits}",
            next="It is terminated for good, and no machine claims it any more.",
            commands=(f"paddock retire {name} --undo",),
            healthy=True,
        )
    if spec.quarantine:
        return replace(
            answer,
            sentence=f"quarantined: {spec.quarantine}; no machine claims it",
            next="" if spec.claim is None else "It stays with its machine; once released it is not claimed again.",
            commands=(f"paddock unquarantine {name}",),
            healthy=False,
        )
    if spec.release is not None:
        doing = {"requested": "its wipe is asked for", "started": "it is being wiped"}.get(
            spec.release.wipe, "it is about to be renamed and wiped"
        )
        end = "deleted for good" if spec.release.policy == "terminate" else "pooled again"
        return replace(
            answer,
            sentence=f"being given back {ago(spec.release.requested_at, now)} ({spec.release.message or spec.release.reason or 'its machine is gone'}): {doing}",
            next=f"It is {end} when the cloud shows the end of it; a reinstall takes 10 to 30 minutes.",
        )
    if machine is not None:
        ready = machine.status.ready
        closed = cordoned(node) if node is not None and ready else ""
        return replace(
            answer,
            sentence=f"owned by machine {machine.metadata.name}, which is {'Ready' if ready else 'not Ready'}: {_message(_ready(machine.status.conditions), machine.status.phase)}"
            + (f"; but {closed}" if closed else ""),
            next="" if ready else f"See `paddock why machine {machine.metadata.name}`.",
            commands=(f"paddock {'undrain' if closed else 'release'} {machine.metadata.name}",),
            healthy=ready,
        )
    said = _message(judged, f"the inventory calls it {status.state or 'unknown'}")
    if status.state == HostState.ORPHANED:
        return replace(
            answer,
            sentence=f"stranded {ago(_since(judged), now)}: {said}{_price(host)}",
            next="Where reclaiming is on it is wiped and pooled after two sweeps; else it is reported. `paddock sweep --explain` says which.",
            commands=("paddock sweep --explain --state stranded",),
            runbook="PaddockStrandedHosts",
            healthy=False,
        )
    if status.state == HostState.POOLED:
        waits = spec.not_before is not None and now < spec.not_before
        return replace(
            answer,
            sentence=f"pooled: {said}"
            + (f"; claimable in {span(spec.not_before - now)}" if waits and spec.not_before else ""),
            next="The next machine of its type and zone claims it.",
        )
    return replace(
        answer, sentence=f"{status.state or 'not judged yet'}: {said}", healthy=status.state not in ("", "gone")
    )


def why_fleet(fleet: MacFleet, machines: Sequence[Machine], now: datetime) -> Explanation:
    """Why a fleet has not all of its machines."""
    own = [m for m in machines if _owned_by(fleet, m)]
    unready = [m for m in own if not m.status.ready and m.metadata.deletion_timestamp is None]
    reasons = Counter(r.reason if (r := _ready(m.status.conditions)) else "NotLookedAt" for m in unready)
    ready = _ready(fleet.status.conditions)
    missing = max(0, fleet.spec.replicas - len(own))
    valid, older = get_condition(fleet.status.conditions, TEMPLATE_VALID), older_template(fleet, machines)
    refused = valid.message if valid is not None and valid.status == "False" else ""
    counts = [f"{count} {reason}" for reason, count in reasons.most_common()]
    counts += [f"{missing} not made" + ("" if ready is not None else ", because no operator has looked at it yet")] * (
        missing > 0
    )
    return Explanation(
        about=f"fleet {fleet.metadata.name}",
        sentence=f"{len(own) - len(unready)} of {fleet.spec.replicas} ready {ago(_since(ready), now)}".rstrip()
        + (f": {', '.join(counts)}" if counts else "")
        + "".join(f"; {said}" for said in (refused, older) if said),
        evidence=tuple(
            Evidence("cluster", f"machine {m.metadata.name}: {_message(_ready(m.status.conditions), m.status.phase)}")
            for m in unready[:10]
        ),
        next="Machines that are missing are made at once; each then claims a host of its own."
        if unready or missing
        else "",
        commands=tuple(f"paddock why machine {m.metadata.name}" for m in unready[:3])
        or (("paddock doctor",) if missing else ()),
        healthy=not unready and not missing and not refused,
    )


def older_template(fleet: MacFleet, machines: Sequence[Machine]) -> str:
    """Which machines of a fleet are of an older template than it has now, and what becomes of them; empty where none is."""
    living = [m for m in machines if m.metadata.deletion_timestamp is None and _owned_by(fleet, m)]
    old = sorted(m.metadata.name for m in living if outdated(fleet, m))
    if not old:
        return ""
    one = len(old) == 1
    rolls = fleet.spec.strategy == "RollingUpdate"
    then = "replaced one after the other" if rolls else "kept until they are deleted, or spec.strategy is RollingUpdate"
    return f"{len(old)} of its machines {'is' if one else 'are'} of an older template ({listed(old)}): {then}"


def _owned_by(fleet: MacFleet, machine: Machine) -> bool:
    return any(owner.uid == fleet.metadata.uid for owner in machine.metadata.owner_references)


def _tries(machine: Machine, now: datetime) -> str:
    status = machine.status
    failed = status.bootstrap_attempts
    at = status.bootstrap_failed_at
    last = f", the last one {span(now - at)} ago" if at is not None else ""
    rebooted = "; the host was rebooted since" if status.bootstrap_reboot_issued else ""
    return f"this is attempt {failed + 1}: {failed} failed{last}{rebooted}"


def _ready(conditions: Sequence[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == "Ready"), None)


def _since(condition: Condition | None) -> datetime | None:
    return condition.last_transition_time if condition is not None else None


def _message(condition: Condition | None, otherwise: str) -> str:
    return (condition.message or condition.reason) if condition is not None else otherwise


def _price(host: Host) -> str:
    price = host.status.price_per_hour
    return f"; it costs {float(price):.2f} {host.status.currency} an hour" if price else ""


def _of_machine(machine: Machine, ready: Condition | None, now: datetime) -> str:
    status = machine.status
    attempts = f", {status.bootstrap_attempts} failed bootstraps" if status.bootstrap_attempts else ""
    step = f", at step {status.bootstrap_step}" if status.bootstrap_step and not status.ready else ""
    return f"machine {machine.metadata.name}: {status.phase or 'new'}, {ready.reason if ready else 'no condition yet'} {ago(_since(ready), now)}{step}{attempts}"


def _of_host(host: Host, now: datetime) -> tuple[Evidence, ...]:
    status = host.status
    floor, committed = status.deletable_at, status.committed_until
    held = f", billing floor for {span(floor - now)}" if floor is not None and floor > now else ""
    if committed is not None:
        held += f", monthly commitment until {utc(committed)}, when a deletion takes effect"
    claim = host.spec.claim
    return (
        Evidence(
            "cloud",
            f"server {host.spec.server_id} is called {status.cloud_name or '?'} and {status.cloud_status or '?'}, {status.type}{held}",
        ),
        Evidence(
            "cluster",
            f"host {host.metadata.name}: {status.state or 'not judged'}"
            + (f", claimed by {claim.machine_name} {ago(claim.since, now)}" if claim is not None else ", no claim")
            + (
                f", claimed {host.spec.epoch} time{'s' if host.spec.epoch > 1 else ''} so far"
                if host.spec.epoch
                else ""
            ),
        ),
        *((Evidence("cluster", record),) if (record := _record(host)) else ()),
    )


def _record(host: Host) -> str:
    """What happened to the host in all its lives, and what that means for its next one."""
    past = host.status.history
    told = [
        f"{count} {one if count == 1 else many}"
        for count, one, many in (
            (past.bootstraps, "bootstrap", "bootstraps"),
            (past.bootstrap_failures, "failed bootstrap", "failed bootstraps"),
            (past.reboots, "recovery reboot", "recovery reboots"),
            (past.reinstalls, "reinstall in place", "reinstalls in place"),
            (past.recoveries, "recovery", "recoveries"),
            (past.releases, "release", "releases"),
            (past.quarantines, "quarantine", "quarantines"),
        )
        if count
    ]
    row = (
        f"; given up in {past.failed_lives} lives in a row, so it is chosen last (quarantined after {LIVES_TO_QUARANTINE})"
        if past.failed_lives
        else ""
    )
    return f"its record: {', '.join(told)}{row}" if told or row else ""


def _next_host(machine: Machine, hosts: Sequence[Host], now: datetime) -> str:
    """When a host comes free that would fit, as far as anybody can know."""
    coming = being_wiped(machine.spec, hosts)
    settling = [
        h.spec.not_before
        for h in hosts
        if h.spec.zone == machine.spec.zone
        and h.status.type == machine.spec.type
        and h.spec.not_before is not None
        and h.spec.not_before > now
    ]
    if settling:
        return f"A host of its type is claimable in {span(min(settling) - now)}."
    if coming:
        return f"{len(coming)} of its type are being wiped; the first is claimed as soon as it is pooled."
    return ""
