"""The problems, worst first: each with its reason, what is already being done, what to type and where to read on; and what
goes on and is no problem, in a line each.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import htpy as h
from htpy import Node

from paddock.views.health import ASIDE
from paddock.views.problem import Problem
from paddock.web.links import about_href, command, linked, sentence_case
from paddock.web.parts.drawing import lasting

__all__ = ["problems"]

_SHOWN = 6
_CALM = h.p(".calm")[h.span(".lamp", aria_hidden="true")["✓"], " No problem is known."]


def problems(
    found: Sequence[Problem], going_on: Sequence[Problem], now: datetime, runbook: Callable[[str], str | None]
) -> Node:
    rest = len(found) - _SHOWN
    return h.fragment[
        h.ol(".problems")[[_problem(problem, now, runbook) for problem in found[:_SHOWN]]] if found else _CALM,
        h.p(".quiet")[f"and {rest} more: ", command("paddock status")] if rest > 0 else None,
        _going_on(going_on, now),
    ]


def _going_on(found: Sequence[Problem], now: datetime) -> Node:
    """What waits for something, and for what: whoever wonders finds it here from its first second on."""
    if not found:
        return None
    rest = len(found) - _SHOWN
    return h.ul(".going-on", aria_label="Going on")[
        [
            h.li[
                h.a(href=href)[one.about] if (href := about_href(one.about)) else h.b[one.about],
                h.small[" for ", lasted] if (lasted := lasting(one.since, now)) else None,
                ": ",
                linked(one.sentence),
            ]
            for one in found[:_SHOWN]
        ],
        h.li[f"and {rest} more: ", command("paddock status --all")] if rest > 0 else None,
    ]


def _problem(problem: Problem, now: datetime, runbook: Callable[[str], str | None]) -> Node:
    href, page = about_href(problem.about), runbook(problem.runbook) if problem.runbook else None
    lasted = lasting(problem.since, now)
    serious = problem.impact > ASIDE
    return h.li(".problem", data_kind="bad" if serious else "aside")[
        h.h3[
            h.span(".lamp", aria_hidden="true")["!" if serious else "i"],
            h.a(href=href)[problem.about] if href else problem.about,
            h.small[" for ", lasted] if lasted else None,
        ],
        h.p[linked(sentence_case(problem.sentence))],
        h.ul(".symptoms")[
            [h.li[h.b["so "], linked(f"{one.about}: {one.sentence.partition(';')[0]}")] for one in problem.symptoms[:3]]
        ]
        if problem.symptoms
        else None,
        h.p(".doing")[h.b["Already under way: "], linked(problem.doing)] if problem.doing else None,
        h.p(".typed")[
            [[command(text), " "] for text in problem.commands[:2]],
            h.a(".runbook", href=page)[f"Runbook: {problem.runbook}"] if page else None,
        ],
    ]
