"""What every page has around it: head, skip link, top line, main, foot."""

from dataclasses import dataclass

import htpy as h
from htpy import Node

from paddock.web.assets import asset

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


def document(site: Site, title: str, *content: Node, front: bool = False, sought: str = "") -> Node:
    """A whole page. The front page brings its own main, and more above it; it alone is live."""
    brand = h.fragment[h.img(src=asset("paddock.svg"), alt="", width="28", height="28"), "Paddock"]
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.title[title],
            h.link(rel="stylesheet", href=asset("paddock.css")),
            h.script(src=asset("page.js"), defer=True),
            [h.script(src=asset(name), defer=True) for name in ("live.js", "charts.js")] if front else None,
            h.link(rel="icon", href=asset("paddock.svg"), type="image/svg+xml", data_alarm=asset("paddock-alarm.svg")),
        ],
        h.body[
            h.a(".skip", href="#main")["Skip to the content"],
            h.header(".top")[
                h.h1(".brand")[brand] if front else h.p(".brand")[h.a(href="/")[brand]],
                h.p(".where")[h.span(".tag")["simulation"] if site.simulated else None, site.environment],
                _search(sought),
                h.nav(aria_label="Pages")[
                    h.a(href="/", aria_current="page" if front else None)["Fleet"],
                    h.a(href="/faults")["Break something"] if site.faults else None,
                ],
                h.p("#link", role="status") if front else None,
            ],
            content if front else h.main("#main", tabindex="-1")[content],
            h.footer[
                h.p[
                    "Everything here is also on the command line: ",
                    h.code["paddock status"],
                    " · ",
                    h.code["paddock why host NAME"],
                    " · ",
                    h.code["paddock events -w"],
                ],
                h.p(".keys")[h.kbd["/"], " finds, ", h.kbd["←"], h.kbd["→"], " go from Mac to Mac"],
                h.p[h.a(href="/healthz")["health"], " · ", h.a(href="/metrics")["metrics"]],
            ],
            h.p("#said.unseen", role="status"),
        ],
    ]


def _search(sought: str) -> Node:
    """Without script it asks the server; with it, the front page shows what fits while one types."""
    return h.form(".find", role="search", action="/find", method="get")[
        h.input(
            "#find",
            name="q",
            type="search",
            value=sought or None,
            aria_label="Find a Mac, a Pod, a pool or a job",
            aria_keyshortcuts="/",
            placeholder="Find a Mac, Pod, pool, job",
            autocomplete="off",
            spellcheck="false",
            maxlength="120",
        )
    ]
