"""`paddock sweep`: whose every host is, on what evidence, and what the sweep would do about it. It changes nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from paddock.cli.connections import Reach, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.operators_flags import sweeping
from paddock.cli.output import Column, listed, output_flag, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.hosts.api import ScalewayAppleSiliconHost as Host
    from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
    from paddock.hosts.orphans import Owners

__all__ = ["SweepRow", "command", "survey"]

_USUAL_POOL = "tuist-pool-"
_STATES = ("pooled", "claiming", "releasing", "owned", "foreign", "stranded", "gone", "unseen")


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One host: the verdict, what would be done about it and why (or why not), and everything that speaks for it."""

    host: str
    zone: str
    cloud_name: str
    state: str
    reason: str
    message: str
    machine: str
    action: str
    why: str
    evidence: tuple[str, ...]


@click.command("sweep")
@click.option("--explain", is_flag=True, help="Show the evidence for each verdict, and what would be done and why.")
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES),
    multiple=True,
    help="Only hosts of this state; may be given more than once.",
)
@output_flag
@click.option("--default-adopt-pool-prefix", default=None, help="Unless given, what the operator that runs was told.")
@click.option(
    "--orphan-reclaim-claim-name-prefix",
    default=None,
    help="The same; or as you think of setting it: shows what would then be reclaimed.",
)
@reach_flags
def command(
    explain: bool,
    states: tuple[str, ...],
    output: str,
    default_adopt_pool_prefix: str | None,
    orphan_reclaim_claim_name_prefix: str | None,
    reach: Reach,
) -> None:
    """Show whose every host is, and what the sweep would do about it.

    Nothing is changed, and no cloud account is needed: the hosts are judged as the inventory last saw them, against the
    machines that exist now. The operator's own sweep acts only with --orphan-reclaim-claim-name-prefix. Exits with 3 where
    a host that it shows is stranded.
    """
    run(
        _sweep(
            states,
            output,
            reach,
            explain=explain,
            pool_prefix=default_adopt_pool_prefix,
            claim_name_prefix=orphan_reclaim_claim_name_prefix,
        )
    )


async def _sweep(
    states: tuple[str, ...],
    output: str,
    reach: Reach,
    *,
    explain: bool,
    pool_prefix: str | None,
    claim_name_prefix: str | None,
) -> int:
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

    async with connected(reach) as reached, showing("judging the hosts"):
        # Hosts first: a machine that claims a host between the two reads is then seen as its owner, never missed.
        hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
        machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
        told = await sweeping(reached)
    if pool_prefix is None:
        pool_prefix = told.pool_prefix if told is not None else _USUAL_POOL
    if claim_name_prefix is None:
        claim_name_prefix = told.claim_name_prefix if told is not None else ""
    found = survey(hosts, machines, pool_prefix=pool_prefix, claim_name_prefix=claim_name_prefix)
    shown = [one for one in found if not states or one.state in states]
    say(_shown(shown, output, explain=explain))
    return judged(needs_a_person=any(one.state == "stranded" for one in shown))


def survey(
    hosts: "Sequence[Host]", machines: "Sequence[Machine]", *, pool_prefix: str, claim_name_prefix: str
) -> list[SweepRow]:
    """The verdict on every Host, by the same functions that the operator's sweep uses. Pure."""
    from paddock.hosts.orphans import Owners

    owners = Owners.of(list(machines))
    found = [_judged(host, owners, pool_prefix, claim_name_prefix) for host in hosts]
    return sorted(found, key=lambda finding: (_STATES.index(finding.state), finding.zone, finding.host), reverse=False)


def _judged(host: "Host", owners: "Owners", pool_prefix: str, claim_name_prefix: str) -> SweepRow:
    from paddock.clients.scaleway import Server
    from paddock.hosts.orphans import verdict
    from paddock.hosts.sweep import OBSERVATIONS_NEEDED, HealLedger, Leave, Reclaim, judge, ours
    from paddock.kube.conditions import get_condition

    status, meta = host.status, host.metadata
    if status.state in ("", "gone"):
        return _not_there(host)
    server = Server(
        id=host.spec.server_id,
        name=status.cloud_name,
        type=status.type,
        zone=host.spec.zone,
        status=status.cloud_status,
        ip=status.ip,
        delivered=status.delivered,
        deletion_scheduled=status.deletion_scheduled,
        deletable_at=status.deletable_at,
    )
    judged = verdict(server, host, owners, pool_prefix=pool_prefix, claim_name_prefix=claim_name_prefix)
    told = get_condition(status.conditions, "Ready")
    # What the operator wrote down is the first sighting, this look is the second.
    seen = OBSERVATIONS_NEEDED if (told is not None and told.reason == judged.reason) else 1
    action = judge(
        status.cloud_name,
        judged,
        seen,
        claim_name_prefix,
        given=ours(host, status.cloud_name),
        unwipeable=status.unwipeable,
    )
    match action:
        case Reclaim(why):
            done = "reclaim"
        case HealLedger(why):
            done = "take back the claim"
        case Leave(why):
            done = "nothing"
    return SweepRow(
        host=meta.name,
        zone=host.spec.zone,
        cloud_name=status.cloud_name,
        state=judged.state.value,
        reason=judged.reason,
        message=judged.message,
        machine=judged.machine,
        action=done,
        why=why,
        evidence=_evidence(host, owners, pool_prefix),
    )


def _not_there(host: "Host") -> SweepRow:
    gone = host.status.state == "gone"
    message = (
        "complete lists of the cloud no longer show this server"
        if gone
        else "the inventory has not looked at this host yet"
    )
    return SweepRow(
        host=host.metadata.name,
        zone=host.spec.zone,
        cloud_name=host.status.cloud_name,
        state="gone" if gone else "unseen",
        reason="Gone" if gone else "NotSeenYet",
        message=message,
        machine=host.spec.claim.machine_name if host.spec.claim is not None else "",
        action="nothing",
        why="there is nothing to reclaim" if gone else "the next look at the cloud judges it",
        evidence=(),
    )


def _evidence(host: "Host", owners: "Owners", pool_prefix: str) -> tuple[str, ...]:
    """Every fact that the verdict rests on, in the order in which they count."""
    from paddock.base.explanation import utc
    from paddock.kube.conditions import get_condition

    spec, status = host.spec, host.status
    facts = []
    if spec.release is None:
        facts.append("release: none is recorded")
    else:
        facts.append(
            f"release: {spec.release.policy}, because {spec.release.reason or 'unknown'}; wipe: {spec.release.wipe or 'not asked for yet'}"
        )
    if spec.claim is None:
        facts.append("claim: none")
    else:
        alive = "which exists" if spec.claim.machine_uid in owners.by_uid else "which does not exist any more"
        facts.append(
            f"claim: by machine {spec.claim.machine_namespace}/{spec.claim.machine_name} ({spec.claim.machine_uid}), {alive}"
        )
    by_server = owners.by_server.get(spec.server_id)
    facts.append(
        f"server id: named by machine {by_server.metadata.namespace}/{by_server.metadata.name}"
        if by_server is not None
        else f"server id: no machine names {spec.server_id}"
    )
    by_name = owners.by_name.get(status.cloud_name)
    facts.append(
        f"name: machine {by_name.metadata.namespace}/{by_name.metadata.name} is called {status.cloud_name}"
        if by_name is not None
        else f"name: {status.cloud_name}, {_sort(owners.kind_of(status.cloud_name, pool_prefix, host).value)}, and no machine's"
    )
    facts.append(f"cloud: {status.cloud_status or 'no status'}, {'' if status.delivered else 'not '}delivered")
    if status.deletion_scheduled:
        facts.append("cloud: its deletion is scheduled")
    if status.deletable_at is not None:
        facts.append(f"billing floor: {utc(status.deletable_at)}")
    if status.committed_until is not None:
        facts.append(f"monthly commitment until {utc(status.committed_until)}")
    if (told := get_condition(status.conditions, "Ready")) is not None:
        since = f" since {utc(told.last_transition_time)}" if told.last_transition_time else ""
        facts.append(f"the operator last said{since}: {told.reason}: {told.message}")
    return tuple(facts)


def _sort(kind: str) -> str:
    return "neither a pool's name nor a marker" if kind == "other" else f"a {kind} name"


def _shown(found: Sequence[SweepRow], output: str, *, explain: bool) -> str:
    if explain and output in ("table", "wide"):
        return _explained(found)
    shown = listed(
        found,
        output,
        _COLUMNS,
        name=lambda finding: f"scalewayapplesiliconhost/{finding.host}",
        plain=asdict,
        nothing="No hosts.",
        kind="Verdict",
    )
    return "\n".join([shown, "", _summary(found)]) if found and output in ("table", "wide") else shown


_COLUMNS: tuple[Column[SweepRow], ...] = (
    Column("HOST", lambda f: f.host),
    Column("STATE", lambda f: f.state),
    Column("MACHINE", lambda f: f.machine),
    Column("CLOUD NAME", lambda f: f.cloud_name),
    Column("WHY", lambda f: f.reason),
    Column("WOULD DO", lambda f: f.action),
    Column("ZONE", lambda f: f.zone, wide=True),
    Column("MESSAGE", lambda f: f.message, wide=True),
    Column("BECAUSE", lambda f: f.why, wide=True),
)


def _explained(found: Sequence[SweepRow]) -> str:
    if not found:
        return "No hosts."
    blocks = []
    for finding in found:
        lines = [f"{finding.host}  {finding.state} ({finding.reason})", f"  {finding.message}"]
        lines += [f"  - {fact}" for fact in finding.evidence]
        lines.append(f"  would do: {finding.action}; {finding.why}")
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, _summary(found)])


def _summary(found: Sequence[SweepRow]) -> str:
    counts = {state: sum(finding.state == state for finding in found) for state in _STATES}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    acts = sum(finding.action != "nothing" for finding in found)
    return f"{len(found)} host{'' if len(found) == 1 else 's'}: {said}; the sweep would act on {acts}."
