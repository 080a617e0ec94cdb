"""The summary bar: eight numbers that say whether a person has to look further."""

import htpy as h
from htpy import Node

from paddock.views.health import Numbers
from paddock.web.parts.drawing import seconds

__all__ = ["summary_bar"]

_LONG = 60.0


def summary_bar(numbers: Numbers, *, runners: bool) -> Node:
    """A number that cannot be known is a dash, and never a zero."""
    oldest = numbers.oldest_dispatchable_seconds
    cells: list[Node] = []
    if runners:
        none = numbers.dispatchable == 0
        waits = "no job waits" if none else "longest wait of a job that may run now"
        cells += [
            _cell("oldest job", "none" if none else seconds(oldest), waits, bad=bool(oldest and oldest > _LONG)),
            _cell("waiting", _number(numbers.waiting), f"and {_number(numbers.withheld)} held back by limits"),
            _cell("running", _number(numbers.running), "jobs"),
            _cell("warm", str(numbers.warm), "runners ready for a job"),
        ]
    cells += [
        _cell("Macs ready", str(numbers.hosts_ready), f"of {numbers.hosts}"),
        _cell("stranded", str(numbers.orphaned), "orphaned Macs that no machine owns", bad=numbers.orphaned > 0),
    ]
    if runners:
        killed = numbers.live_jobs_killed
        cells += [
            _cell("healed", _number(numbers.healed_last_day), "leaks in the last 24 h"),
            _cell("live jobs killed", _number(killed), "in the last 24 h; must stay 0", bad=bool(killed)),
        ]
    return h.dl(".summary")[cells]


def _cell(label: str, value: str, under: str, *, bad: bool = False) -> Node:
    return h.div(class_="alarm" if bad else None)[
        h.dt[label], h.dd(".value")["▲ " if bad else None, value], h.dd(".under")[under]
    ]


def _number(value: int | None) -> str:
    return "\u2013" if value is None else f"{value:,}".replace(",", "\u202f")
