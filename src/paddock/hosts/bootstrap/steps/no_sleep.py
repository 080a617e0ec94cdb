"""A host that never sleeps, logs its user out, or restarts by itself."""

from collections.abc import Sequence

from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell

__all__ = ["NoSleep"]


class NoSleep:
    name = "no-sleep"
    timeout = 60.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("no_sleep"),)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        return await shell.run("no_sleep")
