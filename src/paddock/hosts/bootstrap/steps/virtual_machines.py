"""What a host needs so that virtual machines run on it for months: addresses, Softnet, a bounded place for their shares,
a console session, and logs that do not grow for ever. Each of them is undone where the fleet no longer wants it.
"""

from collections.abc import Sequence

from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import Skipped, StepResult, StepShell, encoded

__all__ = ["LogRotation", "VmNetwork", "VmSession", "VmShares"]

_LOGS_KEPT = 5
_LOG_KILOBYTES = 10 * 1024


class VmNetwork:
    """Short DHCP leases, and Softnet as root where the fleet wants it. After the payloads: one of them brings Softnet,
    and a newer one comes without the bit.
    """

    name = "vm-network"
    timeout = 60.0
    live = True  # leases are read when the next machine asks; Softnet's bit matters when the next one starts

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        return (script("vm_network"), *self._wanted(fleet))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        return await shell.run("vm_network", *self._wanted(fleet))

    @staticmethod
    def _wanted(fleet: FleetConfig) -> tuple[str, str]:
        vms = fleet.virtual_machines
        return ("", "") if vms is None else (str(vms.dhcp_lease_seconds), vms.softnet)


class VmShares:
    """A volume with a quota, owned by the user whose session runs the machines."""

    name = "vm-shares"
    timeout = 120.0
    live = True  # a volume in use is never removed, nor is its quota changed

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:
        return (script("vm_shares"), script("vm_shares_absent"), *self._wanted(host, fleet))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:
        wanted = self._wanted(host, fleet)
        done = await shell.run("vm_shares_absent", *wanted[:1])
        return done + await shell.run("vm_shares", *wanted) if wanted else done

    @staticmethod
    def _wanted(host: PerHost, fleet: FleetConfig) -> tuple[str, ...]:
        vms = fleet.virtual_machines
        if vms is None or not vms.shares_volume:
            return ()
        return (vms.shares_volume, str(vms.shares_quota_mb), host.username)


class VmSession:
    """Says where no machine could start, because no user is logged in on the console."""

    name = "vm-session"
    timeout = 30.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:
        return () if fleet.virtual_machines is None else (script("vm_session"), host.username)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult | Skipped:
        if fleet.virtual_machines is None:
            return Skipped("the fleet runs no virtual machines")
        return await shell.run("vm_session", host.username)


class LogRotation:
    """The logs of the fleet's jobs, bounded by newsyslog."""

    name = "log-rotation"
    timeout = 60.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:
        return (script("log_rotation"), self._rules(host, fleet))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:
        rules = self._rules(host, fleet)
        return await shell.run("log_rotation", encoded(rules) if rules else "")

    @staticmethod
    def _rules(host: PerHost, fleet: FleetConfig) -> str:
        lines: list[str] = []
        for payload in fleet.payloads:
            job = payload.job
            if job is not None and job.log:
                owner = host.username if job.run_as == "login" else "root"
                # N: no process is signalled. launchd holds the file, so a job that says much rotates a log of its own.
                lines.append(f"{job.log} {owner}:wheel 644 {_LOGS_KEPT} {_LOG_KILOBYTES} * N")
        return "\n".join(["# Logs of Paddock's jobs. Written by Paddock.", *lines]) if lines else ""
