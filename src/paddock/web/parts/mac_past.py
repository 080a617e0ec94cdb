"""A Mac's past on its page: uptime and cost, its lives as machines, and the jobs that ran on it."""

from datetime import datetime

import htpy as h
from htpy import Node

from paddock.base.explanation import span
from paddock.runners.ledger.mac_states import RanOnMac
from paddock.web.links import foreign, href
from paddock.web.mac_past import Life, MacPast, cost_of
from paddock.web.parts.drawing import bar, clock_time, many

__all__ = ["mac_past"]

_LIVES = 20
_SIGNS = {"success": "✓", "failure": "✕", "cancelled": "\N{EN DASH}", "skipped": "\N{EN DASH}"}


def mac_past(past: MacPast, currency: str, now: datetime) -> Node:
    return h.fragment[_numbers(past, currency), _lives(past, now), _jobs(past, currency, now)]


def _numbers(past: MacPast, currency: str) -> Node:
    failed = sum(life.failed_jobs for life in past.lives)
    useful = past.cost_busy / past.cost if past.cost else 0.0
    return h.section(".card", aria_labelledby="past-title")[
        h.h2("#past-title")["Uptime and cost"],
        h.dl(".facts")[
            h.div[h.dt["known since"], h.dd[clock_time(past.since), f", {span(past.known)}"]],
            h.div[
                h.dt["uptime"],
                h.dd[bar(past.uptime, f"up for {past.uptime:.1%} of that time", "good"), f" {past.uptime:.1%}"],
            ],
            h.div[h.dt["a job ran"], h.dd[span(past.busy)]],
            h.div[
                h.dt["failures"],
                h.dd[f"brought back {many(past.recoveries, 'time')}, {many(failed, 'failed job')}"],
            ],
            h.div[
                h.dt["cost"],
                h.dd[f"{past.cost:.2f} {currency}, of which {past.cost_busy:.2f} ({useful:.0%}) while a job ran"],
            ]
            if past.price
            else None,
        ],
    ]


def _lives(past: MacPast, now: datetime) -> Node:
    if not past.lives:
        return None
    return h.section(".card", aria_labelledby="lives-title")[
        h.h2("#lives-title")["Its lives"],
        h.table(".events.lives")[
            h.caption(".unseen")["Machines that this Mac was"],
            h.thead[h.tr[[h.th(scope="col")[name] for name in ("From", "Until", "Machine", "What it did")]]],
            h.tbody[[_life(life, now) for life in past.lives[:_LIVES]]],
        ],
        h.p(".quiet")[f"and {len(past.lives) - _LIVES} before"] if len(past.lives) > _LIVES else None,
    ]


def _life(life: Life, now: datetime) -> Node:
    did = [
        f"up {span(life.up)} of {span((life.until or now) - life.began)}",
        f"{many(life.jobs, 'job')}{f', {life.failed_jobs} failed' if life.failed_jobs else ''}",
    ]
    did += [f"brought back {life.recoveries}×"] if life.recoveries else []
    return h.tr[
        h.td[clock_time(life.began)],
        h.td[clock_time(life.until) if life.until is not None else "lasts"],
        h.td[h.a(href=href("machine", life.machine))[life.machine]],
        h.td[" · ".join(did)],
    ]


def _jobs(past: MacPast, currency: str, now: datetime) -> Node:
    return h.section(".card", aria_labelledby="ran-title")[
        h.h2("#ran-title")["Jobs that ran on it"],
        h.table(".events.ran")[
            h.caption(".unseen")["The latest jobs on this Mac"],
            h.thead[h.tr[[h.th(scope="col")[name] for name in ("Began", "Result", "Job", "Held the Mac")]]],
            h.tbody[[_job(one, past.price, currency, now) for one in past.jobs]],
        ]
        if past.jobs
        else h.p(".quiet")["None is known: runners are written down while their Pod is there."],
    ]


def _job(one: RanOnMac, price: float, currency: str, now: datetime) -> Node:
    length = (one.ended_at or now) - one.started_at
    result = one.conclusion or ("runs" if one.ended_at is None else "not told")
    name = f"{one.repository} · {one.job_name}" if one.job_name else one.repository or one.pod_name
    cost = f" · {cost_of(length, price):.3f} {currency}" if price else ""
    return h.tr(class_="warning" if one.conclusion in ("failure", "timed_out") else None)[
        h.td[clock_time(one.started_at)],
        h.td[h.span(aria_hidden="true")[f"{_SIGNS.get(result, '·')} "], result],
        h.td[h.a(href=href("job", one.job_id) if one.job_id else href("pod", one.pod_uid))[foreign(name)]],
        h.td[f"{span(length)}{cost}"],
    ]
