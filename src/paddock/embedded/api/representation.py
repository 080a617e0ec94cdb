"""A stored object as clients see it: in the version they ask for, as today's definition has it."""

from typing import Any

import msgspec

from paddock.embedded.api import admission
from paddock.embedded.api.kinds import Kind
from paddock.embedded.store import Record

__all__ = ["decode", "labels_of", "listed", "metadata_of", "seen", "shown"]

Json = dict[str, Any]

_decode = msgspec.json.Decoder(type=dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


class _Labelled(msgspec.Struct):
    class Meta(msgspec.Struct):
        labels: dict[str, str] | None = None

    metadata: Meta = msgspec.field(default_factory=Meta)


_decode_labels = msgspec.json.Decoder(_Labelled).decode


def labels_of(record: Record) -> dict[str, str]:
    """The labels alone, for a fraction of what the whole object costs: a list by label asks this of every object of a kind."""
    return _decode_labels(record.value).metadata.labels or {}


def decode(record: Record) -> Json:
    """A fresh dict of a stored object, which the caller may change."""
    return _decode(record.value)


def seen(kind: Kind, record: Record) -> Json:
    """The object in the version that was asked for, and as today's definition has it.

    Versions differ in their name only. What was stored under an earlier definition lacks the defaults that came since.
    """
    obj = {**decode(record), "apiVersion": kind.api_version}
    return admission.refreshed(kind, obj) if record.revision < kind.since else obj


def metadata_of(obj: Json, version: str) -> Json:
    """What a client sees that asks for metadata alone, in this version of `meta.k8s.io`."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
    return {**head, "metadata": obj.get("metadata") or {}}


def shown(kind: Kind, record: Record) -> bytes:
    """`seen` as JSON, which is mostly what is stored."""
    if kind.version == kind.storage_version and record.revision >= kind.since:
        return record.value
    return _encode(seen(kind, record))


def listed(kind: Kind, record: Record) -> bytes:
    """An object as an item of a list: the list of a built-in kind does not repeat the kind in every item."""
    if kind.custom:
        return shown(kind, record)
    head = b'{"apiVersion":"%b","kind":"%b",' % (kind.api_version.encode(), kind.kind.encode())
    if record.value.startswith(head):
        return b"{" + record.value[len(head) :]
    return _encode({name: part for name, part in decode(record).items() if name not in ("apiVersion", "kind")})
