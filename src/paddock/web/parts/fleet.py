"""The fleet grid: a tile a Mac, by zone and fleet. Rendered tile by tile, so that a thousand stay quick."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import htpy as h
from htpy import Node
from markupsafe import Markup, escape

from paddock.web.links import href
from paddock.web.live import Part
from paddock.web.parts.drawing import bar, empty, lasting, many
from paddock.web.tiles import STATES, Group, Tile, tile_states

__all__ = ["fleet_parts", "mark"]

_COMPACT_FROM = 61
"""From so many Macs on, tiles are small: a sign and a letter each, with the words behind them and in the legend."""


def fleet_parts(groups: Sequence[Group], now: datetime) -> dict[str, Part]:
    """The grid, its legend, the groups and the tiles, each within the one before: a Mac that changes sends its own tile,
    one that changes hands sends two groups, and only a new group sends the grid.
    """
    compact = sum(len(group.tiles) for group in groups) >= _COMPACT_FROM
    legend = str(_legend(groups))
    tiles = [[_part(number, tile, now, compact) for tile in group.tiles] for number, group in enumerate(groups)]
    parts = {
        "fleet": Part(
            lambda: str(_fleet(groups, tiles, compact=compact)),
            (compact, tuple((group.zone, group.fleet) for group in groups)),
        ),
        "legend": Part.of(legend, "fleet"),
    }
    for number, group in enumerate(groups):
        parts[f"g-{number}-says"] = Part.of(_said(group), "fleet")
        parts[f"g-{number}"] = Part(
            lambda group=group, inner=tiles[number]: _items(group, inner),
            tuple(tile.name for tile in group.tiles),
            "fleet",
        )
        parts.update(zip((f"t-{tile.name}" for tile in group.tiles), tiles[number], strict=True))
    return parts


def mark(state: str) -> Node:
    """The sign of a state: a shape, a letter and a colour, for the eye; the word stands beside it."""
    return h.span(".mark", data_state=state, aria_hidden="true")[h.b[STATES[state].letter]]


def _fleet(groups: Sequence[Group], tiles: Sequence[Sequence[Part]], *, compact: bool) -> Node:
    if not groups:
        return empty("No Mac is known yet: the first look at the cloud is under way.")
    return h.fragment[
        h.div("#legend")[_legend(groups)],
        h.a(".skip-over", href="#queue-title")["Skip the Macs"],
        h.p("#fits.quiet"),
        [
            _group(number, group, inner, compact=compact)
            for number, (group, inner) in enumerate(zip(groups, tiles, strict=True))
        ],
    ]


def _group(number: int, group: Group, tiles: Sequence[Part], *, compact: bool) -> Node:
    name = f"fleet {group.fleet}" if group.fleet else "no fleet"
    return h.section(".group.many" if compact else ".group", aria_label=f"{group.zone}, {name}")[
        h.h3[
            group.zone,
            " · ",
            h.a(href=href("fleet", group.fleet))[name] if group.fleet and group.fleet != "machines" else name,
            " ",
            h.small(id=f"g-{number}-says")[_said(group)],
        ],
        h.ul(".grid", id=f"g-{number}", data_size="compact" if compact else "full")[
            Markup(_items(group, tiles))  # noqa: S704 - made of what is escaped already
        ],
    ]


def _items(group: Group, tiles: Sequence[Part]) -> str:
    return "".join(
        f'<li id="t-{escape(tile.name)}">{part.html()}</li>' for tile, part in zip(group.tiles, tiles, strict=True)
    )


def _said(group: Group) -> str:
    up = sum(count for state, count in group.counts.items() if state in ("busy", "ready", "draining"))
    macs = many(len(group.tiles), "Mac")
    return f"{macs}, {up} ready" if group.fleet else macs


def _legend(groups: Sequence[Group]) -> Node:
    counts = tile_states(groups)
    return h.ul(".legend", aria_label="How many Macs are in which state")[
        [
            h.li(title=state.meaning)[mark(name), f"{counts[name]} ", state.word]
            for name, state in STATES.items()
            if counts[name] or name in ("busy", "ready", "free", "stranded")
        ]
    ]


def _part(number: int, tile: Tile, now: datetime, compact: bool) -> Part:
    # A large tile says since when, so it is drawn anew at every look; there are few of them.
    return _small_part(number, tile) if compact else Part.of(str(_large(tile, now)), f"g-{number}")


@lru_cache(maxsize=16_384)
def _small_part(number: int, tile: Tile) -> Part:
    html = _small(tile)
    return Part(lambda: html, html, f"g-{number}")


def _small(tile: Tile) -> str:
    """One element, whose sign is drawn by the style sheet; the title is what it is called. Written out, since a thousand
    are rendered when the first page is opened.
    """
    what = tile.job or tile.doing
    label = f"{tile.title}: {STATES[tile.state].word}{f', {what}' if what else ''}"
    said = escape(label)
    # The title is for a pointer; who touches or listens needs the name, which a title is not everywhere.
    return f'<a class="tile small" data-state="{tile.state}" href="{href("host", tile.name)}" title="{said}" aria-label="{said}"></a>'


def _large(tile: Tile, now: datetime) -> Node:
    state, what = STATES[tile.state], tile.job or tile.doing
    return h.a(".tile", href=href("host", tile.name), data_state=tile.state)[
        h.span(".tile-state")[mark(tile.state), state.word, " ", lasting(tile.since, now)],
        h.span(".tile-floor", title="Apple's billing floor or a monthly commitment: it is paid for until then")[
            f"floor {tile.floor}"
        ]
        if tile.floor
        else None,
        h.span(".tile-name")[tile.title],
        h.span(".tile-what")[what or _else(tile)],
        bar(tile.step / tile.steps, f"step {tile.step} of {tile.steps}", "busy") if tile.steps else None,
    ]


def _else(tile: Tile) -> str:
    if tile.afterwards:
        return f"{tile.afterwards} once it is released"
    return "waits for a machine" if tile.state == "free" else STATES[tile.state].meaning
