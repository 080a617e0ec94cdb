"""What the cluster must offer: definitions that are current, a clock like ours, a service that answers, pools that fit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paddock.cli.connections import Problem, Reached, left_by_up
from paddock.cli.doctor.check import Check, bad, good, unknown
from paddock.cli.doctor.waiting import job_checks, node_checks
from paddock.cli.operators_flags import operators
from paddock.cli.service_state import operator_leases

if TYPE_CHECKING:
    from paddock.cli.operators_flags import Sweeping
    from paddock.hosts.api import MacFleet
    from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
    from paddock.kube.builtin import Lease, Node
    from paddock.kube.client import Client
    from paddock.runners.api import RunnerPool

__all__ = ["clock_check", "cluster_checks", "pool_checks", "prefix_checks"]

_DEFINE = "kubectl apply --server-side --force-conflicts -f deploy/crds"
"""Force, because definitions that came with the chart are Helm's."""
_SKEW = 5.0
"""Seconds. Leases, tokens and graces are all longer, but two clocks that drift apart go on drifting."""


async def clock_check(client: "Client") -> "tuple[str, Check]":
    """The server's version, and how far its clock is from ours, by the Date of one answer."""
    from email.utils import parsedate_to_datetime

    import msgspec

    from paddock.base.clock import SystemClock

    clock = SystemClock()
    before = clock.now()
    async with client.connection.stream("/version", params={}, connect_timeout=10.0) as answer:
        body, date = await answer.aread(), answer.headers.get("date", "")
    took = clock.now() - before
    version = msgspec.json.decode(body).get("gitVersion", "of an unknown version")
    try:
        theirs = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return version, unknown("clock", "the API server's answers carry no date, so clocks cannot be compared")
    # A Date has whole seconds: half of one is as good a guess as any.
    apart = abs((theirs - (before + took / 2)).total_seconds() + 0.5)
    if apart > _SKEW:
        fix = "run NTP on this machine and on the control plane: leases and tokens go by the clock"
        return version, bad("clock", f"{apart:.0f} s apart from the API server's", fix)
    return version, good("clock", f"within {max(apart, 1.0):.0f} s of the API server's")


async def cluster_checks(reached: Reached) -> "list[Check]":
    from paddock.base.clock import SystemClock
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.hosts.listing import unlisted_zones
    from paddock.kube.builtin import Node, Pod
    from paddock.kube.errors import KubeError
    from paddock.runners.api import RUNNER_LABEL, RunnerPool
    from paddock.views.leadership import leading

    checks = [*await _definitions(reached.client), await _operator(reached), *await _service(reached)]
    try:
        pools = (await reached.client.list(RunnerPool)).items
        nodes = (await reached.client.list(Node)).items
        pods = (await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items
        fleets = (await reached.client.list(MacFleet)).items
        machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
        hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
    except KubeError as error:
        return [*checks, bad("pools", f"they cannot be read: {error}", "install the definitions and grant `list`")]
    checks += pool_checks(pools, nodes)
    checks.append(_audience(pods))
    checks += [
        bad(
            f"zone {one.zone}", one.sentence, "correct the operator's SCW_SECRET_KEY and project, or wait for the cloud"
        )
        for one in unlisted_zones(hosts, machines, leading(await _leases(reached), SystemClock().now()))
    ]
    checks += prefix_checks(await operators(reached), machines, fleets)
    checks += node_checks(nodes, SystemClock().now())
    for fleet in fleets:
        if fleet.spec.replicas and not fleet.status.ready_replicas:
            name = fleet.metadata.name
            checks.append(bad(f"fleet {name}", "none of its machines is ready", f"paddock why fleet {name}"))
    return checks


async def _leases(reached: Reached) -> "list[Lease]":
    """Of operators; none where they cannot be read, which is a finding of its own."""
    from paddock.kube.errors import KubeError

    try:
        return await operator_leases(reached)
    except KubeError:
        return []


async def _definitions(client: "Client") -> "list[Check]":
    """Installed, established, and of the schema that this program was built with."""
    from paddock.hosts import api as hosts
    from paddock.kube.builtin import CustomResourceDefinition
    from paddock.kube.crd import crd_of
    from paddock.kube.errors import KubeError, NotFoundError
    from paddock.runners import api as runners

    missing, unserved, stale = [], [], []
    kinds = (*hosts.KINDS, *runners.KINDS)
    for kind in kinds:
        name = f"{kind.RESOURCE.plural}.{kind.RESOURCE.group}"
        try:
            found = await client.get(CustomResourceDefinition, name)
        except NotFoundError:
            missing.append(name)
            continue
        except KubeError as error:
            return [unknown("definitions", f"they cannot be read: {error}", "ask a person who may read definitions")]
        if not found.established:
            unserved.append(name)
        elif lacking := _lacking(crd_of(kind)["spec"], found.spec):
            stale.append(f"{name} lacks {', '.join(sorted(lacking)[:3])}")
    problems = []
    if missing:
        problems.append(bad("definitions", f"not installed: {', '.join(missing)}", _DEFINE))
    if unserved:
        problems.append(
            bad("definitions", f"not established: {', '.join(unserved)}", f"kubectl describe crd {unserved[0]}")
        )
    if stale:
        problems.append(bad("definitions", f"older than this program: {'; '.join(stale)}", _DEFINE))
    return problems or [good("definitions", f"all {len(kinds)} are installed and current")]


def _lacking(wanted: Any, found: Any) -> set[str]:
    """Fields of the wanted schema that the installed one does not have; more than wanted is no problem."""
    ours, theirs = (_schemas(spec) for spec in (wanted, found))
    return {field for version in ours for field in ours[version] - theirs.get(version, set())}


def _schemas(spec: Any) -> dict[str, set[str]]:
    return {
        version["name"]: set(_fields((version.get("schema") or {}).get("openAPIV3Schema") or {}, ""))
        for version in spec.get("versions", [])
    }


def _fields(schema: Any, path: str) -> list[str]:
    found = []
    for name, below in (schema.get("properties") or {}).items():
        found += [f"{path}.{name}", *_fields(below, f"{path}.{name}")]
    items = schema.get("items")
    return [*found, *(_fields(items, f"{path}[]") if isinstance(items, dict) else [])]


async def _operator(reached: Reached) -> Check:
    """Whether an operator leads. Where none does, every object merely stays as it is, and none of them says so."""
    from paddock.base.clock import SystemClock
    from paddock.kube.errors import KubeError
    from paddock.views.leadership import nobody_leads

    if left_by_up(reached.client):
        return good("operator", "runs inside `paddock up`")
    where = reached.only or "any namespace"
    try:
        leases = await operator_leases(reached)
    except KubeError as error:
        return unknown("operator", f"its lease cannot be read: {error}", "ask for the right to list leases")
    if why := nobody_leads(leases, SystemClock().now()):
        fix = f"kubectl -n {reached.namespace} get pods -l app.kubernetes.io/component=operator; give -n if it is elsewhere"
        return bad("operator", f"no operator leads in {where}, so no Mac is claimed or given back: {why}", fix)
    holders = sorted({(lease.spec.holder_identity or "").partition("_")[0] for lease in leases} - {""})
    return good("operator", f"{', '.join(holders) or 'one without an election'} leads")


async def _service(reached: Reached) -> "list[Check]":
    """The dispatch service, and through it the database."""
    where = reached.ledger.where
    start = "start `paddock dispatch` (or `paddock up`); in a cluster, see why its Pods do not run: kubectl describe pods -l app.kubernetes.io/component=dispatch"
    try:
        health = await reached.ledger.text("/healthz")
    except Problem as problem:
        return [
            bad("dispatch service", str(problem), start),
            unknown("database", "only dispatch can be asked about it"),
        ]
    checks = [good("dispatch service", f"{where} answers" if health is None else f"{where} says {health.strip()}")]
    try:
        summary = await reached.ledger.get("strip")
    except Problem:
        fix = "check that Postgres runs and that PADDOCK_DSN of `paddock dispatch` reaches it"
        why = await _concerns(reached)
        told = (
            []
            if any(one.about == "database" for one in why)
            else [bad("database", "the dispatch service cannot ask it", fix)]
        )
        return [*checks, *told, *why]
    if summary is None:
        return [*checks, bad("database", f"{where} does not serve the ledger", start)]
    checks.append(good("database", f"answers: {summary['running']} jobs run, {summary['dispatchable']} may run now"))
    checks += source_checks(summary.get("job_sources") or (), summary.get("not_listed") or ())
    return [*checks, *await _waiting(reached), *await _concerns(reached)]


async def _waiting(reached: Reached) -> "list[Check]":
    try:
        waiting = await reached.ledger.get("queue")
    except Problem as problem:
        return [unknown("waiting jobs", f"they cannot be read: {problem}", "paddock get jobs")]
    if waiting is None:
        return [unknown("waiting jobs", f"{reached.ledger.where} does not show them", "paddock get jobs")]
    return job_checks(waiting)


def source_checks(sources: "Iterable[Mapping[str, Any]]", not_listed: "Iterable[str]" = ()) -> "list[Check]":
    """Scale sets that are listened to, those that are not, and accounts that have none for want of a line. Pure."""
    unheard = [
        bad(
            f"account {login}",
            "it installed the App and is not on the allow list, so that no scale set asks for its jobs",
            f"paddock accounts allow {login}",
        )
        for login in not_listed
    ]
    found = list(sources)
    if not found:
        return unheard
    deaf = [source for source in found if source["state"] not in ("Listening", "Starting")]
    if not deaf:
        return [good("scale sets", f"{len(found)} listened to"), *unheard]
    return unheard + [
        bad(
            f"scale set of {source['repository'] or source['login']}",
            f"pool {source['pool']}: {source['state']} since {source['since']}",
            source["sentence"] or f"paddock why pool {source['pool']}",
        )
        for source in deaf
    ]


async def _concerns(reached: Reached) -> "list[Check]":
    """What dispatch sees of its own ways to the database and to the operator. Releases before have none."""
    try:
        told = await reached.ledger.get("concerns")
    except Problem:
        return []
    return [
        bad(each["about"], each["found"], each["fix"]) if each.get("fix") else good(each["about"], each["found"])
        for each in told or ()
    ]


def prefix_checks(
    told: "Sequence[Sweeping]", machines: "Iterable[Machine]", fleets: "Iterable[MacFleet]"
) -> "list[Check]":
    """Whether names of hosts tell whose they are: no prefix of this cluster may begin as another one does."""
    from paddock.hosts.names import nested

    given = [(f"free hosts of {each.source}", each.pool_prefix) for each in told]
    given += [(f"machines of {each.source}", each.claim_name_prefix) for each in told]
    given += [("free hosts of a machine", machine.spec.adopt_pool_prefix) for machine in machines]
    given += [
        (f"free hosts of fleet {fleet.metadata.name}", fleet.spec.template.spec.adopt_pool_prefix) for fleet in fleets
    ]
    return [
        bad(
            "prefixes",
            f"names of {theirs} begin with {longer}, and so with {shorter}, as those of {ours} do: "
            "by its name a Mac of the one looks like the other's",
            "give one of them a prefix that begins otherwise: another release name or fullnameOverride for machines, "
            "adoptPoolPrefix for free hosts",
        )
        for (ours, shorter), (theirs, longer) in nested(given)
    ] or ([good("prefixes", "none begins as another does")] if given else [])


def pool_checks(pools: "list[RunnerPool]", nodes: "list[Node]") -> "list[Check]":
    """Labels that two pools share, and pools whose fleet has no Node. Pure."""
    from paddock.runners.api import FLEET_LABEL, LINUX_POOL_LABEL
    from paddock.runners.api.dispatch_label import another_keeps, label_keeper

    if not pools:
        return [unknown("pools", "there is none, so no job is taken", "create a RunnerPool")]
    checks = []
    for pool in pools:
        keeper = label_keeper(pools, pool.spec.dispatch_label)
        if keeper is not None and keeper is not pool and pool.metadata.deletion_timestamp is None:
            found, _, fix = another_keeps(pool, keeper).partition(": ")
            checks.append(bad(f"pool {pool.metadata.name}", found, fix))
        key = FLEET_LABEL if pool.spec.os == "darwin" else LINUX_POOL_LABEL
        if not any(node.metadata.labels.get(key) == pool.spec.fleet_selector for node in nodes):
            found = f"no Node has the label {key}={pool.spec.fleet_selector}"
            fix = f"make a fleet of that name, or correct spec.fleetSelector of RunnerPool {pool.metadata.name}"
            checks.append(bad(f"pool {pool.metadata.name}", found, fix))
    return checks or [good("pools", f"{len(pools)}, each with its own label and Nodes")]


def _audience(pods: Any) -> Check:
    """Pods whose token is not meant for dispatch are refused by it, every time."""
    from paddock.runners.api import AUDIENCE
    from paddock.runners.api.token_audience import audiences_of

    if not pods:
        return unknown("token audience", "there is no runner Pod whose token could be looked at")
    without = [pod.metadata.name for pod in pods if AUDIENCE not in audiences_of(pod)]
    if without:
        found = f"{len(without)} of {len(pods)} runner Pods carry no token for {AUDIENCE}, such as {without[0]}"
        return bad("token audience", found, "let the pool controller make the Pods; delete those made by hand")
    return good("token audience", f"all {len(pods)} runner Pods carry a token for {AUDIENCE}")
