"""A console session after every start, because virtual machines need one.

Without a usable password the step is left out: a broken `/etc/kcpassword` is worse than none.
"""

import base64
from collections.abc import Sequence

from paddock.base.secrets import Secret
from paddock.hosts.bootstrap import kcpassword
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import Skipped, StepResult, StepShell

__all__ = ["AutoLogin"]


class AutoLogin:
    name = "auto-login"
    timeout = 120.0
    live = False  # the kick of loginwindow ends every virtual machine

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("auto_login"), host.username)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult | Skipped:  # noqa: ARG002
        if host.password is None:
            return Skipped("there is no password that can be used: the host keeps the automatic login that it has")
        content = Secret(base64.b64encode(kcpassword.encode(host.password)).decode())
        sealed = kcpassword.sealed_start().hex()
        return await shell.run("auto_login", host.username, sealed, secrets=(content, host.password))
