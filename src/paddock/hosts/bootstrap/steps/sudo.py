"""Passwordless sudo for the login user, which every later step needs.

The password is used once, and only where sudo asks for one. Without a usable password nothing is asked of sudo at all:
each wrong answer counts towards a lock of the account.
"""

from collections.abc import Sequence

from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell

__all__ = ["PasswordlessSudo"]


class PasswordlessSudo:
    name = "passwordless-sudo"
    timeout = 60.0
    live = False

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("sudo"), host.username)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        secrets = () if host.password is None else (host.password,)
        return await shell.run("sudo", host.username, host.credentials_version, secrets=secrets)
