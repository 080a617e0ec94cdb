"""`paddock leaks`: what looks as if it leaked, since when, and how long until that is decided. None is the good news."""

import asyncio
from dataclasses import asdict, dataclass
from datetime import timedelta

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.output import Column, listed, output_flag, say
from paddock.cli.progress import showing

__all__ = ["Suspect", "command"]

_ORPHANED = "stranded_host"
_RECLAIM = "reclaimed by the sweep, if it may"


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that two ledgers disagree about. `proven` is healed at the next pass; the rest is watched until it is."""

    kind: str
    subject: str
    sentence: str
    proven: bool
    seconds: float
    """How long they have disagreed, as far as that is known; 0 where it is not."""
    verdict: str
    """What comes of it, and when."""


@click.command("leaks")
@output_flag
@reach_flags
def command(output: str, reach: Reach) -> None:
    """Show Pods, claims, jobs and Macs that look as if they leaked, how long, and what comes of it.

    Exits with 3 when there is one, with 0 when there is none.
    """
    run(_leaks(output, reach))


async def _leaks(output: str, reach: Reach) -> int:
    async with connected(reach) as reached, showing("comparing the ledgers"):
        of_the_ledger, orphaned = await asyncio.gather(_suspects(reached), _orphaned(reached))
    found = sorted([*of_the_ledger, *orphaned], key=lambda one: (not one.proven, -one.seconds, one.subject))
    say(
        listed(
            found,
            output,
            _COLUMNS,
            name=lambda one: f"{one.kind}/{one.subject}",
            plain=asdict,
            nothing="Nothing looks like a leak: all ledgers agree.",
            kind="Leak",
        )
    )
    return judged(needs_a_person=bool(found))


async def _suspects(reached: Reached) -> list[Suspect]:
    rows = await reached.ledger.get("leaks")
    if rows is None:
        raise Problem(f"the dispatch service at {reached.ledger.where} does not list leaks: update it")
    return [
        Suspect(
            row["kind"],
            row["subject"],
            row["sentence"],
            row["proven"],
            row["seconds"],
            "healed at the next pass" if row["proven"] else "watched",
        )
        for row in rows
    ]


async def _orphaned(reached: Reached) -> list[Suspect]:
    """Hosts that the inventory calls orphaned; whether they are reclaimed is the operator's setting."""
    from paddock.base.clock import SystemClock
    from paddock.hosts.api import ScalewayAppleSiliconHost
    from paddock.hosts.orphans import HostState
    from paddock.kube.conditions import get_condition

    found, now = [], SystemClock().now()
    for host in (await reached.client.list(ScalewayAppleSiliconHost)).items:
        if host.status.state == HostState.ORPHANED and host.spec.release is None:
            said = get_condition(host.status.conditions, "Ready")
            since = said.last_transition_time if said is not None else None
            sentence = said.message if said is not None and said.message else "no machine owns it"
            seconds = (now - since).total_seconds() if since is not None else 0.0
            found.append(Suspect(_ORPHANED, host.metadata.name, sentence, False, seconds, _RECLAIM))
    return found


def _lasted(one: Suspect) -> str:
    from paddock.base.explanation import span

    return span(timedelta(seconds=one.seconds)) if one.seconds else ""


def _ask(one: Suspect) -> str:
    """What to type; a subject is `job 1`, or a bare name, and then the kind of suspicion says what is meant."""
    word, _, name = one.subject.rpartition(" ")
    if word in ("", "job", "pod", "claim", "host"):
        word = word or ("host" if one.kind == _ORPHANED else "claim" if "claim" in one.kind else "pod")
        return f"paddock why {word} {name}" if name else ""
    return ""


_COLUMNS: tuple[Column[Suspect], ...] = (
    Column("KIND", lambda one: one.kind),
    Column("SUBJECT", lambda one: one.subject),
    Column("FOR", _lasted, ticking=True),
    Column("VERDICT", lambda one: one.verdict),
    Column("WHAT", lambda one: one.sentence),
    Column("TYPE", _ask, wide=True),
)
