"""`paddock doctor`: everything that Paddock needs from outside, looked at one by one; each line says how to mend it."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from paddock.cli.connections import Reach, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.output import Column, listed, output_flag, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.cli.doctor.check import Check

__all__ = ["command", "examined", "shown"]

_MARKS = {"ok": "✓", "problem": "✗", "unknown": "?"}


@click.command("doctor")
@click.option("--as-operator", is_flag=True, help="Check every right of the operator's role too, as its account.")
@click.option("--as-dispatch", is_flag=True, help="Check every right of the dispatch role too, as its account.")
@click.option(
    "--account-namespace",
    default="",
    help="Where the operator's and dispatch's accounts are; --namespace unless given.",
)
@output_flag
@reach_flags
def command(as_operator: bool, as_dispatch: bool, account_namespace: str, output: str, reach: Reach) -> None:
    """Check what Paddock needs: cluster, rights, services, cloud, GitHub, clocks. Each problem says how to mend it.

    The cloud is checked if SCW_SECRET_KEY is set here, GitHub if PADDOCK_GITHUB_APP_ID is. Exits with 3 on a problem.
    """
    accounts = {"operator": as_operator, "dispatch": as_dispatch}
    run(_doctor([name for name, wanted in accounts.items() if wanted], account_namespace, output, reach))


async def _doctor(accounts: list[str], account_namespace: str, output: str, reach: Reach) -> int:
    async with showing("examining"):
        checks = await examined(reach, accounts, account_namespace, os.environ)
    say(shown(checks, output))
    return judged(needs_a_person=any(check.state == "problem" for check in checks))


async def examined(
    reach: Reach, accounts: list[str], account_namespace: str, environ: Mapping[str, str]
) -> "list[Check]":
    """Every check. What needs the cluster is left out, and said, where the cluster does not answer."""
    from paddock.cli.connections import Problem, left_by_up
    from paddock.cli.doctor import outside, rights
    from paddock.cli.doctor.check import bad, good
    from paddock.cli.doctor.cluster import clock_check, cluster_checks
    from paddock.cli.doctor.node_agent import node_agent
    from paddock.cli.doctor.one_machine import one_machine, told_by
    from paddock.kube.errors import KubeError

    beyond = asyncio.gather(outside.cloud(environ), outside.github(environ))
    checks: list[Check] = []
    for_macs: list[Check] = []
    try:
        async with connected(reach) as reached:
            version, clock = await clock_check(reached.client)
            checks += [good("cluster", f"{reached.client.config.server} answers, Kubernetes {version}"), clock]
            checks += await cluster_checks(reached)
            checks.append(await rights.own(reached))
            if told := told_by(left_by_up(reached.client)):
                for_macs = await one_machine(told, reached.client.config.ca)
            for account in accounts:
                checks += await rights.of_account(reached, account, account_namespace or reached.namespace)
    except (KubeError, Problem, OSError) as error:
        checks.append(
            bad("cluster", str(error), "give --kubeconfig, set KUBECONFIG, or run this beside the data of `paddock up`")
        )
    for found in await beyond:
        checks += found
    return [*checks, *(for_macs or await asyncio.to_thread(node_agent, environ))]


def shown(checks: "list[Check]", output: str) -> str:
    if output not in ("table", "wide"):
        return listed(
            checks,
            output,
            [Column("", str)],
            name=lambda check: f"{check.state}/{check.about}",
            plain=asdict,
            nothing="",
            kind="Check",
        )
    width = max(len(check.about) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_MARKS[check.state]} {check.about.ljust(width)}  {check.found}")
        if check.fix:
            lines.append(f"  {' ' * width}  → {check.fix}")
    problems, unclear = (sum(check.state == state for check in checks) for state in ("problem", "unknown"))
    said = f"{len(checks)} checks, {problems} problem{'' if problems == 1 else 's'}" + (
        f", {unclear} could not be made from here" if unclear else ""
    )
    return "\n".join([*lines, "", f"{said}."])
