"""Where things are: the address of every object's page, and how to ask for the same on the command line. Pure."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import htpy as h
from htpy import Node

from paddock.base.readable import shown

__all__ = ["KINDS", "about_href", "command", "foreign", "href", "linked", "of_object", "same_as", "sentence_case"]

KINDS = {
    "host": "hosts",
    "machine": "machines",
    "fleet": "fleets",
    "pool": "pools",
    "pod": "pods",
    "job": "jobs",
}
_BY_OBJECT = {
    "ScalewayAppleSiliconHost": "host",
    "ScalewayAppleSiliconMachine": "machine",
    "MacFleet": "fleet",
    "RunnerPool": "pool",
    "Pod": "pod",
}
_NAMED = re.compile(r"\b(host|machine|fleet|pool|[Pp]od|job) ([A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9])")


_WORD = re.compile(r"[a-z]+(?=[\s,:;.!?]|$)")


def sentence_case(text: str) -> str:
    """The sentence with a capital first letter, unless it begins with a name such as `acme/app`: names keep their spelling."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def href(kind: str, name: str | int) -> str:
    """The page of an object."""
    return f"/{KINDS[kind]}/{quote(str(name), safe='')}"


def of_object(kind: str, name: str) -> tuple[str, str | None]:
    """What people call an object of the cluster, and its page if it has one."""
    known = _BY_OBJECT.get(kind)
    return (f"{known} {name}", href(known, name)) if known is not None else (f"{kind} {name}", None)


def about_href(about: str) -> str | None:
    """The page of what an explanation or a problem is about: `host 1f3c`."""
    kind, _, name = about.partition(" ")
    return href(kind, name) if kind in KINDS and name and " " not in name else None


def same_as(kind: str, name: str | int) -> Node:
    return h.p(".same")["same as ", command(f"paddock why {kind} {name}")]


def command(text: str) -> Node:
    """A command that is copied with a click or with Enter; without script, one click selects it."""
    return h.code(".command", role="button", tabindex="0", title="Copy")[text]


def foreign(text: str) -> Node:
    """What strangers called something, such as a job: it turns no writing around it, and holds nothing that cannot be seen."""
    return h.bdi[shown(text)]


def linked(text: str) -> Iterator[Node]:
    """A sentence with links to what it names (`Pod macos-runner-1`, `job 40000002623`), without what turns its writing."""
    text, at = shown(text), 0
    for found in _NAMED.finditer(text):
        kind, name = found[1].lower(), found[2]
        if not any(char.isdigit() or char == "-" for char in name) or (kind == "job" and not name.isdecimal()):
            continue  # a word of the sentence, such as "pool of"
        yield text[at : found.start(2)]
        yield h.a(href=href(kind, name))[name]
        at = found.end(2)
    yield text[at:]
