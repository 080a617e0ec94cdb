"""How the picture becomes HTML. Every state is said in words and marked by a sign, never by colour alone."""

from collections.abc import Sequence
from itertools import groupby

import htpy as h
from htpy import Node

from paddock.web.view import FleetView, Tile

__all__ = ["fragments", "page"]

_SIGNS = {
    "pooled": "○",
    "claiming": "◔",
    "owned": "●",
    "releasing": "◑",
    "foreign": "◇",
    "stranded": "▲",
    "gone": "✕",
}


def page(view: FleetView, *, title: str, hint: str) -> Node:
    """The whole page; the parts that live are the fragments, each in an element of that id."""
    parts = fragments(view)
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
        h.body[
            h.a(".skip", href="#fleet")["Skip to the fleet"],
            h.header[
                h.h1["Paddock"],
                h.p(".where")[hint],
                h.p("#link", role="status", aria_live="polite")["connecting…"],
            ],
            h.main[
                h.section("#strip", aria_label="Numbers")[parts["strip"]],
                h.section("#problems", aria_label="Problems")[parts["problems"]],
                h.section("#fleet", aria_label="Fleet", tabindex="-1")[parts["fleet"]],
                h.section("#events", aria_label="Events")[parts["events"]],
            ],
        ],
    ]


def fragments(view: FleetView) -> dict[str, Node]:
    """The living parts by the id of the element that holds them."""
    return {
        "strip": _strip(view),
        "problems": _problems(view.problems),
        "fleet": _fleet(view.tiles),
        "events": _events(view),
    }


def _strip(view: FleetView) -> Node:
    stranded = view.states["stranded"]
    numbers: list[tuple[str, str, bool]] = [
        ("Macs", str(len(view.tiles)), False),
        ("free", str(view.states["pooled"]), False),
        ("machines ready", f"{view.machines_ready} of {view.machines}", False),
        ("stranded", str(stranded), stranded > 0),
        ("runner pools", str(view.pools), False),
        ("Pods running", f"{view.pods_running} of {view.pods}", False),
    ]
    return h.dl(".strip")[
        [h.div(class_="alarm" if alarm else None)[h.dt[label], h.dd[value]] for label, value, alarm in numbers]
    ]


def _problems(problems: Sequence[str]) -> Node:
    if not problems:
        return h.p(".quiet")["No problem is known."]
    return h.ul(".problems")[[h.li[problem] for problem in problems]]


def _fleet(tiles: Sequence[Tile]) -> Node:
    if not tiles:
        return h.p(".quiet")["No Mac is known yet: the first look at the cloud is under way."]
    zones = [(zone, list(members)) for zone, members in groupby(tiles, key=lambda tile: tile.zone)]
    return h.fragment[
        [
            h.div(".zone")[
                h.h2[zone or "no zone", " ", h.small[f"{len(members)} Macs"]],
                h.ul(".grid")[[_tile(tile) for tile in members]],
            ]
            for zone, members in zones
        ]
    ]


def _tile(tile: Tile) -> Node:
    state = tile.state or "unknown"
    return h.li(".tile", data_state=state, title=tile.why or None)[
        h.span(".state")[h.span(".sign", aria_hidden="true")[_SIGNS.get(state, "?")], " ", state],
        h.span(".name")[tile.machine or tile.name],
        h.span(".detail")[
            " · ".join(part for part in (tile.type, tile.doing or tile.cloud_status, tile.floor) if part)
        ],
    ]


def _events(view: FleetView) -> Node:
    if not view.events:
        return h.p(".quiet")["Nothing has happened yet."]
    return h.table[
        h.caption["What happened last"],
        h.thead[h.tr[[h.th(scope="col")[name] for name in ("Time (UTC)", "What", "About", "Message")]]],
        h.tbody[
            [
                h.tr(class_="warning" if event.warning else None)[
                    h.td[event.at], h.td[event.reason], h.td[event.about], h.td[event.message]
                ]
                for event in view.events
            ]
        ],
    ]
