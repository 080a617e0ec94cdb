"""What virtual machines may not reach, enforced by the host's pf; nothing of it where the fleet does not want it."""

from collections.abc import Sequence

from paddock.hosts.bootstrap.launchd import daemon_plist
from paddock.hosts.bootstrap.packet_filter import egress_rules
from paddock.hosts.bootstrap.plan import EgressFirewall, FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import on_host, script
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell, encoded

__all__ = ["VmEgressFirewall"]


class VmEgressFirewall:
    name = "egress-firewall"
    timeout = 90.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:  # noqa: ARG002
        if fleet.egress_firewall is None:
            return (script("egress_firewall_absent"),)
        return (script("egress_firewall"), *self._files(fleet.egress_firewall))

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult:  # noqa: ARG002
        if fleet.egress_firewall is None:
            return await shell.run("egress_firewall_absent")
        return await shell.run("egress_firewall", *(encoded(text) for text in self._files(fleet.egress_firewall)))

    @staticmethod
    def _files(firewall: EgressFirewall) -> tuple[str, str, str]:
        plist = daemon_plist("dev.tuist.pfctl-runners", "/usr/local/bin/tuist-pf-runners", every=60)
        return egress_rules(firewall), on_host("pf_runners"), plist
