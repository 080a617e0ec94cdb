"""The node agent's own identity, readable by the login user alone."""

import base64
from collections.abc import Sequence

from paddock.base.secrets import Secret
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.scripts import script
from paddock.hosts.bootstrap.steps.step import Skipped, StepResult, StepShell

__all__ = ["NodeKubeconfig"]


class NodeKubeconfig:
    name = "node-kubeconfig"
    timeout = 60.0
    live = True

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]:
        return (script("node_kubeconfig"), fleet.kubeconfig_path, host.username)

    async def apply(self, shell: StepShell, host: PerHost, fleet: FleetConfig) -> StepResult | Skipped:
        if host.kubeconfig is None:
            return Skipped("this host has no identity of its own to install")
        content = Secret(base64.b64encode(host.kubeconfig.reveal().encode()).decode())
        return await shell.run("node_kubeconfig", fleet.kubeconfig_path, host.username, secrets=(content,))
