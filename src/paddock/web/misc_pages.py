"""Pages that lead elsewhere: found, not found, gone, refused, sign in, read on."""

from collections.abc import Sequence

import htpy as h
from htpy import Node

from paddock.web.links import command, href, sentence_case
from paddock.web.object_pages import told
from paddock.web.shell import Site, document
from paddock.web.timeline import TimelineEntry

__all__ = ["found_page", "missing_page", "refused_page", "runbook_page", "sign_in_page"]


def sign_in_page(site: Site, then: str, *, wrong: bool = False) -> Node:
    return document(
        site,
        "Sign in · Paddock",
        h.h1(".object")["May you act?"],
        h.p(".lead")[
            "Looking needs nothing. To act, show the action token once; this browser remembers it for twelve hours. ",
            "It is in the file ",
            h.code["pki/action.token"],
            " of the data folder, or in the Secret of the chart.",
        ],
        h.p(".notice", role="alert")["That is not the token."] if wrong else None,
        h.form(".card.sign-in", method="post", action="/sign-in")[
            h.input(type="hidden", name="then", value=then),
            h.p[
                h.label(for_="who")["Your name (it is written down beside what you do)"],
                h.input("#who", name="who", type="text", required=True, maxlength="60", autocomplete="name"),
            ],
            h.p[
                h.label(for_="token")["Action token"],
                h.input("#token", name="token", type="password", required=True, autocomplete="current-password"),
            ],
            h.p(".buttons")[h.button(type="submit")["Go on"], h.a(".button.plain", href="/")["Back to the fleet"]],
        ],
    )


def missing_page(
    site: Site, what: str, near: Sequence[tuple[str, str]] = (), lines: Sequence[TimelineEntry] = ()
) -> Node:
    """A 404 that helps: what was last heard of it, what is like it, and how to list what there is."""
    return document(
        site,
        "Not found · Paddock",
        h.nav(".crumbs", aria_label="Where you are")[h.a(href="/")["Fleet"], " / not found"],
        h.h1(".object")["It is gone" if lines else "There is nothing here"],
        h.p(".lead")[sentence_case(what)],
        h.section(".card", aria_labelledby="heard-title")[h.h2("#heard-title")["Last heard of it"], told(lines)]
        if lines
        else None,
        h.section(".card", aria_labelledby="near-title")[h.h2("#near-title")["Did you mean"], _names(near)]
        if near
        else None,
        h.p(".typed")[
            "What there is: ", [command(f"paddock get {kind}") for kind in ("hosts", "machines", "pods", "jobs")]
        ],
        h.p[h.a(".alone", href="/")["Back to the fleet"]],
    )


def found_page(site: Site, sought: str, found: Sequence[tuple[str, str]]) -> Node:
    """Everything that is called so."""
    return document(
        site,
        f"{sought} · Paddock",
        h.nav(".crumbs", aria_label="Where you are")[h.a(href="/")["Fleet"], " / find"],
        h.h1(".object")[h.small["find"], " ", sought],
        h.section(".card", aria_labelledby="found-title")[h.h2("#found-title")[f"{len(found)} found"], _names(found)]
        if found
        else h.p(".lead")[
            "Nothing here is called so. Names of Macs, machines, Pods and pools are looked through, and numbers of jobs."
        ],
        sought=sought,
    )


def _names(found: Sequence[tuple[str, str]]) -> Node:
    return h.ul(".related.found")[
        [h.li[h.span(".tag")[kind], " ", h.a(href=href(kind, name))[name]] for kind, name in found]
    ]


def refused_page(site: Site, why: str) -> Node:
    return document(
        site,
        "Not done · Paddock",
        h.h1(".object")["That was not done"],
        h.p(".lead")[sentence_case(why), "."],
        h.p[h.a(".alone", href="/")["Back to the fleet"]],
    )


def runbook_page(site: Site, name: str, body: Node) -> Node:
    return document(site, f"{name} · Paddock", h.article(".card.text")[body])
