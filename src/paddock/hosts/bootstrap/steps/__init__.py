"""The steps, in their order. Which of them run on a live host is said here and nowhere else.

The first bootstrap runs all of them. An update runs those that are safe under running virtual machines, and the
configuration hash covers exactly those: what no update installs must not make a host look outdated, and what is in the
hash is installed by every update.
"""

from paddock.hosts.bootstrap.plan import FleetConfig
from paddock.hosts.bootstrap.steps.auto_login import AutoLogin
from paddock.hosts.bootstrap.steps.egress_firewall import VmEgressFirewall
from paddock.hosts.bootstrap.steps.hostname import Hostname
from paddock.hosts.bootstrap.steps.ingress_guard import SshIngressGuard
from paddock.hosts.bootstrap.steps.no_sleep import NoSleep
from paddock.hosts.bootstrap.steps.node_kubeconfig import NodeKubeconfig
from paddock.hosts.bootstrap.steps.payloads import InstalledPayload, RetiredPayloads
from paddock.hosts.bootstrap.steps.ssh_watchdog import SshWatchdog
from paddock.hosts.bootstrap.steps.step import Step
from paddock.hosts.bootstrap.steps.sudo import PasswordlessSudo
from paddock.hosts.bootstrap.steps.virtual_machines import LogRotation, VmNetwork, VmSession, VmShares

__all__ = ["all_steps", "live_steps"]


def all_steps(fleet: FleetConfig) -> tuple[Step, ...]:
    """Everything, for a host on which nothing runs yet.

    The firewall comes before the agent: no virtual machine may start without it. The guard comes after everything that
    could still fail, so that a host is never guarded before it is known to be reachable and sound. The agent is last:
    with it the Node appears.
    """
    context = [InstalledPayload(payload) for payload in fleet.payloads if not payload.agent]
    agents = [InstalledPayload(payload) for payload in fleet.payloads if payload.agent]
    return (
        PasswordlessSudo(),
        AutoLogin(),
        NoSleep(),
        SshWatchdog(),
        Hostname(),
        RetiredPayloads(),
        *context,
        VmSession(),
        VmNetwork(),
        VmShares(),
        LogRotation(),
        VmEgressFirewall(),
        SshIngressGuard(),
        NodeKubeconfig(),
        *agents,
    )


def live_steps(fleet: FleetConfig) -> tuple[Step, ...]:
    """What may be repeated under running virtual machines: in the same order."""
    return tuple(step for step in all_steps(fleet) if step.live)
