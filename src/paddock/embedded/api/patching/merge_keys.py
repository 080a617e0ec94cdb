"""How the lists and maps of the built-in kinds merge: the part of their Go types that patches and ownership need.

Custom resources say this in their schema. Built-ins are stored as they come, so the few fields that are not what they
seem (a list with keys, a set, a map that is one value) are named here, by field name and where a name means different
things, by kind.
"""

from dataclasses import dataclass
from typing import Final

from paddock.embedded.api.kinds import Kind

__all__ = ["ATOMIC_MAPS", "FREE_MAPS", "REPLACED_MAPS", "ListMerge", "list_merge"]


@dataclass(frozen=True, slots=True)
class ListMerge:
    """How a list of a built-in merges.

    `patch_key` is the merge key of a strategic merge patch; `keys` identify an item for server-side apply (two for
    ports: the number alone is not unique). A set has neither. `atomic` lists are one value to server-side apply even
    where a strategic merge patch merges them; `atomic_items` are owned as one value each.
    """

    patch_key: str = ""
    keys: tuple[str, ...] = ()
    atomic: bool = False
    key_defaults: tuple[tuple[str, str], ...] = ()
    atomic_items: bool = False

    @property
    def is_set(self) -> bool:
        return not self.keys and not self.atomic


def _by(key: str, *, atomic_items: bool = False) -> ListMerge:
    return ListMerge(patch_key=key, keys=(key,), atomic_items=atomic_items)


_SET: Final = ListMerge()
_TCP: Final = (("protocol", "TCP"),)

_LISTS: Final[dict[str, ListMerge]] = {
    "addresses": _by("type"),
    "allocatedResourcesStatus": _by("name"),
    "claims": ListMerge(keys=("name",)),
    "conditions": _by("type"),
    "containers": _by("name"),
    "env": _by("name"),
    "ephemeralContainers": _by("name"),
    "hostAliases": _by("ip"),
    "hostIPs": ListMerge(patch_key="ip", atomic=True),
    "imagePullSecrets": _by("name", atomic_items=True),
    "initContainers": _by("name"),
    "podCIDRs": _SET,
    "podIPs": _by("ip"),
    "resourceClaimStatuses": _by("name"),
    "resourceClaims": _by("name"),
    "schedulingGates": _by("name"),
    "secrets": _by("name", atomic_items=True),
    "topologySpreadConstraints": ListMerge(patch_key="topologyKey", keys=("topologyKey", "whenUnsatisfiable")),
    "volumeDevices": _by("devicePath"),
    "volumeMounts": _by("mountPath"),
    "volumes": _by("name"),
}
_METADATA_LISTS: Final[dict[str, ListMerge]] = {"finalizers": _SET, "ownerReferences": _by("uid", atomic_items=True)}
_CONTAINER_PORTS: Final = ListMerge(patch_key="containerPort", keys=("containerPort", "protocol"), key_defaults=_TCP)
_SERVICE_PORTS: Final = ListMerge(patch_key="port", keys=("port", "protocol"), key_defaults=_TCP)
# The same names mean plain, replaced lists in these kinds.
_PLAIN: Final[dict[str, frozenset[str]]] = {
    "ServiceAccount": frozenset({"imagePullSecrets"}),
    "Endpoints": frozenset({"addresses", "notReadyAddresses"}),
    "EndpointSlice": frozenset({"addresses"}),
    "CustomResourceDefinition": frozenset(),
}

FREE_MAPS: Final = frozenset(
    {
        "allocatable",
        "annotations",
        "binaryData",
        "capacity",
        "data",
        "hard",
        "labels",
        "limits",
        "matchLabels",
        "requests",
        "stringData",
        "used",
    }
)
"""Fields whose keys are data (labels), not names of fields: each key is owned on its own."""

ATOMIC_MAPS: Final = frozenset(
    {
        "claimRef",
        "configMapKeyRef",
        "fieldRef",
        "fileKeyRef",
        "involvedObject",
        "labelSelector",
        "namespaceSelector",
        "nodeSelector",
        "podSelector",
        "regarding",
        "related",
        "resourceFieldRef",
        "roleRef",
        "secretKeyRef",
        "secretRef",
        "selector",
        "targetRef",
    }
)
"""Objects that are owned, merged and replaced as one value by server-side apply."""

REPLACED_MAPS: Final[dict[str, frozenset[str]]] = {"PodDisruptionBudget": frozenset({"selector"})}
"""Objects that a strategic merge patch replaces instead of merging, by kind."""


def list_merge(kind: Kind, parent: str, name: str) -> ListMerge | None:
    """How the list `name` inside the object `parent` merges; None for a list that is replaced as a whole."""
    if parent == "metadata":
        return _METADATA_LISTS.get(name)
    if name == "ports":
        if parent in {"containers", "initContainers", "ephemeralContainers"}:
            return _CONTAINER_PORTS
        return _SERVICE_PORTS if kind.kind == "Service" and parent == "spec" else None
    if name in _PLAIN.get(kind.kind, frozenset()):
        return None
    return _LISTS.get(name)
