"""The fleet at a moment of the past, and what has changed since. Pure, but for reading it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.runners.ledger import Ledger
from paddock.runners.ledger.incidents import Incident
from paddock.runners.ledger.mac_states import MacStretch
from paddock.runners.ledger.rewind import Then
from paddock.web.tiles import STATES, Group, Tile

__all__ = ["FleetThen", "MacChange", "changed_macs", "groups_then", "moment_of", "read_then"]


@dataclass(frozen=True, slots=True)
class FleetThen:
    """What the ledger knows of that moment. `known_since` is the first moment of which Macs are known; None: of none."""

    at: datetime
    now: datetime
    ledger: Then
    macs: Sequence[MacStretch]
    problems: Sequence[Incident]
    new_problems: Sequence[Incident]
    """What began since and is still open."""
    heals: Mapping[str, int]
    """What was healed since, by kind."""
    killed: int
    """How many jobs ended since because of something we did."""
    known_since: datetime | None


@dataclass(frozen=True, slots=True)
class MacChange:
    """A Mac that was `was` and is `became` now; an empty word is a Mac that was not there."""

    host: str
    title: str
    was: str
    became: str


async def read_then(ledger: Ledger, at: datetime, now: datetime) -> FleetThen:
    """LedgerUnavailableError also where too much has happened since to be read in a few seconds."""
    then = await ledger.rewind.to(at)
    incidents = await ledger.incidents.between(at, now)
    problems = [one for one in incidents if one.kind == "problem"]
    return FleetThen(
        at=at,
        now=now,
        ledger=then,
        macs=await ledger.mac_states.at(at),
        problems=[one for one in problems if one.at <= at],
        new_problems=[one for one in problems if one.at > at and one.until is None],
        heals=await ledger.heals.count_by_kind(at),
        killed=sum((await ledger.kills.count_by_path(at)).values()),
        known_since=await ledger.mac_states.kept_since(),
    )


def moment_of(text: str, now: datetime) -> datetime | str:
    """The moment, or a sentence that says what is wrong with it. UTC unless it says otherwise; without one, five minutes ago."""
    if not text.strip():
        return now - timedelta(minutes=5)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return f"{text[:40]!r} is no moment: write it as 2026-11-15T03:12:00Z"
    at = at.replace(tzinfo=now.tzinfo) if at.tzinfo is None else at.astimezone(now.tzinfo)
    return at if at <= now else "the moment lies ahead: the ledger knows only what was"


def groups_then(macs: Sequence[MacStretch]) -> tuple[Group, ...]:
    """The Macs by zone and fleet, as the fleet's card draws them."""
    by_group: dict[tuple[str, str], list[Tile]] = {}
    for mac in macs:
        state = mac.state if mac.state in STATES else "unknown"
        tile = Tile(
            name=mac.host,
            title=mac.title,
            state=state,
            zone=mac.zone,
            fleet=mac.fleet,
            doing=STATES[state].meaning,
            price=mac.price,
            since=mac.at,
        )
        by_group.setdefault((mac.zone, mac.fleet), []).append(tile)
    return tuple(
        Group(
            zone, fleet, tuple(sorted(tiles, key=lambda tile: (tile.title, tile.name))), Counter(t.state for t in tiles)
        )
        for (zone, fleet), tiles in sorted(by_group.items(), key=lambda item: (item[0][0], not item[0][1], item[0][1]))
    )


def changed_macs(macs: Sequence[MacStretch], groups: Sequence[Group]) -> list[MacChange]:
    """Macs whose state is another now, and those that came or went."""
    now = {tile.name: tile for group in groups for tile in group.tiles}
    changes = [
        MacChange(mac.host, mac.title, mac.state, now[mac.host].state if mac.host in now else "")
        for mac in macs
        if mac.host not in now or now[mac.host].state != mac.state
    ]
    known = {mac.host for mac in macs}
    changes += [MacChange(tile.name, tile.title, "", tile.state) for tile in now.values() if tile.name not in known]
    return sorted(changes, key=lambda change: (change.title, change.host))
