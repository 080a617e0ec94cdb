"""How the pages of objects, plans and faults become HTML."""

from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import quote

import htpy as h
from htpy import Node

from paddock.base.explanation import span
from paddock.web.actions import VERBS, ActionPlan
from paddock.web.faults import FaultPanel
from paddock.web.links import command, foreign, href, linked, same_as, sentence_case
from paddock.web.objects import ObjectPage
from paddock.web.parts.drawing import clock_time, since
from paddock.web.parts.mac_past import mac_past
from paddock.web.phases import Phase
from paddock.web.session_authentication import Visitor
from paddock.web.shell import Site, document
from paddock.web.timeline import TimelineEntry

__all__ = ["confirm_page", "faults_page", "object_page", "told"]

Runbook = Callable[[str], str | None]


def object_page(site: Site, page: ObjectPage, runbook: Runbook) -> Node:
    why = page.why
    book = runbook(why.runbook) if why.runbook else None
    return document(
        site,
        f"{'' if why.healthy else '(!) '}{page.kind} {page.name} · Paddock",
        h.nav(".crumbs", aria_label="Where you are")[
            h.a(href="/")["Fleet"], " / ", page.kind, h.span(".as-of")["as of ", clock_time(page.at)]
        ],
        h.h1(".object")[h.small[page.kind], " ", page.name],
        h.section(".card.why", data_kind="good" if why.healthy else "bad", aria_labelledby="why-title")[
            h.h2("#why-title")["Why it is as it is"],
            h.p(".sentence")[
                h.span(".lamp", aria_hidden="true")["✓" if why.healthy else "!"], linked(sentence_case(why.sentence))
            ],
            h.ul(".evidence")[[h.li[h.span(".tag")[fact.ledger], h.span[linked(fact.fact)]] for fact in why.evidence]],
            h.p(".doing")[h.b["What happens next: "], linked(why.next)] if why.next else None,
            h.p(".typed")[
                [[command(text), " "] for text in why.commands],
                h.a(".runbook", href=book)[f"Runbook: {why.runbook}"] if book else None,
            ],
            same_as(page.kind, page.name),
            h.p(".quiet")[page.note] if page.note else None,
        ],
        _phases(page.phases),
        _actions(site, page),
        h.div(".board")[
            h.div(".column")[
                h.section(".card", aria_labelledby="timeline-title")[
                    h.h2("#timeline-title")["Timeline"], _timeline(page)
                ],
                _log(page),
                mac_past(page.past, page.currency, page.at) if page.past is not None and page.at is not None else None,
            ],
            h.div(".column.side")[
                _related(page),
                h.section(".card", aria_labelledby="facts-title")[
                    h.h2("#facts-title")["Facts"],
                    h.dl(".facts")[[h.div[h.dt[name], h.dd[_fact(value)]] for name, value in page.facts]],
                ]
                if page.facts
                else None,
                _conditions(page),
            ],
        ],
    )


def _fact(value: str | datetime) -> Node:
    return clock_time(value) if isinstance(value, datetime) else foreign(value)


def _log(page: ObjectPage) -> Node:
    if page.log is None:
        return None
    return h.section(".card", aria_labelledby="log-title")[
        h.h2("#log-title")["The runner's log"],
        h.pre(".log", tabindex="0", role="region", aria_label="Its last lines")[page.log or "(nothing yet)"],
        h.p(".typed")[command(f"paddock logs {page.kind}/{page.name} -f")],
        h.p(".quiet")["The end of it, kept for a week. What the job's own steps print is at GitHub."],
    ]


def _actions(site: Site, page: ObjectPage) -> Node:
    if not page.verbs:
        return None
    if not site.actions:
        return h.p(".quiet")["This page is for reading: no action token is set."]
    return h.nav(".actions", aria_label="Actions")[
        [
            h.a(
                ".button.danger" if verb == "release" else ".button",
                href=f"/actions/{verb}/{quote(page.name, safe='')}",
            )[f"{VERBS[verb]}…"]
            for verb in page.verbs
        ]
    ]


def _phases(phases: Sequence[Phase]) -> Node:
    if not phases:
        return None
    began, ended = phases[0].began, phases[-1].ended
    whole = max((ended - began).total_seconds(), 0.001)
    return h.section(".card", aria_labelledby="phases-title")[
        h.h2("#phases-title")["The whole wait"],
        h.svg(".phases", aria_hidden="true")[
            [
                h.rect(
                    data_lap=phase.name.replace(" ", "-"),
                    x=f"{(phase.began - began).total_seconds() / whole * 100:.2f}%",
                    width=f"{max(0.3, (phase.ended - phase.began).total_seconds() / whole * 100):.2f}%",
                    height="100%",
                )
                for phase in phases
            ]
        ],
        h.ul(".legend")[
            [
                h.li[
                    h.span(".key", data_lap=phase.name.replace(" ", "-"), aria_hidden="true"),
                    f"{phase.name} {span(phase.ended - phase.began)}",
                ]
                for phase in phases
            ]
        ],
    ]


def _timeline(page: ObjectPage) -> Node:
    if not page.timeline:
        return h.p(".quiet")[
            "Nothing was written down about it, or it was long ago: the cluster keeps events for an hour."
        ]
    return told(page.timeline)


def told(lines: Sequence[TimelineEntry]) -> Node:
    """A timeline, newest first."""
    return h.ol(".timeline")[
        [
            h.li(data_source=line.source, class_="warning" if line.warning else None)[
                h.div[
                    clock_time(line.at),
                    " ",
                    h.span(".tag")[line.source],
                    " ",
                    h.strong["▲ " if line.warning else None, line.what],
                ],
                h.p[linked(line.text)],
            ]
            for line in lines
        ]
    ]


def _related(page: ObjectPage) -> Node:
    if not page.related:
        return None
    return h.section(".card", aria_labelledby="related-title")[
        h.h2("#related-title")["Around it"],
        h.ul(".related")[
            [
                h.li[
                    h.span(".tag")[one.kind],
                    " ",
                    h.a(href=href(one.kind, one.name))[one.name],
                    h.small[" ", foreign(one.says)],
                ]
                for one in page.related
            ]
        ],
        h.p(".quiet")[f"and {page.more} more: ", command(f"paddock get {page.related[0].kind}s")]
        if page.more
        else None,
    ]


def _conditions(page: ObjectPage) -> Node:
    if not page.conditions:
        return None
    return h.section(".card", aria_labelledby="conditions-title")[
        h.h2("#conditions-title")["Conditions"],
        h.ul(".conditions")[
            [
                h.li[
                    h.strong[f"{one.type} is {one.status}"],
                    h.small[f" {one.reason} since ", clock_time(one.last_transition_time)],
                    h.p[linked(one.message)] if one.message else None,
                ]
                for one in page.conditions
            ]
        ],
    ]


def confirm_page(site: Site, plan: ActionPlan, visitor: Visitor, *, notice: str = "") -> Node:
    """The plan and everything that it ends, before anything is done."""
    back = href(*plan.back)
    if plan.refused:
        return document(
            site, f"{plan.title} · Paddock", h.h1(".object")[plan.title], h.p[plan.refused], h.p[h.a(href=back)["Back"]]
        )
    dangerous = bool(plan.ends) or plan.verb == "release"
    return document(
        site,
        f"{plan.title} · Paddock",
        h.nav(".crumbs", aria_label="Where you are")[
            h.a(href="/")["Fleet"], " / ", h.a(href=back)[plan.name], " / ", VERBS[plan.verb]
        ],
        h.h1(".object")[plan.title],
        h.p(".notice", role="alert")[notice] if notice else None,
        h.section(".card.plan", data_kind="bad" if plan.ends else "good", aria_labelledby="ends-title")[
            h.h2("#ends-title")["What this ends"],
            h.ul[[h.li[h.strong["This ends "], end] for end in plan.ends]]
            if plan.ends
            else h.p["Nothing: no job is ended by this."],
            h.p[h.a(".button", href=plan.gentler[1])[plan.gentler[0]]] if plan.gentler else None,
        ],
        h.section(".card.plan", aria_labelledby="plan-title")[
            h.h2("#plan-title")["What will be done"],
            h.ol[[h.li[linked(step)] for step in plan.steps]],
            h.p(".quiet")[plan.undo] if plan.undo else None,
            h.form(method="post", action=f"/actions/{plan.verb}/{quote(plan.name, safe='')}")[
                h.input(type="hidden", name="form_token", value=visitor.form_token),
                h.input(type="hidden", name="shown", value=",".join(plan.ended_pods)),
                h.p[
                    h.label(for_="why")["Why (it is written down beside your name)"],
                    h.input(
                        "#why",
                        name="why",
                        type="text",
                        maxlength="200",
                        required=plan.verb == "quarantine",
                        autocomplete="off",
                    ),
                ],
                h.p(".buttons")[
                    h.button(type="submit", class_="danger" if dangerous else None)[
                        f"{VERBS[plan.verb]}{', and end the job' if plan.ends else ''}"
                    ],
                    h.a(".button.plain", href=back)["Leave it as it is"],
                ],
            ],
            h.p(".same")["same as ", command(plan.command), f" · acting as {visitor.who}"],
        ],
    )


def faults_page(site: Site, panel: FaultPanel, visitor: Visitor, now: datetime, *, notice: str = "") -> Node:
    return document(
        site,
        "Break something · Paddock",
        h.h1(".object")["Break something"],
        h.p(".lead")[
            "Nothing here is real: the cloud, the Macs and GitHub are simulated. Break one, then go to the ",
            h.a(href="/")["fleet"],
            " and watch it heal.",
        ],
        h.p(".notice", role="status")[notice] if notice else None,
        h.ul(".faults")[
            [
                h.li(".card")[
                    h.h2[one.title],
                    h.p[one.breaks],
                    h.dl(".facts")[
                        h.div[h.dt["watch for"], h.dd[one.expect]], h.div[h.dt["heals in"], h.dd[one.heals]]
                    ],
                    h.form(method="post", action=f"/faults/{one.name}")[
                        h.input(type="hidden", name="form_token", value=visitor.form_token),
                        h.button(type="submit", aria_label=f"Break it: {one.title}")["Break it"],
                    ],
                ]
                for one in panel.breakages()
            ]
        ],
        h.section(".card", aria_labelledby="struck-title")[
            h.h2("#struck-title")["Broken so far"],
            h.ol(".timeline")[
                [
                    h.li[
                        h.div[clock_time(one.at), " ", h.strong[one.title], h.small[f" {since(one.at, now)} ago"]],
                        h.p[one.sentence, " ", h.a(href=one.href)["Look there"]],
                    ]
                    for one in panel.struck()
                ]
            ]
            if panel.struck()
            else h.p(".quiet")["Nothing yet."],
        ],
    )
