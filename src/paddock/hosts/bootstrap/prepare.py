"""Preparing one host by hand: passwordless sudo and automatic login, with the password that a person knows.

For hosts whose password the cloud no longer shows. It uses the fleet's key alone to get in, never a password: a host
that refuses the key needs the key, and `recovery` says how it gets there.
"""

from dataclasses import dataclass

from paddock.base.secrets import Password, Secret
from paddock.clients.scaleway import Credentials
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.credentials import HostLogins
from paddock.hosts.bootstrap.errors import FailureKind
from paddock.hosts.bootstrap.outcome import Failed, Outcome, ProgressCallback, Ready, silent
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.run import Bootstrap
from paddock.hosts.bootstrap.steps.auto_login import AutoLogin
from paddock.hosts.bootstrap.steps.sudo import PasswordlessSudo

__all__ = ["Preparation", "prepare_host", "recovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What to prepare.

    `machine` is the Machine that has the host; None where the fleet does not own it yet. `host_key` is the pinned key of
    the host; None where no fleet knows the host, so that whoever answers at the address is taken for it.
    """

    address: str
    key: Secret
    password: Password
    fleet: str
    machine: ScalewayAppleSiliconMachine | None = None
    host_key: str | None = None
    username: str = "m1"
    port: int = 22


async def prepare_host(
    bootstrap: Bootstrap,
    preparation: Preparation,
    logins: HostLogins | None = None,
    progress: ProgressCallback = silent,
) -> Outcome:
    """Prepare the host; then tell the fleet which password holds, so that no older one is written over it.

    The fleet is told only after macOS accepted the password, in sudo and in automatic login both.
    """
    machine = preparation.machine
    host = PerHost(
        address=preparation.address,
        port=preparation.port,
        username=preparation.username,
        key=preparation.key,
        password=preparation.password,
        node_name=machine.metadata.name if machine is not None else "unclaimed",
        host_key=preparation.host_key,
    )
    outcome = await bootstrap.only(host, FleetConfig(), (PasswordlessSudo(), AutoLogin()), progress)
    if isinstance(outcome, Ready) and logins is not None and machine is not None:
        await logins.write(machine, Credentials(preparation.username, preparation.password))
    return outcome


def recovery(failed: Failed, preparation: Preparation) -> str:
    """What a person can do about it, in a few lines."""
    match failed.kind:
        case FailureKind.AUTH_REFUSED:
            return (
                f"The host does not know the key of fleet {preparation.fleet}. Either\n"
                f"  - connect with VNC, log in as {preparation.username} and add the fleet's public key as a line of\n"
                "    ~/.ssh/scw_authorized_keys, then run this command again; or\n"
                "  - reinstall the host: the project's keys are put on it at every install."
            )
        case FailureKind.PASSWORD_REFUSED:
            return (
                "sudo refused the password. It was tried once and is not tried again before the Mac restarts, because\n"
                "macOS locks the account after a few wrong ones. Check the password; restart the host if it may be\n"
                "locked already; then run this command again."
            )
        case FailureKind.PASSWORD_SEALED:
            return (
                "sudo works, but macOS did not accept the password for automatic login and replaced it by its marker.\n"
                "Log in once with VNC, set the password of the user again, and run this command with that password."
            )
        case FailureKind.HOST_KEY_CHANGED | FailureKind.HANGS | FailureKind.REFUSED | FailureKind.TIMED_OUT:
            return (
                "Nothing was changed. Restart the host in the cloud's console if it stays like this, or reinstall it."
            )
        case _:
            return "Run the command again: every step continues from what is there."
