"""The front page: one look says how everything is. Its parts live by themselves."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

import htpy as h
from htpy import Node
from markupsafe import Markup

from paddock.base.clock import rfc3339_micro
from paddock.views.health import FleetHealth, survey
from paddock.web.live import Frame, Part
from paddock.web.money import money_of
from paddock.web.page_data import PageData
from paddock.web.parts import head, ledgers
from paddock.web.parts.capacity import capacity
from paddock.web.parts.fleet import fleet_parts
from paddock.web.parts.history import history_card
from paddock.web.parts.latency import latency
from paddock.web.parts.problems import problems
from paddock.web.parts.queue import queue_parts
from paddock.web.parts.summary_bar import summary_bar
from paddock.web.shell import Site, document
from paddock.web.tiles import groups_of

__all__ = ["front_frame", "front_inside", "front_parts", "health_of"]

_HERE = "\N{OBJECT REPLACEMENT CHARACTER}"


def health_of(seen: PageData) -> FleetHealth:
    """The same survey as `paddock status`."""
    ledger = seen.ledger
    return survey(
        hosts=seen.hosts,
        machines=seen.machines,
        fleets=seen.fleets,
        pools=seen.pools,
        pods=seen.pods,
        summary=ledger.summary if ledger is not None else None,
        now=seen.now,
        healed_last_day=sum(ledger.healed_last_day.values()) if ledger is not None else None,
        told=seen.told,
        runners=seen.runners,
        nodes=seen.nodes,
        concerns=seen.concerns,
        unread=seen.unread,
        leaderless=seen.leaderless,
        leases=seen.leases,
    )


def front_parts(seen: PageData, runbook: Callable[[str], str | None]) -> dict[str, Part]:
    """The living parts by the id of the element that holds them."""
    health, groups, ledger = health_of(seen), groups_of(seen), seen.ledger
    whole: dict[str, Node] = {
        "light": head.light(health),
        "vitals": head.vitals(seen),
        "summary": summary_bar(health.numbers, runners=seen.runners),
        "problems": problems(health.problems, health.going_on, seen.now, runbook),
        "capacity": capacity(seen.pools),
        "latency": latency(ledger.latency if ledger is not None else ()),
        "money": ledgers.money(money_of(groups, seen.hosts, seen.now), seen.now),
        "accounts": ledgers.accounts(ledger.accounts if ledger is not None else ()),
        "heals": ledgers.heals(
            ledger.heals if ledger is not None else (), ledger.healed_last_day if ledger is not None else {}, seen.now
        ),
        "events": ledgers.events(seen.events),
    }
    return {
        **{name: Part.of(str(node)) for name, node in whole.items()},
        **queue_parts(seen),
        **fleet_parts(groups, seen.now),
    }


@lru_cache(maxsize=4)
def front_frame(site: Site) -> tuple[str, str]:
    """What stands before and after the inside of the page. It is known before anything is looked at, so that a browser
    can be sent the first and load the style sheet meanwhile.
    """
    before, _, after = str(document(site, "Paddock", _HERE, front=True)).partition(_HERE)
    return before, after


def front_inside(moment: Frame, now: datetime, took: str = "", *, past: bool = False) -> Node:
    """Everything between. `took` is what the server says of its own time; `past`: whether there is a history to draw."""
    parts = moment.parts

    def card(name: str, title: str) -> Node:
        return h.section(".card", aria_labelledby=f"{name}-title")[
            h.h2(id=f"{name}-title", tabindex="-1")[title], h.div(id=name)[_html(parts, name)]
        ]

    return h.fragment[
        h.div(".state", role="region", aria_label="State")[
            h.div("#light")[_html(parts, "light")], h.div("#vitals")[_html(parts, "vitals")]
        ],
        h.main(
            "#main", tabindex="-1", data_version=moment.version, data_now=rfc3339_micro(now), data_took=took or None
        )[
            h.section("#summary", aria_label="The answer in numbers")[_html(parts, "summary")],
            card("problems", "Problems"),
            h.div(".board")[
                h.div(".column")[
                    card("fleet", "Fleet"),
                    card("queue", "Queue"),
                    history_card(now) if past else None,
                    card("events", "Events"),
                ],
                h.div(".column.side")[
                    h.div(".column")[
                        card("capacity", "Capacity"), card("money", "Money"), card("accounts", "Accounts")
                    ],
                    h.div(".column")[card("latency", "Latency"), card("heals", "Healed")],
                ],
            ],
        ],
    ]


def _html(parts: Mapping[str, Part], name: str) -> Markup:
    # Rendered by htpy, which escapes; marked so that it is not escaped twice.
    return Markup(parts[name].html())  # noqa: S704
