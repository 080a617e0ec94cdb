"""`paddock status`: one screen. Is it healthy, the numbers, the worst problems with what to type, what changed."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.output import as_json, as_yaml, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.kube.builtin import Event
    from paddock.views.health import FleetHealth, Numbers

__all__ = ["command", "killed", "what_changed"]

_WORST = 5
_LOOK_EVERY = 2.0
_HOUR = timedelta(hours=1)
_CHANGES = {
    "Adopted": "hosts adopted",
    "Released": "hosts back in the pool",
    "Reclaimed": "orphaned hosts reclaimed",
    "BootstrapFailed": "failed bootstraps",
    "RebootingForRecovery": "recovery reboots",
    "BootstrapExhausted": "hosts given up",
    "JobsKilled": "Macs taken with running jobs",
    "NodeMissing": "Nodes missing",
    "RunnerFailed": "runners failed",
    "RunnerDidNotStart": "runners did not start",
    "Reaped": "leaked Pods reaped",
}


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What the dispatch service says; None where it does not answer."""

    summary: Any = None
    heals: list[dict[str, Any]] | None = None
    killed: int | None = None
    forced: int = 0
    silence: str = ""


@dataclass(frozen=True, slots=True)
class _Look:
    health: "FleetHealth"
    changes: dict[str, int]
    moving: Counter[str]
    """Machines that are not ready, by phase."""
    silence: str


@click.command("status")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option(
    "--all", "everything", is_flag=True, help="Show every problem and everything that goes on, not only five of each."
)
@click.option("--watch", "-w", is_flag=True, help="Look again every two seconds, until Ctrl-C.")
@reach_flags
def command(output: str, everything: bool, watch: bool, reach: Reach) -> None:
    """Show on one screen whether everything is well, and if not, what first.

    Exits with 3 when something is wrong.
    """
    if watch and output != "text":
        raise click.UsageError("--watch is for people: leave -o out, or ask again and again")
    run(_status(output, reach, everything=everything, watch=watch))


async def _status(output: str, reach: Reach, *, everything: bool, watch: bool) -> int:
    from paddock.base.clock import SystemClock

    clock = SystemClock()
    async with connected(reach) as reached:
        async with showing("looking at hosts, Pods and jobs"):
            look = await _looked(reached, clock.now())
        if output != "text":
            plain = {**asdict(look.health), "changes": look.changes}
            say(as_json(plain) if output == "json" else as_yaml(plain))
            return judged(needs_a_person=not look.health.ok)
        most = None if everything else _WORST
        while True:
            if watch:
                click.clear()  # which does nothing in a pipe
            say(_screen(look, clock.now(), most=most))
            if not watch:
                return judged(needs_a_person=not look.health.ok)
            say(f"\n{clock.now():%H:%M:%S} UTC; Ctrl-C ends it")
            await clock.sleep(_LOOK_EVERY)
            look = await _looked(reached, clock.now())


async def _looked(reached: Reached, now: datetime) -> _Look:
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.kube.builtin import Event, Node, Pod
    from paddock.runners.api import RUNNER_LABEL, RunnerPool
    from paddock.views.health import survey

    client = reached.client
    # All in gathers: of a task of its own that fails beside another, nobody would fetch the error, and Python prints its traceback.
    (hosts, machines, fleets, pools, pods, events), (ledger, nodes) = await asyncio.gather(
        asyncio.gather(
            client.list(ScalewayAppleSiliconHost),
            client.list(ScalewayAppleSiliconMachine),
            client.list(MacFleet),
            client.list(RunnerPool),
            client.list(Pod, label_selector=f"{RUNNER_LABEL}=true"),
            client.list(Event),
        ),
        asyncio.gather(_ledger(reached), client.list(Node)),
    )
    done = [at for heal in ledger.heals or () if (at := _at(heal["done_at"])) is not None]
    health = survey(
        hosts=hosts.items,
        machines=machines.items,
        fleets=fleets.items,
        pools=pools.items,
        pods=pods.items,
        summary=ledger.summary,
        now=now,
        healed_last_day=None if ledger.heals is None else sum(now - at < timedelta(days=1) for at in done),
        live_jobs_killed=ledger.killed,
        live_jobs_forced=ledger.forced,
        runners=bool(pools.items) or ledger.summary is not None,
        nodes=nodes.items,
    )
    changes = what_changed(events.items, now)
    if healed := sum(now - at < _HOUR for at in done):
        changes["disagreements healed"] = healed
    if ledger.summary is not None and ledger.summary.completed_last_hour:
        changes["jobs ended"] = ledger.summary.completed_last_hour
    moving = Counter(one.status.phase or "new" for one in machines.items if not one.status.ready)
    return _Look(health, changes, moving, ledger.silence if pools.items else "")


async def _ledger(reached: Reached) -> _Ledger:
    """Silence is a finding here, not a reason to show nothing."""
    import msgspec

    from paddock.base.metrics import ALLOWED_KILLS
    from paddock.runners.ledger.views import QueueSummary

    try:
        summary, heals, metrics = await asyncio.gather(
            reached.ledger.get("strip"), reached.ledger.get("heals?limit=1000"), reached.ledger.text("/metrics")
        )
    except Problem as problem:
        return _Ledger(silence=str(problem))
    known = None if summary is None else msgspec.convert(summary, QueueSummary)
    return _Ledger(known, heals, killed(metrics), killed(metrics, rf'\{{path="(?:{"|".join(ALLOWED_KILLS)})"\}}') or 0)


def killed(metrics: str | None, labels: str = r"(?:\{[^}]*\})?") -> int | None:
    """How many jobs ended because of us, over all series or those with these labels; None where no process counts."""
    found = re.findall(rf"^paddock_live_kills_total{labels} (\S+)$", metrics or "", re.MULTILINE)
    return int(sum(map(float, found))) if found else None


def what_changed(events: "Sequence[Event]", now: datetime) -> dict[str, int]:
    """What happened in the last hour, counted by what it means. Pure."""
    counts: Counter[str] = Counter()
    for event in events:
        at = event.last_timestamp or event.metadata.creation_timestamp
        if event.reason in _CHANGES and at is not None and now - at < _HOUR:
            # A repeated event is one object with a count; which of the repeats are of this hour, it does not say.
            recent = event.first_timestamp is not None and now - event.first_timestamp < _HOUR
            counts[_CHANGES[event.reason]] += max(1, event.count) if recent else 1
    return {said: counts[said] for said in _CHANGES.values() if counts[said]}


def _screen(look: _Look, now: datetime, *, most: int | None) -> str:
    from paddock.base.explanation import ago

    health = look.health
    lines = [health.sentence, "", *_numbers(health.numbers)]
    if look.moving:
        moving = ", ".join(f"{count} {phase}" for phase, count in sorted(look.moving.items()))
        lines.append(f"  {'machines not ready':<24} {moving}")
    for problem in health.problems[:most]:
        since = f"  ({ago(problem.since, now)})" if problem.since is not None else ""
        lines += ["", f"▲ {problem.about}{since}", f"  {problem.sentence}"]
        lines += [f"  so:      {one.about}: {one.sentence.partition(';')[0]}" for one in problem.symptoms[:3]]
        if len(problem.symptoms) > 3:
            lines.append(f"           and {len(problem.symptoms) - 3} more")
        if problem.doing:
            lines.append(f"  already: {problem.doing}")
        lines += [f"  type:    {command}" for command in problem.commands[:2]]
    if most is not None and len(health.problems) > most:
        lines += ["", f"… and {len(health.problems) - most} more: paddock status --all"]
    if health.going_on:
        lines += ["", "going on:"]
        for one in health.going_on[:most]:
            since = f"  ({ago(one.since, now)})" if one.since is not None else ""
            lines.append(f"  {one.about}: {one.sentence}{since}")
        if most is not None and len(health.going_on) > most:
            lines.append(f"  … and {len(health.going_on) - most} more: paddock status --all")
    if look.silence:
        lines += ["", look.silence]
    said = ", ".join(f"{count} {_of(count, what)}" for what, count in look.changes.items())
    return "\n".join([*lines, "", f"in the last hour: {said or 'nothing changed'}"])


def _of(count: int, what: str) -> str:
    """The noun is the first word that ends in s; one of them has none."""
    return re.sub(r"s\b", "", what, count=1) if count == 1 else what


def _numbers(numbers: "Numbers") -> list[str]:
    from paddock.base.explanation import span

    oldest = numbers.oldest_dispatchable_seconds
    waited = "?" if oldest is None else span(timedelta(seconds=oldest)) if oldest else "none waits"
    shown = (
        ("oldest job that may run", waited),
        ("jobs waiting / withheld", f"{_known(numbers.waiting)} / {_known(numbers.withheld)}"),
        *((("jobs held for approval", str(numbers.held)),) if numbers.held else ()),
        *((("jobs that no pool serves", str(numbers.unserved)),) if numbers.unserved else ()),
        *((("jobs perhaps for others", f"{numbers.unsure} (`paddock get jobs`)"),) if numbers.unsure else ()),
        ("jobs running", _known(numbers.running)),
        ("Pods warm", str(numbers.warm)),
        ("hosts ready", f"{numbers.hosts_ready} of {numbers.hosts}"),
        ("hosts stranded", str(numbers.orphaned)),
        ("leaks healed in 24 h", _known(numbers.healed_last_day)),
        ("live jobs killed", _known(numbers.live_jobs_killed)),
    )
    return [f"  {label:<24} {value}" for label, value in shown]


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _at(text: str | None) -> datetime | None:
    from paddock.cli.ledger_kinds import moment

    return moment(text)
