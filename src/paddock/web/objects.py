"""The page of one object: why it is as it is, what is known of it, what happened to it, what stands around it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from paddock.base.explanation import Explanation, ago, span, utc
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.why import why_fleet, why_host, why_machine
from paddock.kube.builtin import Node, Pod
from paddock.kube.objects import Condition
from paddock.kube.stalled_condition import with_stall
from paddock.runners.api import OWNER_LABEL, POOL_LABEL
from paddock.runners.http.explain import why_pod, why_pool
from paddock.runners.http.readonly import JobPage, PodPage
from paddock.runners.ledger import LedgerError, Session
from paddock.runners.ledger.views import FinishedJob
from paddock.runners.pools.pod_predicates import os_of, warm
from paddock.views.finding import find_mac, pods_on, works
from paddock.web.actions import Verb, offered
from paddock.web.finding import (
    find_fleet,
    find_pod,
    find_pool,
    job_on,
    machines_of,
    pods_of_pool,
)
from paddock.web.ledger_reader import LedgerReader
from paddock.web.mac_past import MacPast
from paddock.web.page_data import PageData
from paddock.web.phases import Phase, phases_of
from paddock.web.timeline import TimelineEntry, of_conditions, of_events, of_transitions, timeline

__all__ = ["ObjectPage", "Related", "page_of"]

_RELATED = 200


@dataclass(frozen=True, slots=True)
class Related:
    kind: str
    name: str
    says: str = ""


@dataclass(frozen=True, slots=True)
class ObjectPage:
    kind: str
    name: str
    why: Explanation
    facts: Sequence[tuple[str, str | datetime]] = ()
    conditions: Sequence[Condition] = ()
    timeline: Sequence[TimelineEntry] = ()
    related: Sequence[Related] = ()
    more: int = 0
    """How many more there are around it than are listed."""
    verbs: Sequence[Verb] = ()
    phases: Sequence[Phase] = ()
    note: str = ""
    log: str | None = None
    """The end of what its runner printed; None where nothing is kept."""
    at: datetime | None = None
    """When this was seen."""
    past: MacPast | None = None
    currency: str = ""


async def page_of(kind: str, name: str, seen: PageData, ledger: LedgerReader | None) -> ObjectPage | None:
    """The page, or None where no ledger knows the thing."""
    page = await _page(kind, name, seen, ledger)
    if page is None:
        return None
    why = page.why if kind == "pool" else with_stall(page.why, page.conditions)  # a pool's is said by its explainer
    return replace(page, why=why, at=seen.now)


async def _page(kind: str, name: str, seen: PageData, ledger: LedgerReader | None) -> ObjectPage | None:
    match kind:
        case "host":
            return await _with_past(_host(name, seen), name, seen, ledger)
        case "machine":
            return await _with_past(_machine(name, seen), name, seen, ledger)
        case "fleet":
            return _fleet(name, seen)
        case "pool":
            return await _pool(name, seen, ledger)
        case "pod":
            return await _pod(name, seen, ledger)
        case "job" if ledger is not None and name.isascii() and name.isdecimal() and len(name) < 19:
            return await _job(int(name), seen, ledger)
        case _:
            return None


async def _with_past(
    page: ObjectPage | None, name: str, seen: PageData, ledger: LedgerReader | None
) -> ObjectPage | None:
    """The page of a Mac, with what the ledger knows of its past."""
    mac = find_mac(name, seen.hosts, seen.machines, seen.nodes)
    if page is None or mac is None or mac.host is None or ledger is None:
        return page
    try:
        past = await ledger.mac_past(mac.host.metadata.name)
    except LedgerError:
        return replace(page, note="The ledger cannot be asked now; the Mac's past is missing here.")
    return replace(page, past=past, currency=mac.host.status.currency or "EUR")


def _host(name: str, seen: PageData) -> ObjectPage | None:
    mac = find_mac(name, seen.hosts, seen.machines, seen.nodes)
    if mac is None or mac.host is None:
        return None
    host, machine = mac.host, mac.machine
    status, history = host.status, host.status.history
    facts = [
        ("state", status.state or "not judged yet"),
        ("zone", host.spec.zone),
        ("type", status.type),
        ("cloud name", status.cloud_name),
        ("cloud says", status.cloud_status),
        ("address", status.ip),
        ("macOS", f"{status.os.family} {status.os.version}".strip()),
        ("price", f"{float(status.price_per_hour):.2f} {status.currency} an hour" if status.price_per_hour else ""),
        ("billing floor", _floor(status.deletable_at, seen.now)),
        ("commitment", f"until {utc(end)}" if (end := status.committed_until) is not None else ""),
        ("claimed so far", "once" if host.spec.epoch == 1 else f"{host.spec.epoch} times"),
        ("bootstraps", f"{history.bootstraps} done, {history.bootstrap_failures} failed"),
        ("reboots, releases", f"{history.reboots}, {history.releases}"),
        ("server id", host.spec.server_id),
        ("quarantine", host.spec.quarantine),
        ("retirement", host.spec.retire),
    ]
    return ObjectPage(
        "host",
        host.metadata.name,
        why_host(host, seen.machines, seen.now, node=_node_of(machine, seen)),
        [fact for fact in facts if fact[1]],
        status.conditions,
        timeline(
            of_events(seen.events, host.metadata.name, machine.metadata.name if machine else ""),
            of_conditions(status.conditions),
        ),
        _around_mac(seen, machine),
        verbs=offered("host", mac, None),
    )


def _machine(name: str, seen: PageData) -> ObjectPage | None:
    mac = find_mac(name, seen.hosts, seen.machines, seen.nodes)
    machine = mac.machine if mac is not None else None
    if mac is None or machine is None or machine.metadata.name != name:
        return None
    spec, status = machine.spec, machine.status
    facts = [
        ("phase", status.phase),
        ("bootstrap step", status.bootstrap_step),
        ("failed bootstraps in a row", str(status.bootstrap_attempts) if status.bootstrap_attempts else ""),
        ("type", spec.type),
        ("zone", spec.zone),
        ("macOS", spec.os),
        ("takes its host from", "the pool" if spec.source == "Pool" else "a new order"),
        ("provider id", spec.provider_id),
        ("addresses", ", ".join(address.address for address in status.addresses)),
        ("bound", ago(status.bound_at, seen.now)),
        ("failure", status.failure_message or status.failure_reason),
    ]
    related = [Related("host", mac.host.metadata.name, mac.host.status.state)] if mac.host is not None else []
    related += [Related("fleet", ref.name) for ref in machine.metadata.owner_references if ref.kind == "MacFleet"]
    return ObjectPage(
        "machine",
        name,
        why_machine(
            machine,
            seen.hosts,
            seen.now,
            node=_node_of(machine, seen),
        ),
        [fact for fact in facts if fact[1]],
        status.conditions,
        timeline(of_events(seen.events, name), of_conditions(status.conditions)),
        [*related, *_around_mac(seen, machine, itself=False)],
        verbs=offered("machine", mac, None),
    )


def _node_of(machine: ScalewayAppleSiliconMachine | None, seen: PageData) -> Node | None:
    """The Mac's Node, by the name of its machine."""
    return next(
        (node for node in seen.nodes if machine is not None and node.metadata.name == machine.metadata.name), None
    )


def _around_mac(seen: PageData, machine: ScalewayAppleSiliconMachine | None, *, itself: bool = True) -> list[Related]:
    if machine is None:
        return []
    found = [Related("machine", machine.metadata.name, machine.status.phase)] if itself else []
    for pod in pods_on(seen.pods, machine.metadata.name):
        job = job_on(seen, pod)
        found.append(
            Related("pod", pod.metadata.name, f"for {pod.metadata.labels[OWNER_LABEL]}" if works(pod) else "idle")
        )
        if job is not None:
            found.append(Related("job", str(job.job_id), f"{job.repository} · {job.job_name}"))
    return found


def _fleet(name: str, seen: PageData) -> ObjectPage | None:
    fleet = find_fleet(seen, name)
    if fleet is None:
        return None
    spec, machines = fleet.spec.template.spec, machines_of(seen, fleet)
    return ObjectPage(
        "fleet",
        name,
        why_fleet(fleet, seen.machines, seen.now),
        [
            ("wanted", str(fleet.spec.replicas)),
            ("ready", str(fleet.status.ready_replicas)),
            ("type", spec.type),
            ("zone", spec.zone),
            ("macOS", spec.os),
        ],
        fleet.status.conditions,
        timeline(of_events(seen.events, name), of_conditions(fleet.status.conditions)),
        [Related("machine", m.metadata.name, m.status.phase or "new") for m in machines[:_RELATED]],
        max(0, len(machines) - _RELATED),
    )


async def _pool(name: str, seen: PageData, ledger: LedgerReader | None) -> ObjectPage | None:
    pool = find_pool(seen, name)
    if pool is None:
        return None
    try:
        why = await ledger.explainer.pool(name) if ledger is not None else None
    except LedgerError:
        why = None
    spec, status, pods = pool.spec, pool.status, pods_of_pool(seen, name)
    scaling = spec.autoscaling
    facts = [
        ("Pods wanted", str(spec.replicas)),
        ("warm, busy, starting", f"{status.idle}, {status.busy}, {status.starting}"),
        ("jobs queued, held back", f"{status.queued}, {status.withheld}"),
        ("runs-on label", spec.dispatch_label),
        ("labels at GitHub", ", ".join(spec.runner_labels)),
        ("image", spec.image),
        ("Nodes", spec.fleet_selector),
        ("a Pod is", f"{spec.pod_cpu_milli / 1000:g} vCPU, {spec.pod_memory_mb} MB"),
        (
            "autoscaling",
            f"{scaling.min_warm_pool_floor} warm beyond the load, at most {scaling.max_replicas}"
            if scaling.enabled
            else "off",
        ),
    ]
    return ObjectPage(
        "pool",
        name,
        why or why_pool(pool, seen.now),
        facts,
        status.conditions,
        timeline(of_events(seen.events, name), of_conditions(status.conditions)),
        [Related("pod", pod.metadata.name, _pod_word(pod)) for pod in pods[:_RELATED]],
        max(0, len(pods) - _RELATED),
        note="" if ledger is not None and why is not None else "The ledger was not asked, so its numbers are missing.",
    )


async def _pod(name: str, seen: PageData, ledger: LedgerReader | None) -> ObjectPage | None:
    pod = find_pod(seen, name)
    asked = pod.metadata.uid if pod is not None else name
    page: PodPage | None = None
    note = ""
    if ledger is not None and asked.isprintable():
        try:
            page = await ledger.pod(asked)
        except LedgerError:
            note = "The ledger cannot be asked now; what it knows is missing here."
    if pod is not None:
        name = pod.metadata.name
    elif page is not None:
        name = page.name or name
    else:
        return None
    said = await _pod_explained(asked, ledger) or why_pod(name, pod, page, seen.now)
    session = page.session if page is not None else None
    facts = [
        ("phase", pod.status.phase if pod is not None else "gone"),
        ("Node", pod.spec.node_name if pod is not None else ""),
        ("assigned to", pod.metadata.labels.get(OWNER_LABEL, "") if pod is not None else ""),
        ("made", (pod.metadata.creation_timestamp or "") if pod is not None else ""),
        ("runner", session.runner_name if session is not None else ""),
        ("uid", page.uid if page is not None else asked),
    ]
    related: list[Related] = []
    if pod is not None:
        related += [Related("pool", pool)] if (pool := pod.metadata.labels.get(POOL_LABEL, "")) else []
        related += [Related("machine", pod.spec.node_name)] if pod.spec.node_name else []
    if session is not None:
        jobs = dict.fromkeys(job for job in (session.executed_job_id, session.job_id) if job)
        related += [Related("job", str(job), session.repository) for job in jobs]
    return ObjectPage(
        "pod",
        name,
        said,
        [fact for fact in facts if fact[1]],
        (),
        timeline(of_events(seen.events, name), of_transitions(page.transitions if page is not None else ())),
        related,
        verbs=offered("pod", None, pod),
        note=note,
        log=await _log(ledger, page.uid if page is not None else asked),
    )


async def _job(job_id: int, seen: PageData, ledger: LedgerReader) -> ObjectPage | None:
    try:
        why, page = await ledger.explainer.job(job_id), await ledger.job(job_id)
    except LedgerError:
        said = Explanation(about=f"job {job_id}", sentence="the ledger cannot be asked now", healthy=False)
        return ObjectPage("job", str(job_id), said, note="Load the page again in a few seconds.")
    if why is None or page is None:
        return None
    job = page.job
    facts: list[tuple[str, str | datetime]] = []
    related: list[Related] = []
    if job is not None:
        facts = [
            ("repository", job.repository),
            ("workflow", job.workflow_name),
            ("job", job.job_name),
            ("branch", job.head_branch),
            ("commit", job.head_sha[:12]),
            ("label", job.label),
            ("state", job.status),
            ("queued", job.enqueued_at),
            ("runner", job.runner_name or ""),
            ("failed mints", str(job.mint_failures) if job.mint_failures else ""),
        ]
        related.append(Related("pool", job.pool))
        if job.pod_name and job.pod_uid:
            there = find_pod(seen, job.pod_uid)
            related.append(Related("pod", job.pod_name, "" if there is not None else "gone"))
        priced = await _priced(job_id, ledger)
        if priced is not None:
            related += [Related("machine", priced.node_name)] if priced.node_name else []
            facts.append(("cost", _cost(priced)))
    return ObjectPage(
        "job",
        str(job_id),
        why,
        [fact for fact in facts if fact[1]],
        (),
        timeline(of_transitions(page.transitions)),
        related,
        phases=phases_of(page, seen.now),
        log=await _log(ledger, session.pod_uid if (session := _session(page, job_id)) is not None else ""),
    )


async def _pod_explained(asked: str, ledger: LedgerReader | None) -> Explanation | None:
    """As dispatch says it to `paddock why` as well: it knows whom it refuses. None where it cannot be asked."""
    try:
        return await ledger.explainer.pod(asked) if ledger is not None and asked.isprintable() else None
    except LedgerError:
        return None


def _session(page: JobPage, job_id: int) -> Session | None:
    """Of the Pod that ran it, or was to run it, last."""
    ran = [one for one in page.sessions if one.executed_job_id == job_id] or list(page.sessions)
    return ran[-1] if ran else None


async def _log(ledger: LedgerReader | None, pod_uid: str) -> str | None:
    try:
        return await ledger.log(pod_uid) if ledger is not None else None
    except LedgerError:
        return None  # the rest of the page says that the ledger is away


def _pod_word(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is not None:
        return "being deleted"
    if works(pod):
        return f"for {pod.metadata.labels[OWNER_LABEL]}"
    if pod.status.phase != "Running":
        return pod.status.phase.lower() or "new"
    return "idle" if warm(pod, os_of(pod)) else "does not ask for a job"


def _floor(deletable_at: datetime | None, now: datetime) -> str:
    if deletable_at is None:
        return ""
    return f"for {span(deletable_at - now)} more" if deletable_at > now else "over: it may be given back at any time"


async def _priced(job_id: int, ledger: LedgerReader) -> FinishedJob | None:
    try:
        return await ledger.cost_of(job_id)
    except LedgerError:
        return None  # the rest of the page says that the ledger is away


def _cost(job: FinishedJob) -> str:
    """What the job cost so far: its share of the Mac for as long as its runner was there."""
    if job.euros is None or job.pod_seconds is None or job.price is None:
        return ""
    part = "a Mac" if job.share == 1 else "one of the two places of a Mac"
    return f"{job.euros:.3f} EUR: {span(timedelta(seconds=job.pod_seconds))} of {part} at {job.price:.2f} an hour"
