"""Who may reach a host's SSH port. Installed only where it cannot lock us out; otherwise it says why not."""

from collections.abc import Sequence

from paddock.hosts.bootstrap.launchd import daemon_plist
from paddock.hosts.bootstrap.packet_filter import guard_is_safe, ingress_rules
from paddock.hosts.bootstrap.plan import FleetConfig, IngressGuard, PerHost
from paddock.hosts.bootstrap.scripts import on_host, script
from paddock.hosts.bootstrap.steps.step import Skipped, StepResult, StepShell, encoded

__all__ = ["SshIngressGuard"]


class SshIngressGuard:
    name = "ingress-guard"
    timeout = 90.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        if fleet.ingress_guard is None:
            return (script("ingress_guard_absent"),)
        return (script("ingress_probe"), script("ingress_guard"), *self._files(fleet.ingress_guard))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult | Skipped:  # noqa: ARG002
        guard = fleet.ingress_guard
        if guard is None:
            return await shell.run("ingress_guard_absent")
        seen = await shell.run("ingress_probe")
        danger = guard_is_safe(guard, next(iter(seen.all("peer")), ""), seen.all("address"))
        if danger is not None:
            # An older guard stays: it let this very session in.
            return Skipped(f"not installed, it could lock us out: {danger}")
        return await shell.run("ingress_guard", *(encoded(text) for text in self._files(guard)))

    @staticmethod
    def _files(guard: IngressGuard) -> tuple[str, str, str]:
        plist = daemon_plist("dev.tuist.pfctl-sshguard", "/usr/local/bin/tuist-pf-sshguard", every=60)
        return ingress_rules(guard), on_host("pf_sshguard"), plist
