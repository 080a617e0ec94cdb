"""`paddock status`: one screen. Is it healthy, the numbers, the worst problems with what to type, what changed."""

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from paddock.cli.connections import Reach, Reached, connected, left_by_up, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.output import as_json, as_yaml, say
from paddock.cli.progress import showing
from paddock.cli.service_state import operator_leases, service_state

if TYPE_CHECKING:
    from paddock.kube.builtin import Event, Lease
    from paddock.views.health import FleetHealth, Numbers

__all__ = ["command", "what_changed"]

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
class _Look:
    health: "FleetHealth"
    changes: dict[str, int]
    moving: Counter[str]
    """Machines that are not ready, by phase."""


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
    from paddock.views.leadership import nobody_leads, observed

    client = reached.client
    # All in gathers: of a task of its own that fails beside another, nobody would fetch the error, and Python prints its traceback.
    (hosts, machines, fleets, pools, pods, events), (state, nodes, leases) = await asyncio.gather(
        asyncio.gather(
            client.list(ScalewayAppleSiliconHost),
            client.list(ScalewayAppleSiliconMachine),
            client.list(MacFleet),
            client.list(RunnerPool),
            client.list(Pod, label_selector=f"{RUNNER_LABEL}=true"),
            client.list(Event),
        ),
        asyncio.gather(service_state(reached), client.list(Node), _leases(reached)),
    )
    done = [at for heal in state.heals or () if (at := _at(heal["done_at"])) is not None]
    health = survey(
        hosts=hosts.items,
        machines=machines.items,
        fleets=fleets.items,
        pools=pools.items,
        pods=pods.items,
        summary=state.summary,
        now=now,
        healed_last_day=None if state.heals is None else sum(now - at < timedelta(days=1) for at in done),
        runners=bool(pools.items) or state.summary is not None,
        nodes=nodes.items,
        concerns=state.concerns,
        unread=state.unread if pools.items else (),
        leases=leases or (),
        leaderless=""
        if leases is None or left_by_up(reached.client)
        else nobody_leads(leases, now, observed=observed([*machines.items, *fleets.items, *pools.items])),
    )
    changes = what_changed(events.items, now)
    if healed := sum(now - at < _HOUR for at in done):
        changes["disagreements healed"] = healed
    if state.summary is not None and state.summary.completed_last_hour:
        changes["jobs ended"] = state.summary.completed_last_hour
    moving = Counter(one.status.phase or "new" for one in machines.items if not one.status.ready)
    return _Look(health, changes, moving)


async def _leases(reached: Reached) -> "list[Lease] | None":
    """None where nobody may read them."""
    from paddock.kube.errors import KubeError

    try:
        return await operator_leases(reached)
    except KubeError:
        return None


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
    from paddock.views.health import ASIDE

    health = look.health
    lines = [health.sentence, "", *_numbers(health.numbers)]
    if look.moving:
        moving = ", ".join(f"{count} {phase}" for phase, count in sorted(look.moving.items()))
        lines.append(f"  {'machines not ready':<24} {moving}")
    for problem in health.problems[:most]:
        since = f"  ({ago(problem.since, now)})" if problem.since is not None else ""
        mark = "▲" if problem.impact > ASIDE else "·"  # what a person set aside on purpose is no alarm
        lines += ["", f"{mark} {problem.about}{since}", f"  {problem.sentence}"]
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
    said = ", ".join(f"{count} {_of(count, what)}" for what, count in look.changes.items())
    return "\n".join([*lines, "", f"in the last hour: {said or 'nothing changed'}"])


def _of(count: int, what: str) -> str:
    """The noun is the first word that ends in s; one of them has none."""
    return re.sub(r"s\b", "", what, count=1) if count == 1 else what


def _numbers(numbers: "Numbers") -> list[str]:
    from paddock.base.explanation import span

    oldest = numbers.oldest_dispatchable_seconds
    waited = "?" if oldest is None else span(timedelta(seconds=oldest)) if numbers.dispatchable else "none waits"
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
        ("jobs killed in 24 h", _known(numbers.live_jobs_killed)),
    )
    return [f"  {label:<24} {value}" for label, value in shown]


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _at(text: str | None) -> datetime | None:
    from paddock.cli.ledger_kinds import moment

    return moment(text)
