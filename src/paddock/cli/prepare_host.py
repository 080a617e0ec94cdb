"""`paddock prepare-host`: passwordless sudo and automatic login on one Mac, with a password that a person knows."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, names_cluster, reach_flags, run
from paddock.cli.exit_codes import FAILED
from paddock.cli.finding import read_mac
from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.base.secrets import Password, Secret
    from paddock.hosts.api import ScalewayAppleSiliconMachine
    from paddock.hosts.bootstrap.credentials import HostLogins
    from paddock.hosts.bootstrap.outcome import StepProgress
    from paddock.hosts.bootstrap.prepare import Preparation
    from paddock.hosts.bootstrap.run import Bootstrap
    from paddock.kube.client import Client

__all__ = ["command", "expected"]

_MARKS = {"changed": "✓ changed", "unchanged": "✓ as it should be", "skipped": "- skipped", "failed": "✗ failed"}


@click.command("prepare-host")
@click.argument("address")
@click.option("--fleet", required=True, help="The fleet whose key opens the host.")
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The fleet's private key; without it, it is read from the fleet's Secret in the cluster.",
)
@click.option("--user", "username", default="m1", show_default=True, help="The login user of the Mac.")
@click.option("--port", default=22, show_default=True, type=click.IntRange(1, 65535), help="Its SSH port.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking.")
@click.option("--machine", default="", help="The Machine that has this host; it is then told the password.")
@reach_flags
def command(
    address: str,
    fleet: str,
    key: Path | None,
    username: str,
    port: int,
    password_stdin: bool,
    machine: str,
    reach: Reach,
) -> None:
    """Give the Mac at ADDRESS passwordless sudo and automatic login.

    Only the fleet's key is used to get in. The password is used once, by sudo, and never shown, stored in a file of this
    machine or passed as an argument. A host that the cluster knows must show the key that is pinned on it. With --key and
    without --machine no cluster is needed, and whoever answers at ADDRESS gets the password.
    """
    if (machine or key is None) and not names_cluster(reach):
        raise click.UsageError("--machine, or the fleet's key from its Secret, needs --kubeconfig (or give --key FILE)")
    run(_prepare(address, fleet, key, username, port, machine, reach, password_stdin=password_stdin))


def _password(*, from_stdin: bool) -> "Password":
    from paddock.base.secrets import Password, UnusablePasswordError

    try:
        text = sys.stdin.readline().rstrip("\n") if from_stdin else click.prompt("Password of the Mac", hide_input=True)
        return Password(text)
    except click.Abort:
        raise click.UsageError(
            "no password was typed: where there is no terminal, pipe it in with --password-stdin"
        ) from None
    except UnusablePasswordError as error:
        raise click.UsageError(f"{error}: give the password that the user of the Mac has now") from None


async def _prepare(
    address: str,
    fleet: str,
    key: Path | None,
    username: str,
    port: int,
    machine: str,
    reach: Reach,
    *,
    password_stdin: bool,
) -> int:
    from contextlib import AsyncExitStack

    from paddock.base.clock import SystemClock
    from paddock.base.rng import unseeded
    from paddock.clients.ssh import AsyncSsh
    from paddock.hosts.bootstrap.credentials import HostLogins
    from paddock.hosts.bootstrap.errors import PlanError
    from paddock.hosts.bootstrap.prepare import Preparation
    from paddock.hosts.bootstrap.run import Bootstrap

    try:
        async with AsyncExitStack() as stack:
            reached, client, namespace = None, None, reach.namespace
            if machine or key is None:
                reached = await stack.enter_async_context(connected(reach))
                client, namespace = reached.client, reached.namespace
            private = await _key(key, client, fleet, namespace)
            owner, host_key = (None, None) if reached is None else await expected(reached, address, machine)
            password = _password(from_stdin=password_stdin)
            preparation = Preparation(
                address=address,
                key=private,
                password=password,
                fleet=fleet,
                machine=owner,
                host_key=host_key,
                username=username,
                port=port,
            )
            logins = None if client is None else HostLogins(client)
            return await _report(Bootstrap(AsyncSsh(), SystemClock(), unseeded()), preparation, logins)
    except (PlanError, OSError) as error:
        raise Problem(str(error)) from error


async def expected(
    reached: Reached, address: str, name: str
) -> "tuple[ScalewayAppleSiliconMachine | None, str | None]":
    """The machine that is named, and the key of the host that the password is for; Problem where nobody knows that key.

    Without a name it is the host with the address; None where the cluster has none.
    """
    from paddock.base.clock import SystemClock
    from paddock.base.explanation import utc
    from paddock.hosts.api import ScalewayAppleSiliconHost
    from paddock.hosts.first_contact import Believe, Known, Refuse, first_contact

    if name:
        mac = await read_mac(reached, name)
        machine, host = mac.machine, mac.host
        if machine is None or host is None or machine.status.server_id != host.spec.server_id:
            raise Problem(f"{name} is no machine with a host, so no password can be its: leave --machine out")
    else:
        hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
        machine, host = None, next((each for each in hosts if each.status.ip == address), None)
        if host is None:
            return None, None
    match first_contact(host, SystemClock().now()):
        case Known(host_key):
            return machine, host_key
        case Believe(until):
            raise Problem(
                f"the SSH key of host {host.metadata.name} is not pinned yet: the operator pins it as soon as the Mac answers, "
                f"until {utc(until)}; run this again then"
            )
        case Refuse(message):
            raise Problem(message)


async def _key(key: Path | None, client: "Client | None", fleet: str, namespace: str) -> "Secret":
    from paddock.base.secrets import Secret
    from paddock.hosts.bootstrap.errors import PlanError
    from paddock.hosts.bootstrap.fleet_key import PRIVATE, secret_name
    from paddock.kube.builtin import SecretObject
    from paddock.kube.errors import NotFoundError

    if key is not None:
        return Secret(await asyncio.to_thread(key.read_text))
    assert client is not None  # checked with the options
    try:
        found = await client.get(SecretObject, secret_name(fleet), namespace)
    except NotFoundError:
        raise Problem(
            f"there is no Secret {namespace}/{secret_name(fleet)}, so fleet {fleet} has no key there: give the fleet's "
            "namespace with -n, or the key with --key FILE"
        ) from None
    if PRIVATE not in found.data:
        raise PlanError(f"Secret {secret_name(fleet)}", f"it holds no {PRIVATE}; give the key with --key FILE")
    return Secret(found.data[PRIVATE].decode())


async def _report(bootstrap: "Bootstrap", preparation: "Preparation", logins: "HostLogins | None") -> int:
    from paddock.hosts.bootstrap.outcome import Failed
    from paddock.hosts.bootstrap.prepare import prepare_host, recovery

    async def progress(step: "StepProgress") -> None:
        if step.state != "started":
            say(f"  {step.step:<20} {_MARKS[step.state]}")

    outcome = await prepare_host(bootstrap, preparation, logins, progress)
    if isinstance(outcome, Failed):
        say(f"\n{outcome.sentence}\n\n{recovery(outcome, preparation)}", err=True)
        return FAILED
    for step, reason in outcome.skipped:
        say(f"  {step}: {reason}")
    for note in outcome.notes:
        say(f"  {note}")
    say(f"\nThe host is prepared; its host key is {outcome.host_key}.")
    if preparation.machine is None:
        say("The fleet was not told the password (--machine does that).")
    return 0
