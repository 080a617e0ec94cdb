"""How long each stage of dispatch took: half of the jobs, nineteen of twenty, ninety-nine of a hundred."""

from collections.abc import Sequence

import htpy as h
from htpy import Node

from paddock.runners.ledger.views import Stage
from paddock.web.parts.drawing import empty, seconds

__all__ = ["latency"]

_WORDS = {
    "queued_to_claimed": ("queued → claimed", "waits for a free runner"),
    "claimed_to_running": ("claimed → handed over", "assign, mint, answer"),
    "running_to_started": ("handed over → started", "the runner registers"),
    "total": ("in all", "queued until GitHub says it runs"),
}


def latency(stages: Sequence[Stage]) -> Node:
    measured = [stage for stage in stages if stage.count and stage.p99 is not None]
    if not measured:
        return empty("Nothing was measured in the last hour.")
    widest = max(stage.p99 or 0.0 for stage in measured) or 1.0
    return h.table(".figures")[
        h.caption["Jobs of the last hour"],
        h.thead[h.tr[[h.th(scope="col")[name] for name in ("Stage", "p50", "p95", "p99")]]],
        h.tbody[[_row(stage, widest) for stage in measured]],
    ]


def _row(stage: Stage, widest: float) -> Node:
    name, meaning = _WORDS.get(stage.name, (stage.name, ""))
    shares = [(value or 0.0) / widest * 100 for value in (stage.p99, stage.p95, stage.p50)]
    drawn = h.svg(".waterfall", aria_hidden="true")[
        [
            h.rect(class_=name_, width=f"{max(0.6, share):.1f}%", height="100%", rx="2")
            for name_, share in zip(("p99", "p95", "p50"), shares, strict=True)
        ]
    ]
    return h.tr[
        h.th(scope="row")[name, h.small[f"{meaning}; {stage.count} jobs"], drawn],
        [h.td[seconds(value)] for value in (stage.p50, stage.p95, stage.p99)],
    ]
