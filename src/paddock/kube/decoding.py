"""From the server's bytes to frozen structs: pages of lists, and one object that does not fit among many that do."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from paddock.kube.objects import ListMeta, Struct

__all__ = ["ListPage", "Listing", "Named", "decoder_of", "page_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A complete list, all pages at one resourceVersion: what is not in it did not exist then."""

    items: list[T]
    resource_version: str


class _TypedPage(Struct, Generic[T], frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class _RawPage(Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class Named(Struct, frozen=True):
    class Meta(Struct, frozen=True):
        namespace: str = ""
        name: str = ""
        uid: str = ""
        resource_version: str = ""

    metadata: Meta = Meta()


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page. `unreadable` are objects that are there but do not fit the struct: key → what does not fit."""

    items: list[T]
    metadata: ListMeta
    unreadable: dict[tuple[str, str], str] = field(default_factory=dict)


@cache
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def page_of(kind: type[T], body: bytes) -> ListPage[T]:
    """Decode one page of a list: all at once, and one by one only where some object does not fit."""
    try:
        page = decoder_of(_TypedPage[kind]).decode(body)
        return ListPage(page.items or [], page.metadata)
    except msgspec.ValidationError:
        raw = decoder_of(_RawPage).decode(body)
    items: list[T] = []
    unreadable: dict[tuple[str, str], str] = {}
    for each in raw.items or []:
        try:
            items.append(decoder_of(kind).decode(each))
        except msgspec.ValidationError as error:
            named = decoder_of(Named).decode(each).metadata
            unreadable[named.namespace, named.name] = str(error)
    return ListPage(items, raw.metadata, unreadable)
