"""What the embedded API serves: one `Kind` for each resource, built-in or from a CustomResourceDefinition."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from paddock.kube.resource import Column, Scale

__all__ = ["Kind", "Kinds", "kind_from_crd", "kinds_from_crd"]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource in one version.

    `schema` is the structural OpenAPI v3 schema of the whole object (`properties.spec`, `properties.status`; metadata is
    implied), or None for a built-in that is stored as it comes. `custom` kinds follow the rules of custom resources
    (no strategic merge patch, generation always kept, Name/Age columns by default), others those of built-ins.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    status: bool = False
    scale: Scale | None = None
    generation: bool = False
    schema: dict[str, Any] | None = field(default=None, hash=False, compare=False)
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    storage_version: str = ""
    since: int = 0
    """The revision at which the definition became what it is: what was stored earlier passed an older one."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The store's name for it: `pods`, `runnerpools.tuist.dev`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


class Kinds:
    """The registry: which kinds are served now. CustomResourceDefinitions come and go at run time."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self.revision = 0
        """Counts changes of the registry, so that documents derived from it can be cached."""
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind; one under the same group, version and plural is replaced."""
        self._kinds[(kind.group, kind.version, kind.plural)] = replace(
            kind, storage_version=kind.storage_version or kind.version
        )
        self._changed()

    def remove(self, group: str, plural: str) -> None:
        """Stop serving every version of a resource."""
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            del self._kinds[key]
        self._changed()

    def _changed(self) -> None:
        self.revision += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait_for_change(self, seen: int) -> None:
        """Return when the registry is no longer at revision `seen`."""
        while self.revision == seen:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def get(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def by_resource(self, resource: str) -> Kind | None:
        """The storage version of a resource by its store name."""
        for kind in self._kinds.values():
            if kind.resource == resource and kind.version == kind.storage_version:
                return kind
        return None

    def by_group_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind that an object or owner reference with this apiVersion and kind names, whatever the version."""
        group = api_version.rpartition("/")[0]
        matches = [k for k in self._kinds.values() if k.group == group and k.kind == kind]
        exact = [k for k in matches if k.api_version == api_version]
        return (exact or matches or [None])[0]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        """Group → version → kinds, in order of registration; the core group is the empty string."""
        found: dict[str, dict[str, list[Kind]]] = {}
        for kind in self._kinds.values():
            found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
        return found


def kinds_from_crd(crd: dict[str, Any]) -> list[Kind]:
    """The kinds that a CustomResourceDefinition (apiextensions.k8s.io/v1) declares, one for each served version."""
    spec = crd["spec"]
    storage = next((v["name"] for v in spec["versions"] if v.get("storage")), spec["versions"][0]["name"])
    since = int((crd.get("metadata") or {}).get("resourceVersion") or 0)
    return [kind_from_crd(spec, version, storage, since) for version in spec["versions"] if version.get("served", True)]


def kind_from_crd(spec: dict[str, Any], version: dict[str, Any], storage: str, since: int = 0) -> Kind:
    """One version of a CustomResourceDefinition's spec as a kind."""
    names = spec["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec.get("scope", "Namespaced") == "Namespaced",
        custom=True,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=None
        if scale is None
        else Scale(
            spec_replicas=scale["specReplicasPath"],
            status_replicas=scale["statusReplicasPath"],
            label_selector=scale.get("labelSelectorPath", ""),
        ),
        generation=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        columns=tuple(
            Column(
                name=column["name"],
                path=column["jsonPath"],
                type=column["type"],
                description=column.get("description", ""),
                priority=column.get("priority", 0),
                format=column.get("format", ""),
            )
            for column in version.get("additionalPrinterColumns") or ()
        ),
        selectable=tuple(f["jsonPath"] for f in version.get("selectableFields") or ()),
        storage_version=storage,
        since=since,
    )
