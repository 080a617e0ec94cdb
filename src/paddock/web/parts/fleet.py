"""The fleet grid: a tile a Mac, by zone and fleet. Rendered tile by tile, so that a thousand stay quick."""

from collections.abc import Sequence
from functools import lru_cache

import htpy as h
from htpy import Node
from markupsafe import Markup

from paddock.web.links import href
from paddock.web.live import Part
from paddock.web.parts.drawing import bar, empty
from paddock.web.tiles import STATES, Group, Tile, tile_states

__all__ = ["fleet_parts", "mark"]

_COMPACT_FROM = 61
"""From so many Macs on, tiles are small: a sign and a letter each, with the words behind them and in the legend."""


def fleet_parts(groups: Sequence[Group]) -> dict[str, Part]:
    """The grid, its legend, the groups and the tiles, each within the one before: a Mac that changes sends its own tile,
    one that changes hands sends two groups, and only a new group sends the grid.
    """
    compact = sum(len(group.tiles) for group in groups) >= _COMPACT_FROM
    legend = str(_legend(groups))
    parts = {
        "fleet": Part(
            lambda: str(_fleet(groups, compact=compact)),
            (compact, tuple((group.zone, group.fleet) for group in groups)),
        ),
        "legend": Part(lambda: legend, legend, "fleet"),
    }
    for number, group in enumerate(groups):
        said = _said(group)
        parts[f"g-{number}-says"] = Part(lambda said=said: said, said, "fleet")
        parts[f"g-{number}"] = Part(
            lambda group=group: str(_tiles(group, compact=compact)), tuple(tile.name for tile in group.tiles), "fleet"
        )
        for tile in group.tiles:
            parts[f"t-{tile.name}"] = Part(lambda tile=tile: _tile(tile, compact), (tile, compact), f"g-{number}")
    return parts


def mark(state: str) -> Node:
    """The sign of a state: a shape, a letter and a colour, for the eye; the word stands beside it."""
    return h.span(".mark", data_state=state, aria_hidden="true")[h.b[STATES[state].letter]]


def _fleet(groups: Sequence[Group], *, compact: bool) -> Node:
    if not groups:
        return empty("No Mac is known yet: the first look at the cloud is under way.")
    return h.fragment[
        h.div("#legend")[_legend(groups)],
        [_group(number, group, compact=compact) for number, group in enumerate(groups)],
    ]


def _group(number: int, group: Group, *, compact: bool) -> Node:
    name = f"fleet {group.fleet}" if group.fleet else "no fleet"
    return h.section(".group", aria_label=f"{group.zone}, {name}")[
        h.h3[
            group.zone,
            " · ",
            h.a(href=href("fleet", group.fleet))[name] if group.fleet and group.fleet != "machines" else name,
            " ",
            h.small(id=f"g-{number}-says")[_said(group)],
        ],
        h.ul(".grid", id=f"g-{number}", data_size="compact" if compact else "full")[_tiles(group, compact=compact)],
    ]


def _tiles(group: Group, *, compact: bool) -> Node:
    # Each was rendered by htpy, which escapes; marked so that it is not escaped twice.
    return h.fragment[
        [h.li(id=f"t-{tile.name}")[Markup(_tile(tile, compact))] for tile in group.tiles]  # noqa: S704
    ]


def _said(group: Group) -> str:
    up = sum(count for state, count in group.counts.items() if state in ("busy", "ready", "draining"))
    macs = f"{len(group.tiles)} Mac{'' if len(group.tiles) == 1 else 's'}"
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


@lru_cache(maxsize=16_384)
def _tile(tile: Tile, compact: bool) -> str:
    state = STATES[tile.state]
    what = tile.job or tile.doing
    if compact:
        label = f"{tile.title}: {state.word}{f', {what}' if what else ''}"
        # The title is also what it is called: all that is inside is for the eye.
        return str(h.a(".tile.small", href=href("host", tile.name), title=label)[mark(tile.state)])
    return str(
        h.a(".tile", href=href("host", tile.name), data_state=tile.state)[
            h.span(".tile-state")[mark(tile.state), state.word],
            h.span(".tile-floor", title="Apple's billing floor: it cannot be given back before")[f"floor {tile.floor}"]
            if tile.floor
            else None,
            h.span(".tile-name")[tile.title],
            h.span(".tile-what")[what or _else(tile)],
            bar(tile.step / tile.steps, f"step {tile.step} of {tile.steps}", "busy") if tile.steps else None,
        ]
    )


def _else(tile: Tile) -> str:
    if tile.quarantine:
        return "quarantined once it is released"
    return {"ready": "waits for a job", "free": "waits for a machine"}.get(tile.state, STATES[tile.state].meaning)
