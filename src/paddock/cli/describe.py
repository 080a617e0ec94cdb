"""`paddock describe KIND NAME`: everything about one thing, from every ledger that knows it."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.completion_values import complete_kinds, complete_names
from paddock.cli.connections import Problem, Reach, Reached, connected, in_path, reach_flags, run
from paddock.cli.description import Description, drawn, events_of, facts_of, plain
from paddock.cli.finding import read_busy_pods, read_mac
from paddock.cli.output import as_json, as_yaml, say
from paddock.cli.progress import showing
from paddock.cli.why import explanation_of, one_of

if TYPE_CHECKING:
    from paddock.base.explanation import Explanation
    from paddock.kube.objects import KubeObject

__all__ = ["command"]

_KINDS = ("host", "machine", "fleet", "pool", "pod", "node", "job")
_LAST_LINES = 20
_SHOWN_PODS = 20


@click.command("describe")
@click.argument("kind", metavar="KIND", required=False, shell_complete=complete_kinds(_KINDS))
@click.argument("name", required=False, shell_complete=complete_names)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@reach_flags
def command(kind: str | None, name: str | None, output: str, reach: Reach) -> None:
    """Show everything about NAME: what is wanted, its conditions, what it belongs to, what happened, and why.

    KIND is host, machine, fleet, pool, pod, node or job; `machine/x`, as `-o name` prints it, does as well.

    A Mac goes by the name of its machine, of its host, or by its server id; a job by its number at GitHub.
    """
    kind, name = one_of(_KINDS, kind, name, "describe machine x")
    run(_describe(kind, name, output, reach))


async def _describe(kind: str, name: str, output: str, reach: Reach) -> int:
    from paddock.base.clock import SystemClock

    async with connected(reach) as reached, showing(f"asking about {kind} {name}"):
        said = await (_of_job(reached, name) if kind == "job" else _of_object(reached, kind, name))
    now: datetime = SystemClock().now()
    match output:
        case "json":
            say(as_json(plain(said)))
        case "yaml":
            say(as_yaml(plain(said)))
        case _:
            say(drawn(said, now))
    return 0


async def _of_object(reached: Reached, kind: str, name: str) -> Description:
    from paddock.kube.builtin import Event

    try:
        obj, related = await _found(reached, kind, name)
    except Problem:
        gone = await _quietly(reached, f"pods/{in_path(name)}") if kind == "pod" else None
        if gone is None:
            raise
        return await _of_gone_pod(reached, gone)
    meta, resource = obj.metadata, obj.RESOURCE
    events, why = await asyncio.gather(reached.client.list(Event), _why(reached, kind, meta.name))
    history = events_of(obj, events.items)
    if kind == "pod":
        page = await _quietly(reached, f"pods/{meta.uid}") or {}
        history += [_line(line) for line in page.get("transitions", [])[-_LAST_LINES:]]
    where = f" -n {meta.namespace}" if resource.namespaced else ""
    word = resource.short_names[0] if resource.short_names else resource.qualified
    status: Any = getattr(obj, "status", None)
    labels = [("labels", ", ".join(f"{key}={value}" for key, value in sorted(meta.labels.items())))]
    return Description(
        about=f"{kind} {meta.namespace + '/' if resource.namespaced else ''}{meta.name}",
        facts=[*facts_of(getattr(obj, "spec", None) or {}), *(labels if meta.labels else [])],
        conditions=getattr(status, "conditions", ()) or (),
        related=related,
        history=sorted(history, key=lambda line: line[:19])[-_LAST_LINES:],
        explanation=why,
        equivalent=[f"kubectl{where} describe {word} {meta.name}", f"kubectl{where} get {word} {meta.name} -o yaml"],
    )


async def _of_gone_pod(reached: Reached, page: dict[str, Any]) -> Description:
    """What the ledger kept of a Pod that the cluster has forgotten."""
    session = page["session"] or {}
    jobs = dict.fromkeys(job for job in (session.get("executed_job_id"), session.get("job_id")) if job)
    return Description(
        about=f"pod {page['name'] or page['uid']} (gone)",
        facts=[(key, str(value)) for key, value in session.items() if value not in (None, "")],
        conditions=(),
        related=[f"job {job}" for job in jobs],
        history=[_line(line) for line in page["transitions"][-_LAST_LINES:]],
        explanation=await explanation_of(reached, "pod", page["uid"]),
        equivalent=[],
    )


async def _found(reached: Reached, kind: str, name: str) -> "tuple[KubeObject, list[str]]":
    """The object, and a line for everything beside it."""
    from paddock.hosts.api import MacFleet
    from paddock.kube.builtin import Node, Pod
    from paddock.runners.api import POOL_LABEL, RunnerPool

    client = reached.client
    if kind in ("host", "machine"):
        return await _mac(reached, kind, name)
    kinds: dict[str, tuple[type[KubeObject], str | None]] = {
        "fleet": (MacFleet, reached.namespace),
        "pool": (RunnerPool, reached.namespace),
        "pod": (Pod, reached.namespace),
        "node": (Node, None),
    }
    obj: Any = await _one(reached, kind, name, *kinds[kind])
    match kind:
        case "fleet":
            from paddock.hosts.api import ScalewayAppleSiliconMachine

            machines = (await client.list(ScalewayAppleSiliconMachine)).items
            own = [m for m in machines if any(ref.uid == obj.metadata.uid for ref in m.metadata.owner_references)]
            return obj, [f"machine {m.metadata.name}  {m.status.phase}" for m in own]
        case "pool":
            pods = (await client.list(Pod, label_selector=f"{POOL_LABEL}={name}")).items
            return obj, [_pod_line(pod) for pod in pods[:_SHOWN_PODS]]
        case "node":
            pods = [pod for pod in (await client.list(Pod)).items if pod.spec.node_name == name]
            return obj, [f"machine {name}", *(_pod_line(pod) for pod in pods[:_SHOWN_PODS])]
        case _:
            pool, node = obj.metadata.labels.get(POOL_LABEL), obj.spec.node_name
            owners = [f"{ref.kind} {ref.name}" for ref in obj.metadata.owner_references]
            beside = [f"pool {pool}" if pool else "", f"node {node}" if node else "", *owners]
            return obj, [line for line in beside if line]


async def _one(reached: Reached, word: str, name: str, kind: "type[KubeObject]", namespace: str | None) -> "KubeObject":
    from paddock.kube.errors import NotFoundError

    try:
        return await reached.client.get(kind, name, namespace)
    except NotFoundError:
        raise Problem(f"there is no {word} {name}: `paddock get {word}s` lists what there is") from None


async def _mac(reached: Reached, kind: str, name: str) -> "tuple[KubeObject, list[str]]":
    mac = await read_mac(reached, name)
    related = []
    if mac.machine is not None:
        meta = mac.machine.metadata
        related += [f"{ref.kind} {ref.name}" for ref in meta.owner_references]
        related += [f"node {meta.name}", *(_pod_line(pod) for pod in await read_busy_pods(reached, meta.name))]
    if kind == "machine":
        if mac.machine is None:
            raise Problem(f"host {name} belongs to no machine: `paddock describe host {name}`")
        return mac.machine, [*([f"host {mac.host.metadata.name}"] if mac.host else []), *related]
    if mac.host is None:
        raise Problem(f"machine {name} has no host yet: `paddock describe machine {name}`")
    return mac.host, [*([f"machine {mac.machine.metadata.name}"] if mac.machine else []), *related]


async def _of_job(reached: Reached, name: str) -> Description:
    why = await explanation_of(reached, "job", name)
    page = await reached.ledger.get(f"jobs/{name}") or {}
    job, sessions = page.get("job") or {}, page.get("sessions") or []
    related = [f"pool {job['pool']}"] if job.get("pool") else []
    related += [f"pod {one['pod_name']}  runner {one['runner_name']}" for one in sessions]
    repository = job.get("repository") or ""
    return Description(
        about=f"job {name}",
        facts=[(key, str(value)) for key, value in job.items() if value not in (None, "")],
        conditions=(),
        related=related,
        history=[_line(line) for line in (page.get("transitions") or [])[-_LAST_LINES:]],
        explanation=why,
        equivalent=[f"gh api repos/{repository}/actions/jobs/{name}"] if repository else ["gh run list"],
    )


async def _why(reached: Reached, kind: str, name: str) -> "Explanation | None":
    """None where the ledger is away: the cluster's part of the description is useful alone."""
    if kind == "node":
        return None
    try:
        return await explanation_of(reached, kind, name)
    except Problem:
        if kind in ("pod", "pool"):
            return None
        raise


async def _quietly(reached: Reached, path: str) -> Any:
    try:
        return await reached.ledger.get(path)
    except Problem:
        return None


def _pod_line(pod: Any) -> str:
    from paddock.runners.api import OWNER_LABEL

    owner = pod.metadata.labels.get(OWNER_LABEL, "")
    return f"pod {pod.metadata.name}  {pod.status.phase}{f', for {owner}' if owner else ''}"


def _line(line: dict[str, Any]) -> str:
    at = str(line["at"])[:19].replace("T", " ")
    return f"{at}   {line['subject']} {line['was'] or 'new'} → {line['became']} ({line['by']}: {line['why']})"
