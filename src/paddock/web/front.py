"""The front page: one look says how everything is. Its parts live by themselves."""

from collections.abc import Callable, Mapping

import htpy as h
from htpy import Node
from markupsafe import Markup

from paddock.web.health import Health, survey
from paddock.web.live import Moment, Part
from paddock.web.money import money_of
from paddock.web.parts import head, ledgers
from paddock.web.parts.fleet import fleet_parts
from paddock.web.parts.latency import latency
from paddock.web.parts.problems import problems
from paddock.web.parts.queue import queue
from paddock.web.parts.strip import strip
from paddock.web.seen import Seen
from paddock.web.shell import Site, document
from paddock.web.tiles import groups_of

__all__ = ["front_page", "front_parts", "health_of"]


def health_of(seen: Seen) -> Health:
    """The same survey as `paddock status`."""
    ledger = seen.ledger
    return survey(
        hosts=seen.hosts,
        machines=seen.machines,
        fleets=seen.fleets,
        pools=seen.pools,
        pods=seen.pods,
        strip=ledger.strip if ledger is not None else None,
        now=seen.now,
        healed_last_day=sum(ledger.healed_last_day.values()) if ledger is not None else None,
        live_jobs_killed=seen.live_jobs_killed,
        told=seen.told,
        runners=seen.runners,
    )


def front_parts(seen: Seen, runbook: Callable[[str], str | None]) -> dict[str, Part]:
    """The living parts by the id of the element that holds them."""
    health, groups, ledger = health_of(seen), groups_of(seen), seen.ledger
    whole: dict[str, Node] = {
        "light": head.light(health),
        "vitals": head.vitals(seen),
        "strip": strip(health.numbers, runners=seen.runners),
        "problems": problems(health.problems, seen.now, runbook),
        "queue": queue(seen),
        "latency": latency(ledger.latency if ledger is not None else ()),
        "money": ledgers.money(money_of(groups, seen.hosts, seen.now), seen.now),
        "accounts": ledgers.accounts(ledger.accounts if ledger is not None else ()),
        "heals": ledgers.heals(
            ledger.heals if ledger is not None else (), ledger.healed_last_day if ledger is not None else {}, seen.now
        ),
        "events": ledgers.events(seen.events),
    }
    return {**{name: Part.of(str(node)) for name, node in whole.items()}, **fleet_parts(groups)}


def front_page(site: Site, moment: Moment) -> Node:
    parts = moment.parts

    def card(name: str, title: str) -> Node:
        return h.section(".card", aria_labelledby=f"{name}-title")[
            h.h2(id=f"{name}-title")[title], h.div(id=name)[_html(parts, name)]
        ]

    return document(
        site,
        "Paddock",
        h.section("#strip", aria_label="The answer in numbers")[_html(parts, "strip")],
        card("problems", "Problems"),
        h.div(".board")[
            h.div(".column")[card("fleet", "Fleet"), card("queue", "Queue"), card("events", "Events")],
            h.div(".column.side")[
                card("money", "Money"),
                card("latency", "Latency"),
                card("accounts", "Accounts"),
                card("heals", "Healed"),
            ],
        ],
        top=h.div(".state")[h.div("#light")[_html(parts, "light")], h.div("#vitals")[_html(parts, "vitals")]],
        version=moment.version,
        front=True,
    )


def _html(parts: Mapping[str, Part], name: str) -> Markup:
    # Rendered by htpy, which escapes; marked so that it is not escaped twice.
    return Markup(parts[name].html())  # noqa: S704
