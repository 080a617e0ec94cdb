"""How an object looks: frozen structs that hold what we read and skip the rest.

Structs are frozen, so an object in a cache can be shared: no reader can change it by accident. Fields that are
not declared are skipped while decoding, at C speed; therefore **never PUT back a struct that does not declare every
field of its kind**: patch or apply instead (`paddock.kube.client` offers `update` for kinds of our own only).
"""

from datetime import datetime
from typing import ClassVar

import msgspec

from paddock.kube.resource import Resource

__all__ = [
    "Condition",
    "KubeObject",
    "ListMeta",
    "ObjectMeta",
    "OwnerReference",
    "Struct",
    "key_of",
]


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """The base of everything that travels to and from the API: frozen, camelCase outside, defaults left out."""


class OwnerReference(Struct, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Condition(Struct, frozen=True):
    """`metav1.Condition`. `message` is the one sentence people read: what, why, since when, what happens next."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None
    severity: str = ""


class KubeObject(Struct, frozen=True):
    """The base of every kind. A subclass names its `RESOURCE` and declares the fields that it reads."""

    RESOURCE: ClassVar[Resource]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


def key_of(obj: KubeObject) -> tuple[str, str]:
    """(namespace, name): what identifies an object within its kind. Cluster-scoped objects have an empty namespace."""
    return (obj.metadata.namespace, obj.metadata.name)
