"""A job on the host that opens the SSH port again when its accept queue has filled up."""

from collections.abc import Sequence

from paddock.hosts.bootstrap.launchd import daemon_plist
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import on_host, script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell, encoded

__all__ = ["SshWatchdog"]


class SshWatchdog:
    name = "ssh-watchdog"
    timeout = 60.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("ssh_watchdog"), *self._files(fleet))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        return await shell.run("ssh_watchdog", *(encoded(text) for text in self._files(fleet)))

    @staticmethod
    def _files(fleet: FleetConfig) -> tuple[str, str]:
        plist = daemon_plist(
            "dev.tuist.ssh-reachability", "/usr/local/bin/tuist-ssh-reachability", every=fleet.ssh_watchdog_seconds
        )
        return on_host("ssh_reachability"), plist
