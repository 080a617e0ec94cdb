"""Recorded incidents: all that `status` read at one moment of a simulated fleet, and the true cause of what was wrong.

`tests/operations/test_incidents.py` records them, with `PADDOCK_WRITE_INCIDENTS=1`.
"""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.health import FleetHealth, survey

__all__ = ["Recorded", "recordings"]

_FOLDER = Path(__file__).parent / "incidents"
_UNREAD = frozenset(
    [
        "containers",
        "volumes",
        "initContainers",
        "ownerReferences",
        "nodeInfo",
        "images",
        "addresses",
        "managedFields",
        "resourceVersion",
        "finalizers",
        "taints",
        "tolerations",
        "affinity",
        "nodeSelector",
        "containerStatuses",
        "capacity",
        "generateName",
        "template",
        "lastHeartbeatTime",
        "env",
    ]
)
"""Nothing of this is ever looked at by the survey; the files are smaller without it."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """`cause` is what the one who struck knows to be wrong; `second` the kind of what is wrong beside it and has nothing to do with it."""

    incident: str
    cause: str
    second: str = ""
    now: datetime
    hosts: list[ScalewayAppleSiliconHost]
    machines: list[ScalewayAppleSiliconMachine]
    fleets: list[MacFleet]
    pools: list[RunnerPool]
    pods: list[Pod]
    nodes: list[Node]
    summary: QueueSummary | None
    told: list[str]

    def health(self) -> FleetHealth:
        return survey(
            hosts=self.hosts,
            machines=self.machines,
            fleets=self.fleets,
            pools=self.pools,
            pods=self.pods,
            nodes=self.nodes,
            summary=self.summary,
            now=self.now,
            told=self.told,
        )

    def first(self) -> str:
        """What is named first; "" where nothing is."""
        health = self.health()
        return "" if health.ok else health.problems[0].about

    def right(self) -> bool:
        """Whether that is the true cause; a cause without a name is true of any of its kind."""
        return self.first() == self.cause or (bool(self.first()) and self.first().split()[0] == self.cause)

    def write(self) -> None:
        _FOLDER.mkdir(exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", self.incident.lower()).strip("-")
        fields: dict[str, Any] = _lean(msgspec.to_builtins(self))
        lines = [f"{_json(key)}: {_lines(value)}" for key, value in fields.items()]
        (_FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def recordings() -> dict[str, Recorded]:
    found = [msgspec.json.decode(path.read_bytes(), type=Recorded) for path in sorted(_FOLDER.glob("*.json"))]
    return {one.incident: one for one in found}


def _lines(value: Any) -> str:
    """One object a line, so that a difference can be read."""
    if not isinstance(value, list) or not value:
        return _json(value)
    return "[\n" + ",\n".join(_json(each) for each in value) + "\n]"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _lean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lean(inner) for key, inner in value.items() if key not in _UNREAD}
    return [_lean(each) for each in value] if isinstance(value, list) else value
