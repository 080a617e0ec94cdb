"""What every page has around it: head, skip link, top line, main, foot."""

from dataclasses import dataclass

import htpy as h
from htpy import Node

__all__ = ["Site", "document"]


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages say about where they are."""

    environment: str
    """Which cloud and zones, in a few words."""
    simulated: bool = False
    faults: bool = False
    """Whether there is a panel that breaks things."""
    actions: bool = False
    """Whether actions can be allowed at all; without, the pages are for reading."""


def document(site: Site, title: str, *content: Node, top: Node = None, version: str = "", front: bool = False) -> Node:
    """A whole page. Only the front page, which carries a version, is live."""
    brand = h.fragment[h.img(src="/static/paddock.svg", alt="", width="28", height="28"), "Paddock"]
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.title[title],
            h.link(rel="icon", href="/static/paddock.svg", type="image/svg+xml"),
            h.link(rel="stylesheet", href="/static/paddock.css"),
            h.script(src="/static/live.js", defer=True),
        ],
        h.body(data_version=version or None)[
            h.a(".skip", href="#main")["Skip to the content"],
            h.header(".top")[
                h.h1(".brand")[brand] if front else h.p(".brand")[h.a(href="/")[brand]],
                h.p(".where")[h.span(".tag")["simulation"] if site.simulated else None, site.environment],
                h.nav(aria_label="Pages")[
                    h.a(href="/", aria_current="page" if front else None)["Fleet"],
                    h.a(href="/faults")["Break something"] if site.faults else None,
                ],
                h.p("#link", role="status")["" if version else None] if version else None,
            ],
            top,
            h.main("#main", tabindex="-1")[content],
            h.footer[
                h.p[
                    "Everything here is also on the command line: ",
                    h.code["paddock status"],
                    " · ",
                    h.code["paddock why host NAME"],
                    " · ",
                    h.code["paddock events -w"],
                ],
                h.p[h.a(href="/healthz")["health"], " · ", h.a(href="/metrics")["metrics"]],
            ],
        ],
    ]
