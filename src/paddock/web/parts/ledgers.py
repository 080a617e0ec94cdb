"""Money, accounts, the heal ledger and events: who pays, who holds what, what was undone, what happened."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import groupby
from typing import Any

import htpy as h
from htpy import Node

from paddock.kube.builtin import Event
from paddock.runners.ledger import Heal
from paddock.runners.ledger.views import AccountView
from paddock.web.links import command, foreign, href, linked, of_object, sentence_case
from paddock.web.money import Money
from paddock.web.parts.drawing import bar, clock_time, empty, lasting, many, seconds, since, split_bar

__all__ = ["accounts", "event_moment", "events", "heals", "money"]

_HEALS = 6
_EACH = 2
_EVENTS = 12
_READ = 200
_FOLDED_FROM = 4
_ACCOUNTS = 8


def money(costs: Money, now: datetime) -> Node:
    shown = [share for share in costs.shares if share.macs or share.name in ("busy", "ready", "stranded")]
    if not any(share.macs for share in costs.shares):
        return empty("No Mac is rented.")
    floor = (
        f"{costs.in_floor} inside Apple's billing floor or a monthly commitment; the next may be given back in {since(now, costs.next_releasable)}."
        if costs.in_floor and costs.next_releasable is not None
        else "Every Mac is past its billing floor, and may be given back at any time."
    )
    return h.fragment[
        h.p(".headline")[
            f"{costs.per_hour:,.2f} {costs.currency}", h.small[f" an hour, {costs.useful:.0%} of it running jobs"]
        ],
        split_bar([(share.name, share.per_hour) for share in shown], "Hourly cost by state"),
        h.table(".figures")[
            h.caption(".unseen")["Hourly cost by state"],
            h.tbody[
                [
                    h.tr[
                        h.th(scope="row")[
                            h.span(".key", data_kind=share.name, aria_hidden="true"), share.word, h.small[share.meaning]
                        ],
                        h.td[many(share.macs, "Mac")],
                        h.td[f"{share.per_hour:,.2f}"],
                    ]
                    for share in shown
                ]
            ],
        ],
        h.p(".quiet")[floor],
        h.p(".quiet")[f"The cloud has not told the price of {costs.unpriced}; they are not counted."]
        if costs.unpriced
        else None,
    ]


def accounts(rows: Sequence[AccountView]) -> Node:
    """Those that hold or wait for something first; an account that does neither is not worth a line."""
    shown = [row for row in rows if row.claims or row.queued][:_ACCOUNTS]
    if not shown:
        return empty("No account holds or waits for anything now.")
    return h.table(".figures")[
        h.caption(".unseen")["What accounts hold of their limits"],
        h.thead[h.tr[[h.th(scope="col")[name] for name in ("Account", "Holds", "Waiting", "Share")]]],
        h.tbody[
            [
                h.tr[
                    h.th(scope="row")[foreign(row.login), h.small[row.platform]],
                    h.td[f"{row.used_vcpus} of {row.limit_vcpus} vCPU"],
                    h.td[str(row.queued)],
                    h.td(".drawn")[_share(row)],
                ]
                for row in shown
            ]
        ],
    ]


def _share(row: AccountView) -> Node:
    share = row.used_vcpus / max(1, row.limit_vcpus)
    full = share >= 1 or (row.queued and row.used_vcpus + 1 > row.limit_vcpus)
    return bar(share, f"{row.login} holds {share:.0%} of its limit", "busy" if full else "good")


def heals(lines: Sequence[Heal], last_day: Mapping[str, int], now: datetime) -> Node:
    """The newest first; of one kind only a few are lines of their own, and the last of them tells how many more there are."""
    if not lines:
        return empty("Nothing had to be healed. Break something in the simulation to see a line here.")
    kinds = ", ".join(f"{count} {_kind(kind)}" for kind, count in sorted(last_day.items(), key=lambda one: -one[1]))
    alike: dict[tuple[str, bool], list[Heal]] = {}
    for line in lines:
        alike.setdefault((line.kind, line.done_at is None), []).append(line)
    last = {id(run[_EACH - 1]): len(run) - _EACH for run in alike.values() if len(run) > _EACH}
    chosen = {id(line) for run in alike.values() for line in run[:_EACH]}
    shown = [line for line in lines if id(line) in chosen][:_HEALS]
    return h.fragment[
        h.p(".quiet")[f"In the last 24 h: {kinds or 'nothing'}."],
        h.ul(".heals")[[_heal(line, now, last.get(id(line), 0)) for line in shown]],
        h.p(".quiet")["Every one: ", command("paddock get heals -o wide")] if len(lines) > len(shown) else None,
    ]


def _heal(line: Heal, now: datetime, more: int = 0) -> Node:
    state = "healed" if line.done_at is not None else "under way"
    after = f" ago, after {seconds(line.seconds)}{f'; so were {more} more before it' if more else ''}"
    return h.li[
        h.details(id=f"heal-{line.id}")[
            h.summary[
                h.span(".tag")[_kind(line.kind)],
                h.span(".heal-what")[sentence_case(line.sentence)],
                h.small[f"{state} ", lasting(line.done_at or line.at, now), after],
            ],
            h.p[linked(f"About {line.subject}.")],
            h.p[h.a(href=href("job", line.job_id))[f"job {line.job_id}"]] if line.job_id else None,
            h.dl(".facts")[[h.div[h.dt[name], h.dd[text]] for name, text in _flat(line.evidence)]]
            if line.evidence
            else h.p(".quiet")["No evidence was written down."],
        ]
    ]


def _kind(name: str) -> str:
    return name.replace("_", " ")


def _flat(evidence: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Evidence by ledger, however deep it is nested."""
    for name, value in evidence.items():
        path = f"{before}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path} · ")
        elif isinstance(value, list | tuple):
            yield path, ", ".join(str(one) for one in value) or "none"
        else:
            yield path, "unknown" if value is None else str(value)


def events(found: Sequence[Event]) -> Node:
    """The newest first. The same thing happening to many at once is one line, told by the newest of them."""
    if not found:
        return empty("Nothing has happened yet.")
    rows: list[Node] = []
    newest = nlargest(_READ, found, key=_when)
    for _, run in groupby(newest, key=lambda event: (event.reason, event.involved_object.kind)):
        alike = list(run)
        rows += [_event(alike[0], len(alike) - 1)] if len(alike) >= _FOLDED_FROM else map(_event, alike)
        if len(rows) >= _EVENTS:
            break
    return h.table(".events")[
        h.caption(".unseen")["What happened last"],
        h.thead[h.tr[[h.th(scope="col")[name] for name in ("Time", "What", "About", "Message")]]],
        h.tbody[rows[:_EVENTS]],
    ]


def _event(event: Event, more: int = 0) -> Node:
    name, page = of_object(event.involved_object.kind, event.involved_object.name)
    warning = event.type == "Warning"
    return h.tr(class_="warning" if warning else None)[
        h.td[clock_time(event_moment(event))],
        h.td[h.span(aria_hidden="true")["▲ "] if warning else None, event.reason],
        h.td[h.a(href=page)[name] if page else name, h.small[f" and {more} more"] if more else None],
        h.td[event.message],
    ]


def event_moment(event: Event) -> datetime | None:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp


def _when(event: Event) -> float:
    moment = event_moment(event)
    return moment.timestamp() if moment is not None else 0.0
