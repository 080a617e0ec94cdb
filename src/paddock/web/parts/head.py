"""The top of the page: is all well, in words, and what the process itself is up to."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import htpy as h
from htpy import Node

from paddock.base.explanation import span
from paddock.clients.github import BudgetView
from paddock.views.health import ASIDE, FleetHealth
from paddock.web.links import sentence_case
from paddock.web.page_data import PageData
from paddock.web.parts.drawing import bar

__all__ = ["light", "vitals"]

_STALLED = 90.0
_WELL = ("good", "All is well", "✓")
_STARTING = ("aside", "Starting up", "…")
_WRONG = ("bad", "Needs attention", "!")


def light(health: FleetHealth) -> Node:
    """The traffic light. The word says it, the shape says it, and so does the colour."""
    kind, word, sign = _WELL if health.ok else _WRONG
    if health.starting:
        kind, word, sign = _STARTING
    sentence = health.sentence.partition(": ")[2] or health.sentence
    wrong = sum(problem.impact > ASIDE for problem in health.problems)
    return h.div(".light", data_kind=kind, data_problems=str(wrong))[
        h.span(".lamp", aria_hidden="true")[sign],
        # Only the word is announced when it changes; the sentence counts seconds.
        h.strong(role="status")[word],
        h.span(".light-why")[sentence_case(sentence)],
    ]


def vitals(seen: PageData) -> Node:
    """When anything was last heard, what GitHub still allows, and whether healing acts or only reports."""
    items: list[tuple[str, Node]] = []
    if seen.heard_ago is not None:
        stalled = seen.heard_ago > _STALLED
        items.append(
            (
                "last look at the cluster",
                f"silent for {span(timedelta(seconds=seen.heard_ago))}" if stalled else "just now",
            )
        )
    if seen.runners:
        items.append(("GitHub budget", _budget(seen.budgets, seen.now)))
        items.append(("healing", _healing(seen)))
    return h.dl(".vitals")[[h.div[h.dt[name], h.dd[value]] for name, value in items]]


def _budget(budgets: Sequence[BudgetView], now: datetime) -> Node:
    if not budgets:
        return "not asked yet"
    tightest = min(budgets, key=lambda budget: budget.remaining / max(1, budget.limit))
    share = tightest.remaining / max(1, tightest.limit)
    if tightest.held_until is not None and tightest.held_until > now:
        return h.fragment[bar(share, "held", "bad"), f" held by GitHub for {span(tightest.held_until - now)}"]
    resets = f", full again in {span(tightest.resets_at - now)}" if tightest.resets_at is not None else ""
    label = f"{share:.0%} of GitHub's hourly calls left{resets}"
    return h.fragment[bar(share, label, "good" if share > 0.2 else "bad"), f" {share:.0%} left"]


def _healing(seen: PageData) -> str:
    if "*" in seen.report_only:
        return "report only"
    if seen.report_only:
        return f"on; only reports {', '.join(sorted(seen.report_only))}"
    return "on"
