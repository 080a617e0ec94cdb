"""Which kinds there are: aggregated discovery for new clients, the plain documents for old ones.

The content type decides how kubectl reads the aggregated answer, so it goes out only to a client that names `v=v2`;
everybody else, also a client that asks for v2beta1 alone, gets the plain documents, which every kubectl understands.
"""

import re
from typing import Any

from paddock.embedded.api.builtin.catalogue import SUBRESOURCES, Subresource
from paddock.embedded.api.kinds import Kind, Kinds

__all__ = [
    "AGGREGATED_CONTENT_TYPE",
    "aggregated",
    "core_versions",
    "group",
    "groups",
    "resources",
    "version_order",
    "wants_aggregated",
]

AGGREGATED_CONTENT_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_STATUS_VERBS = ("get", "patch", "update")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def wants_aggregated(accept: str) -> bool:
    """Whether an Accept header has the aggregated list, in version v2 and as JSON, among its choices."""
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        given = {name: value for name, _, value in (parameter.partition("=") for parameter in parameters)}
        if (
            media == "application/json"
            and given.get("g") == "apidiscovery.k8s.io"
            and given.get("v") == "v2"
            and given.get("as") == "APIGroupDiscoveryList"
        ):
            return True
    return False


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as clients prefer them: v2, v1, v1beta2, v1beta1, v1alpha1, and what is no version at the end."""
    parsed = _VERSION.fullmatch(version)
    if parsed is None:
        return (3, 0, 0, version)
    major, stage, minor = parsed.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), "")


def aggregated(kinds: Kinds, *, core: bool) -> dict[str, Any]:
    """The whole of `/api` (core) or of `/apis` in one document."""
    served = kinds.groups()
    names = [name for name in served if (name == "") == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(kind) for kind in served[name][version]],
                        "freshness": "Current",
                    }
                    for version in sorted(served[name], key=version_order)
                ],
            }
            for name in names
        ],
    }


def core_versions(address: str) -> dict[str, Any]:
    """The plain `/api`, with the address at which it is served: the official clients refuse an answer without one."""
    reached = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": reached}


def groups(kinds: Kinds) -> dict[str, Any]:
    """The plain `/apis`."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, list(versions)) for name, versions in kinds.groups().items() if name],
    }


def group(kinds: Kinds, name: str) -> dict[str, Any] | None:
    """The plain `/apis/GROUP`, or None when nothing of that group is served."""
    versions = kinds.groups().get(name) if name else None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))} if versions else None


def resources(kinds: Kinds, group: str, version: str) -> dict[str, Any] | None:
    """The plain list of one group and version (`/api/v1` for the core), or None when it is not served."""
    served = kinds.groups().get(group, {}).get(version)
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for kind in served for entry in _plain_entries(kind)],
    }


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in sorted(versions, key=version_order)]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _subresources(kind: Kind) -> list[Subresource]:
    own = Subresource("status", kind.group, kind.version, kind.kind, _STATUS_VERBS)
    scale = Subresource("scale", "autoscaling", "v1", "Scale", _STATUS_VERBS)
    found = [own] if kind.status else []
    if kind.scale is not None:
        found.append(scale)
    return [*SUBRESOURCES.get(kind.resource, ()), *found]


def _aggregated_resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if parts := _subresources(kind):
        entry["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": {"group": part.group, "version": part.version, "kind": part.kind},
                "verbs": list(part.verbs),
            }
            for part in parts
        ]
    return entry


def _plain_entries(kind: Kind) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    entries = [entry]
    for part in _subresources(kind):
        listed: dict[str, Any] = {
            "name": f"{kind.plural}/{part.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": part.kind,
            "verbs": list(part.verbs),
        }
        if (part.group, part.version) != (kind.group, kind.version):
            listed |= {"group": part.group, "version": part.version}
        entries.append(listed)
    return entries
