"""The host carries its Machine's name."""

from collections.abc import Sequence

from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell

__all__ = ["Hostname"]


class Hostname:
    name = "hostname"
    timeout = 30.0
    live = False  # programs that asked for their host's name would see it change under them

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("hostname"), host.node_name)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        return await shell.run("hostname", host.node_name, host.node_name.replace(".", "-"))
