"""`paddock why`: one sentence with the numbers, the evidence of each ledger, what happens next and when."""

from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import complete_kinds, complete_names
from paddock.cli.connections import Problem, Reach, Reached, connected, in_path, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.finding import read_mac
from paddock.cli.near import did_you_mean
from paddock.cli.output import as_json, as_yaml, explained, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.base.explanation import Explanation
    from paddock.kube.builtin import Node

__all__ = ["command", "explanation_of", "one_of"]

_OF_THE_LEDGER = ("pod", "job", "claim", "pool")
_KINDS = ("host", "machine", "fleet", *_OF_THE_LEDGER)
_LONG = {
    "scalewayapplesiliconhost": "host",
    "scalewayapplesiliconmachine": "machine",
    "macfleet": "fleet",
    "runnerpool": "pool",
    "sash": "host",
    "samm": "machine",
    "rpool": "pool",
    **{f"{kind}s": kind for kind in (*_KINDS, "node")},
}


@click.command("why")
@click.argument("kind", metavar="KIND", required=False, shell_complete=complete_kinds(_KINDS))
@click.argument("name", required=False, shell_complete=complete_names)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@reach_flags
def command(kind: str | None, name: str | None, output: str, reach: Reach) -> None:
    """Explain why NAME is as it is: why a Mac is not Ready, why a job waits, why a Pod still exists.

    KIND is host, machine, fleet, pool, pod, job or claim; `machine/x`, as `-o name` prints it, does as well.

    A host goes by its own name or that of its machine, a job by its number at GitHub, a claim by its Pod.
    Exits with 3 when what it explains needs attention.
    """
    kind, name = one_of(_KINDS, kind, name, "why machine x")
    run(_why(kind, name, output, reach))


def one_of(kinds: tuple[str, ...], kind: str | None, name: str | None, such: str) -> tuple[str, str]:
    """The kind and the name that were typed, as `machine x` or as `machine/x`; UsageError says what there is."""
    if name is None:
        kind, _, name = (kind or "").partition("/")
    word = (kind or "").lower()
    word = _LONG.get(word, word)
    if word not in kinds or not name:
        meant = "" if word in kinds else did_you_mean(word, kinds)
        raise click.UsageError(f"say what and which: one of {', '.join(kinds)}, and its name, such as `{such}`.{meant}")
    return word, name


async def _why(kind: str, name: str, output: str, reach: Reach) -> int:
    async with connected(reach) as reached, showing(f"asking about {kind} {name}"):
        answer = await explanation_of(reached, kind, name)
    say(_shown(answer, output))
    return judged(needs_a_person=not answer.healthy)


async def explanation_of(reached: Reached, kind: str, name: str) -> "Explanation":
    """The explanation, from the subsystem that knows the thing; Problem where none does."""
    return await (_of_the_ledger if kind in _OF_THE_LEDGER else _of_the_hosts)(reached, kind, name)


async def _of_the_hosts(reached: Reached, kind: str, name: str) -> "Explanation":
    from paddock.base.clock import SystemClock
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.hosts.why import why_fleet, why_host, why_machine
    from paddock.kube.errors import NotFoundError
    from paddock.kube.stalled_condition import with_stall

    now = SystemClock().now()
    if kind == "fleet":
        try:
            fleet = await reached.client.get(MacFleet, name, reached.namespace)
        except NotFoundError:
            raise Problem(f"there is no fleet {reached.namespace}/{name}: `paddock get fleets` lists them") from None
        machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
        return with_stall(why_fleet(fleet, machines, now), fleet.status.conditions)
    mac = await read_mac(reached, name)
    machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
    node = await _node_of(reached, mac.machine.metadata.name) if mac.machine is not None else None
    if kind == "host" and mac.host is not None:
        return with_stall(why_host(mac.host, machines, now, node=node), mac.host.status.conditions)
    if mac.machine is None:
        raise Problem(f"host {name} belongs to no machine: `paddock why host {name}` explains it")
    hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
    return with_stall(why_machine(mac.machine, hosts, now, node=node), mac.machine.status.conditions)


async def _node_of(reached: Reached, name: str) -> "Node | None":
    """The Mac's Node; None where there is none yet, or where one may not be read: then nothing is said of it."""
    from paddock.kube.builtin import Node
    from paddock.kube.errors import ForbiddenError, NotFoundError

    try:
        return await reached.client.get(Node, name)
    except (NotFoundError, ForbiddenError):
        return None


async def _of_the_ledger(reached: Reached, kind: str, name: str) -> "Explanation":
    import msgspec

    from paddock.base.explanation import Explanation

    if kind == "job" and not (name.isascii() and name.isdigit()):
        raise Problem(f"{name} is not a job: give its number at GitHub; `paddock get jobs` lists them")
    answer = await reached.ledger.get(f"why/{kind}/{in_path(name)}")
    if answer is None:
        raise Problem(f"no ledger knows {kind} {name}: `paddock get {kind}s` lists what there is")
    return msgspec.convert(answer, Explanation)


def _shown(answer: "Explanation", output: str) -> str:
    import msgspec

    if output == "text":
        return explained(answer)
    plain = msgspec.to_builtins(answer)
    return as_json(plain) if output == "json" else as_yaml(plain)
