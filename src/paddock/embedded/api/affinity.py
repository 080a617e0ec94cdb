"""Which Nodes a Pod asks for, by its nodeSelector and the node affinity that it requires, and which it shuns. Preferences are not known."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["asks_for", "shunned"]

Json = dict[str, Any]


def asks_for(pod: Json, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a Node of this name, with these labels, is one that the Pod asks for."""
    spec = pod.get("spec") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_meets(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def _meets(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    """All of a term must hold; one that asks for nothing matches nothing, as in Kubernetes."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    return all(_holds(each, labels) for each in by_label) and all(
        _holds(each, {"metadata.name": name}) for each in by_field
    )


def _holds(wanted: Json, found: Mapping[str, str]) -> bool:
    value, values = found.get(wanted.get("key", "")), wanted.get("values") or ()
    match wanted.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False  # what is not understood is not fulfilled


def _compares(operator: str, value: str | None, values: Any) -> bool:
    try:
        found, limit = int(value or ""), int(values[0])
    except (IndexError, ValueError):
        return False
    return found > limit if operator == "Gt" else found < limit


def shunned(pod: Json, others: Iterable[Json]) -> frozenset[str]:
    """The Nodes with a Pod that has labels which this Pod wants on no Node of its own."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    wanted = [
        term["labelSelector"]["matchLabels"].items()
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        if term.get("topologyKey") == "kubernetes.io/hostname" and (term.get("labelSelector") or {}).get("matchLabels")
    ]
    if not wanted:
        return frozenset()
    return frozenset(
        node
        for other in others
        if (node := (other.get("spec") or {}).get("nodeName"))
        and (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and other["metadata"].get("namespace") == pod["metadata"].get("namespace")
        and any(labels <= (other["metadata"].get("labels") or {}).items() for labels in wanted)
    )
