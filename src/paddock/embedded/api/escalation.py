"""No user gives away rights that they do not hold: what writing a Role or a binding asks for, as in Kubernetes. Pure.

A role may be written by whoever holds every right in it, or the verb `escalate` on it; a role may be bound by whoever
holds every right in it, or the verb `bind` on it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["describe", "uncovered"]

Json = dict[str, Any]


def uncovered(held: Iterable[Json], wanted: Iterable[Json]) -> list[Json]:
    """Those of the wanted rights, each taken apart to one verb on one thing, that no held rule grants."""
    rules = list(held)
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(own, part) for own in rules)]


def describe(rule: Json) -> str:
    """A rule as Kubernetes' refusal names it."""
    names = (("APIGroups", "apiGroups"), ("NonResourceURLs", "nonResourceURLs"), ("ResourceNames", "resourceNames"))
    shown = [*names, ("Resources", "resources"), ("Verbs", "verbs")]
    return "{" + ", ".join(f"{name}:{_listed(rule[key])}" for name, key in sorted(shown) if rule.get(key)) + "}"


def _parts(rule: Json) -> Iterator[Json]:
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                part: Json = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                for name in rule.get("resourceNames") or (None,):
                    yield part if name is None else {**part, "resourceNames": [name]}


def _covers(held: Json, part: Json) -> bool:
    if not _has(held.get("verbs"), part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        url = part["nonResourceURLs"][0]
        return any(
            own in ("*", url) or (own.endswith("*") and url.startswith(own[:-1]))
            for own in held.get("nonResourceURLs") or ()
        )
    resource = part["resources"][0]
    own = held.get("resources") or ()
    below = resource.partition("/")[2]
    fits = _has(own, resource) or (bool(below) and f"*/{below}" in own)
    names, asked = held.get("resourceNames") or (), part.get("resourceNames")
    # A right to things of some names is not a right to all of them.
    return fits and _has(held.get("apiGroups"), part["apiGroups"][0]) and (not names or (asked or [None])[0] in names)


def _has(listed: Iterable[str] | None, name: str) -> bool:
    return bool({"*", name} & set(listed or ()))


def _listed(values: Iterable[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
