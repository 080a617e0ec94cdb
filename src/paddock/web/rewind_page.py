"""The page of a moment of the past: a slider over what is kept, the fleet as it was then, and what has changed since."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import htpy as h
from htpy import Node
from markupsafe import Markup

from paddock.base.clock import rfc3339
from paddock.base.explanation import span
from paddock.runners.http.rewind import sentence_of
from paddock.runners.ledger import Transition
from paddock.runners.ledger.rewind import JobThen
from paddock.web.assets import asset
from paddock.web.links import about_href, command, foreign, href, linked, sentence_case
from paddock.web.money import money_of
from paddock.web.parts.drawing import clock_time, many, seconds
from paddock.web.parts.fleet import fleet_parts, mark
from paddock.web.shell import Site, document
from paddock.web.then import FleetThen, MacChange, changed_macs, groups_then
from paddock.web.tiles import STATES, Group

__all__ = ["rewind_page"]

_JOBS = 40
_CHANGES = 40
_LINES = 40
_UP = ("busy", "ready", "draining")
_STEPS = (("-1 min", -60), ("-10 s", -10), ("+10 s", 10), ("+1 min", 60))
_SPANS = (("1 h", 3600), ("24 h", 86_400), ("7 d", 7 * 86_400), ("30 d", 30 * 86_400))
_THEN = {
    "queued": "waited",
    "waiting": "held back",
    "unserved": "unserved",
    "claimed": "was handed over",
    "running": "ran",
}
_NOW = {"queued": "waits still", "waiting": "held back still", "unserved": "unserved still", "running": "runs still"}


def rewind_page(site: Site, then: FleetThen, groups: Sequence[Group], *, retention: timedelta) -> Node:
    """`groups` are the Macs as they are now."""
    return document(
        site,
        f"{then.at:%H:%M:%S} UTC · Paddock",
        h.nav(".crumbs", aria_label="Where you are")[h.a(href="/")["Fleet"], " / rewind"],
        h.h1(".object")[h.small["the fleet at"], " ", clock_time(then.at)],
        _way(then, retention),
        h.div("#then")[_then(then, groups)],
        h.script(src=asset("rewind.js"), defer=True),
    )


def _way(then: FleetThen, retention: timedelta) -> Node:
    """A form that works without script, in UTC; with it, a slider in the reader's own time."""
    first = max(filter(None, (then.known_since, then.now - retention)), default=then.now - retention)
    return h.form(
        "#way.card.way",
        action="/rewind",
        method="get",
        data_at=rfc3339(then.at),
        data_first=rfc3339(first),
        data_last=rfc3339(then.now),
    )[
        h.p(".way-typed")[
            h.label(for_="at")["Moment (UTC)"],
            h.input("#at", name="at", type="datetime-local", step="1", value=rfc3339(then.at)[:19]),
            h.button(type="submit")["Show"],
            h.a(".button.plain", href="/")["Back to now"],
        ],
        h.div(".way-slider", hidden=True)[
            h.input("#slider", type="range", step="1", aria_label="Moment of the past"),
            h.p(".ends")[h.span(".first"), h.span(".last")],
            h.p(".buttons")[
                [h.button(".window", type="button", data_step=str(by))[word] for word, by in _STEPS],
                h.span(".windows", role="group", aria_label="How far the slider reaches")[
                    [h.button(".window", type="button", data_span=str(length))[word] for word, length in _SPANS]
                ],
            ],
        ],
        h.p(".same")["same as ", command(f"paddock rewind {rfc3339(then.at)}")],
    ]


def _then(then: FleetThen, groups: Sequence[Group]) -> Node:
    known = then.ledger.kept_since is not None and then.at >= then.ledger.kept_since
    past = groups_then(then.macs)
    return h.fragment[
        h.p(".lead")[sentence_case(sentence_of(then.ledger, then.now))]
        if known
        else h.p(".notice", role="alert")[_forgotten(then)],
        _numbers(then, past, known=known),
        _problems(then),
        h.div(".board")[
            h.div(".column")[_fleet(then, past), _jobs(then.ledger.jobs)],
            h.div(".column.side")[_changed(then, groups)],
        ],
        _lines(then),
    ]


def _forgotten(then: FleetThen) -> str:
    kept = then.ledger.kept_since
    since = "it is empty" if kept is None else f"it begins at {kept:%Y-%m-%d %H:%M:%S} UTC"
    return f"Which jobs were open then is not known: the log does not go back so far; {since}."


def _numbers(then: FleetThen, past: Sequence[Group], *, known: bool) -> Node:
    """A number that cannot be known is a dash, and never a zero."""
    pools = then.ledger.pools
    up = sum(count for group in past for state, count in group.counts.items() if state in _UP)
    oldest = max((pool.oldest_queued_seconds for pool in pools if pool.queued), default=0.0)
    money = money_of(past, (), then.at)
    jobs = {
        "oldest job": (seconds(oldest) if oldest else "none", "waited longest"),
        "waiting": (str(sum(pool.queued for pool in pools)), "jobs"),
        "running": (str(sum(pool.running for pool in pools)), "jobs"),
    }
    macs = {
        "Macs ready": (str(up), f"of {len(then.macs)}"),
        "problems": (str(len(then.problems)), "open then"),
        "an hour": (f"{money.per_hour:.2f}", f"{money.currency}, all Macs"),
    }
    cells = [(name, value if known else "\N{EN DASH}", under) for name, (value, under) in jobs.items()]
    cells += [(name, value if past else "\N{EN DASH}", under) for name, (value, under) in macs.items()]
    return h.dl(".summary")[
        [h.div[h.dt[name], h.dd(".value")[value], h.dd(".under")[under]] for name, value, under in cells]
    ]


def _problems(then: FleetThen) -> Node:
    if not then.problems:
        return None
    return h.section(".card", aria_labelledby="then-problems")[
        h.h2("#then-problems")["Problems then"],
        h.ol(".problems")[
            [
                h.li(".problem", data_kind="bad")[
                    h.h3[
                        h.span(".lamp", aria_hidden="true")["!"],
                        h.a(href=page)[one.about] if (page := about_href(one.about)) else one.about,
                        h.small[" since ", clock_time(one.at), _ended(one.until, then.now)],
                    ],
                    h.p[linked(sentence_case(one.sentence))],
                ]
                for one in then.problems
            ]
        ],
    ]


def _ended(until: datetime | None, now: datetime) -> Node:
    return h.fragment[", over at ", clock_time(until)] if until is not None and until <= now else ", open still"


def _fleet(then: FleetThen, past: Sequence[Group]) -> Node:
    if not past:
        since = then.known_since
        text = f"it begins at {since:%Y-%m-%d %H:%M:%S} UTC" if since is not None else "nothing was written down yet"
        inside: Node = h.p(".quiet")[f"What Macs were then is not known: {text}."]
    else:
        # Rendered by htpy, which escapes; marked so that it is not escaped twice.
        inside = Markup(fleet_parts(past, then.at)["fleet"].html())  # noqa: S704
    return h.section(".card", aria_labelledby="fleet-title")[h.h2("#fleet-title")["Fleet then"], inside]


def _jobs(jobs: Sequence[JobThen]) -> Node:
    return h.section(".card", aria_labelledby="queue-title")[
        h.h2("#queue-title", tabindex="-1")["Jobs then"],
        h.table(".events")[
            h.caption(".unseen")["Jobs that were open then"],
            h.thead[h.tr[[h.th(scope="col")[name] for name in ("Since", "Then", "Job", "What became of it")]]],
            h.tbody[
                [
                    h.tr[
                        h.td[clock_time(job.since)],
                        h.td[_THEN.get(job.state, job.state)],
                        h.td[
                            h.a(href=href("job", job.job_id))[
                                foreign(f"{job.repository} · {job.job_name or job.workflow_name}")
                            ]
                        ],
                        h.td[_became(job)],
                    ]
                    for job in jobs[:_JOBS]
                ]
            ],
        ]
        if jobs
        else h.p(".quiet")["No job was open."],
        h.p(".quiet")[f"and {len(jobs) - _JOBS} more"] if len(jobs) > _JOBS else None,
    ]


def _became(job: JobThen) -> Node:
    if job.conclusion is None:
        return _NOW.get(job.now, job.now)
    return h.fragment[f"{job.conclusion} at ", clock_time(job.completed_at)]


def _lines(then: FleetThen) -> Node:
    if not then.ledger.lines:
        return None
    return h.section(".card", aria_labelledby="lines-title")[
        h.h2("#lines-title")["The log around that moment"],
        h.div(".around", tabindex="0", role="region", aria_label="Its lines")[
            h.ol(".timeline")[[_line(line) for line in then.ledger.lines[:_LINES]]]
        ],
    ]


def _line(line: Transition) -> Node:
    return h.li[
        h.div[clock_time(line.at), " ", h.strong[f"{line.subject} {line.was or 'new'} → {line.became}"]],
        h.p[linked(f"{_about(line)}{line.by}: {line.why}")],
    ]


def _about(line: Transition) -> str:
    if line.job_id:
        return f"job {line.job_id}: "
    pod = line.pod_name or line.pod_uid
    return f"Pod {pod}: " if pod else ""


def _changed(then: FleetThen, groups: Sequence[Group]) -> Node:
    macs = changed_macs(then.macs, groups) if then.macs else []
    ends = Counter(job.conclusion or _NOW.get(job.now, job.now) for job in then.ledger.jobs)
    over = [one for one in then.problems if one.until is not None]
    said: list[str] = []
    if ends:
        said.append(
            "Of the jobs that were open: " + ", ".join(f"{count} {word}" for word, count in ends.most_common()) + "."
        )
    if over:
        said.append(f"{many(len(over), 'problem')} of then {'is' if len(over) == 1 else 'are'} over.")
    said += [f"New and still open: {one.about}: {one.sentence}" for one in then.new_problems[:5]]
    if then.heals:
        healed = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(then.heals.items()))
        said.append(f"Healed since: {healed}.")
    if then.killed:
        said.append(f"{many(then.killed, 'live job')} {'was' if then.killed == 1 else 'were'} killed since.")
    return h.section(".card", aria_labelledby="changed-title")[
        h.h2("#changed-title")[f"What changed since, in {span(then.now - then.at)}"],
        h.ul(".since-then")[[h.li[linked(text)] for text in said]] if said else None,
        h.p(".quiet")[_macs_said(then, macs)],
        h.ul(".since-then")[[_change(change) for change in macs[:_CHANGES]]] if macs else None,
        h.p(".quiet")[f"and {len(macs) - _CHANGES} more"] if len(macs) > _CHANGES else None,
    ]


def _macs_said(then: FleetThen, macs: Sequence[MacChange]) -> str:
    if not then.macs:
        return "Macs cannot be compared: what they were then is not known."
    return f"{many(len(macs), 'Mac')} of {len(then.macs)} {'is' if len(macs) == 1 else 'are'} in another state now."


def _change(change: MacChange) -> Node:
    return h.li[
        h.a(href=href("host", change.host))[change.title],
        ": ",
        _state(change.was, "not there"),
        " → ",
        _state(change.became, "gone"),
    ]


def _state(name: str, without: str) -> Node:
    return h.span(".state-word")[mark(name), f" {STATES[name].word}"] if name in STATES else without
