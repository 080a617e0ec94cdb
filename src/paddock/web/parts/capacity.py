"""Capacity: what each pool wants, has warm, has at work and is starting, and what still waits for it."""

from collections.abc import Sequence

import htpy as h
from htpy import Node

from paddock.kube.conditions import get_condition
from paddock.runners.api import RunnerPool
from paddock.web.links import command, href
from paddock.web.parts.drawing import empty, split_bar

__all__ = ["capacity"]

_SHOWN = 8
_ALSO = (("Warm windows", "WarmWindows"), ("Profiles", "Profiles"))
"""What else a pool was told to do, by the condition that says what came of it: none where nothing was."""


def capacity(pools: Sequence[RunnerPool]) -> Node:
    """Pools for which a job waits first."""
    if not pools:
        return empty("No pool of runners is known: ", command("kubectl get runnerpools"))
    first = sorted(pools, key=lambda pool: (-pool.status.queued, pool.metadata.name))
    return h.fragment[
        h.table(".figures")[
            h.caption(".unseen")["Runners of each pool"],
            h.thead[h.tr[[h.th(scope="col")[name] for name in ("Pool", "Busy", "Warm", "Starting", "Wanted")]]],
            h.tbody[[_rows(pool) for pool in first[:_SHOWN]]],
        ],
        h.p(".quiet")[f"and {len(pools) - _SHOWN} more: ", command("paddock get pools")]
        if len(pools) > _SHOWN
        else None,
    ]


def _rows(pool: RunnerPool) -> Node:
    name, spec, status = pool.metadata.name, pool.spec, pool.status
    ready = get_condition(status.conditions, "Ready")
    shares = [("busy", float(status.busy)), ("ready", float(status.idle)), ("setup", float(status.starting))]
    figures = (status.busy, status.idle, status.starting, spec.replicas)
    return h.fragment[
        h.tr[h.th(scope="row")[h.a(href=href("pool", name))[name]], [h.td[str(count)] for count in figures]],
        h.tr(".under-row")[
            h.td(colspan=str(len(figures) + 1))[
                split_bar(shares, f"{status.busy} busy, {status.idle} warm, {status.starting} starting"),
                h.small[ready.message if ready is not None and ready.message else spec.dispatch_label],
                [
                    h.small(".also")[f" {what}: {said.message}"]
                    for what, kind in _ALSO
                    if (said := get_condition(status.conditions, kind)) is not None and said.message
                ],
            ]
        ],
    ]
