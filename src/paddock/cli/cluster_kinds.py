"""The kinds of the cluster as lists: in the words of the domain, with the reason in the last column."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from paddock.cli.connections import Reached
from paddock.cli.kind import Kind
from paddock.cli.output import Column

__all__ = ["CLUSTER_KINDS"]


def _struct(path: str) -> Callable[[], type[Any]]:
    def imported() -> type[Any]:
        import importlib

        module, _, name = path.partition(":")
        return getattr(importlib.import_module(module), name)

    return imported


def _objects(struct: Callable[[], type[Any]]) -> Callable[[Reached, str], Awaitable[Sequence[Any]]]:
    """Objects of one of our kinds, by name."""

    async def read(reached: Reached, selector: str) -> Sequence[Any]:
        kind = struct()
        only = (reached.only or None) if kind.RESOURCE.namespaced else None
        found = (await reached.client.list(kind, only, label_selector=selector)).items
        return sorted(found, key=lambda obj: (obj.metadata.namespace, obj.metadata.name))

    return read


def _kind(name: str, aliases: tuple[str, ...], path: str, columns: Callable[[datetime], Sequence[Column[Any]]]) -> Kind:
    struct = _struct(path)
    return Kind(name, aliases, _objects(struct), columns, _name, _builtins, struct=struct)


def _builtins(obj: Any) -> Any:
    """As the API server shows it; what a list leaves to its header stands first again."""
    import msgspec

    named = {"apiVersion": obj.RESOURCE.api_version, "kind": obj.RESOURCE.kind}
    return named | {key: value for key, value in msgspec.to_builtins(obj).items() if key not in named}


def _ready(obj: Any) -> Any:
    return next((c for c in obj.status.conditions if c.type == "Ready"), None)


def _why(obj: Any) -> str:
    return ready.reason if (ready := _ready(obj)) else ""


def _reason(obj: Any, kind: str) -> str:
    return next((each.reason for each in obj.status.conditions if each.type == kind), "")


def _message(obj: Any) -> str:
    return ready.message if (ready := _ready(obj)) else ""


def _age(now: datetime) -> Column[Any]:
    from paddock.base.explanation import span

    def cell(obj: Any) -> str:
        made = obj.metadata.creation_timestamp
        return span(now - made) if made is not None else ""

    return Column("AGE", cell, ticking=True)


def _name(obj: Any) -> str:
    return obj.metadata.name


def _hosts(now: datetime) -> Sequence[Column[Any]]:
    from paddock.base.explanation import span
    from paddock.hosts.retirement import set_aside

    def floor(host: Any) -> str:
        end = host.status.paid_until
        return span(end - now) if end is not None and end > now else ""

    def price(host: Any) -> str:
        # The cloud writes nine decimals; two or three are ever used.
        hour = host.status.price_per_hour
        return f"{hour.rstrip('0').rstrip('.') if '.' in hour else hour} {host.status.currency}".strip()

    return (
        Column("NAME", _name),
        Column("STATE", lambda h: set_aside(h) or h.status.state),
        Column("MACHINE", lambda h: h.spec.claim.machine_name if h.spec.claim else ""),
        Column("TYPE", lambda h: h.status.type),
        Column("ZONE", lambda h: h.spec.zone),
        Column("CLOUD", lambda h: h.status.cloud_status),
        Column("FLOOR", floor, ticking=True),
        Column("WHY", _why),
        Column("CLOUD NAME", lambda h: h.status.cloud_name, wide=True),
        Column("PRICE/H", price, wide=True),
        Column("CLAIMS", lambda h: h.spec.epoch, wide=True),
        Column("MESSAGE", _message, wide=True),
        _age(now),
    )


def _machines(now: datetime) -> Sequence[Column[Any]]:
    return (
        Column("NAME", _name),
        Column("PHASE", lambda m: m.status.phase),
        Column("READY", lambda m: m.status.ready),
        Column("HOST", lambda m: m.status.host_name),
        Column("STEP", lambda m: "" if m.status.ready else m.status.bootstrap_step),
        Column("WHY", _why),
        Column("TYPE", lambda m: m.spec.type, wide=True),
        Column("ZONE", lambda m: m.spec.zone, wide=True),
        Column("FAILED", lambda m: m.status.bootstrap_attempts, wide=True),
        Column("MESSAGE", _message, wide=True),
        _age(now),
    )


def _fleets(now: datetime) -> Sequence[Column[Any]]:
    return (
        Column("NAME", _name),
        Column("WANT", lambda f: f.spec.replicas),
        Column("HAVE", lambda f: f.status.replicas),
        Column("READY", lambda f: f.status.ready_replicas),
        Column("WHY", _why),
        Column("MESSAGE", _message, wide=True),
        _age(now),
    )


def _pools(now: datetime) -> Sequence[Column[Any]]:
    return (
        Column("NAME", _name),
        Column("WANT", lambda p: p.spec.replicas),
        Column("WARM", lambda p: p.status.idle),
        Column("BUSY", lambda p: p.status.busy),
        Column("STARTING", lambda p: p.status.starting),
        Column("QUEUED", lambda p: p.status.queued),
        Column("WITHHELD", lambda p: p.status.withheld),
        Column("WHY", _why),
        Column("LABEL", lambda p: p.spec.dispatch_label, wide=True),
        Column("IMAGE", lambda p: p.spec.image, wide=True),
        Column("WINDOWS", lambda p: _reason(p, "WarmWindows"), wide=True),
        Column("MESSAGE", _message, wide=True),
        _age(now),
    )


def _pods(now: datetime) -> Sequence[Column[Any]]:
    from paddock.runners.api import OWNER_LABEL, POOL_LABEL

    return (
        Column("NAME", _name),
        Column("PHASE", lambda p: "Ending" if p.metadata.deletion_timestamp else p.status.phase),
        Column("POOL", lambda p: p.metadata.labels.get(POOL_LABEL, "")),
        Column("FOR", lambda p: p.metadata.labels.get(OWNER_LABEL, "")),
        Column("NODE", lambda p: p.spec.node_name),
        Column("UID", lambda p: p.metadata.uid, wide=True),
        _age(now),
    )


def _nodes(now: datetime) -> Sequence[Column[Any]]:
    def ready(node: Any) -> str:
        found = next((c for c in node.status.conditions if c.type == "Ready"), None)
        return found.status if found else "Unknown"

    return (
        Column("NAME", _name),
        Column("READY", ready),
        Column("DRAINED", lambda n: n.spec.unschedulable is True),
        Column("PROVIDER", lambda n: n.spec.provider_id, wide=True),
        _age(now),
    )


_API = "paddock.hosts.api"
CLUSTER_KINDS: tuple[Kind, ...] = (
    _kind("hosts", ("host", "sash"), f"{_API}:ScalewayAppleSiliconHost", _hosts),
    _kind("machines", ("machine", "samm"), f"{_API}:ScalewayAppleSiliconMachine", _machines),
    _kind("fleets", ("fleet", "macfleet", "macfleets"), f"{_API}:MacFleet", _fleets),
    _kind("pools", ("pool", "rpool", "runnerpools"), "paddock.runners.api:RunnerPool", _pools),
    _kind("pods", ("pod",), "paddock.kube.builtin:Pod", _pods),
    _kind("nodes", ("node",), "paddock.kube.builtin:Node", _nodes),
)
