"""`paddock adopt --from-names`: rebuild machines for Macs that run, after a cluster lost them. Shows first, then asks."""

import click

from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.exit_codes import DECLINED
from paddock.cli.output import confirmed, say

__all__ = ["command"]


@click.command("adopt")
@click.option("--from-names", is_flag=True, help="Rebuild machines from the cloud's names and from Nodes.")
@click.option(
    "--name-prefix", default="", help="Only hosts whose cloud name starts with this: the release's name and -."
)
@click.option("--apply", is_flag=True, help="Make the machines; without it, only what would be done is shown.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@reach_flags
def command(from_names: bool, name_prefix: str, apply: bool, yes: bool, reach: Reach) -> None:
    """Take up again the Macs of a cluster that lost its machines.

    A host is taken up where the cloud's name and a Node's provider id agree. Nothing is bootstrapped, rebooted or wiped: the
    machine that is made names the server, and the operator goes on from there.
    """
    run(_adopt(name_prefix, reach, from_names=from_names, apply=apply, yes=yes))


async def _adopt(prefix: str, reach: Reach, *, from_names: bool, apply: bool, yes: bool) -> int:
    from paddock.hosts.adoption import Adopt, adoptions
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.kube.builtin import Node
    from paddock.kube.errors import AlreadyExistsError

    if not from_names:
        raise Problem("say from what: --from-names is the only source so far")
    if not prefix:
        raise Problem("--name-prefix is empty: every host of the project would be meant; give the release's name and -")
    async with connected(reach) as reached:
        client = reached.client
        found = adoptions(
            (await client.list(ScalewayAppleSiliconHost, reached.namespace)).items,
            (await client.list(ScalewayAppleSiliconMachine)).items,
            (await client.list(Node)).items,
            (await client.list(MacFleet, reached.namespace)).items,
            prefix,
        )
        plan = [f"{'adopt' if isinstance(each, Adopt) else 'leave'}  {each.message}" for each in found]
        wanted = [each for each in found if isinstance(each, Adopt)]
        if not apply or not wanted:
            for line in plan:
                say(line)
            rest = "" if apply or not wanted else "; nothing was changed: add --apply"
            say(f"{len(wanted)} of {len(found)} hosts without a machine can be taken up again{rest}")
            return 0
        if not confirmed(plan, "Go on?", yes=yes):
            return DECLINED
        for each in wanted:
            try:
                await client.create(each.machine)
            except AlreadyExistsError:
                continue  # made before, by this command or by somebody else
            say(f"machine {each.machine.metadata.name} is made")
        return 0
