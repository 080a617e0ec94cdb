"""What keeps accounts apart that are served by one pool: one tenant a Mac, or Softnet between their VMs. Pure.

Tart's own network keeps VMs of a Mac from speaking with each other, but one can answer for another's address (ARP) and so
read what it is sent. Softnet stops that. On a Mac without it dispatch serves one account at a time (`dispatch.neighbours`).
"""

from collections.abc import Sequence
from typing import Final

from paddock.kube.builtin import Node
from paddock.kube.objects import Condition
from paddock.runners.api import SOFTNET_LABEL, RunnerPool

__all__ = ["ISOLATED", "isolated"]

ISOLATED: Final = "Isolated"
_NAMED: Final = 3


def isolated(pool: RunnerPool, serving: Sequence[Node]) -> Condition | None:
    """Whether jobs of two accounts can get at each other on a Mac; None where there is no Mac to speak of."""
    if pool.spec.os != "darwin":
        return None
    if pool.spec.isolation == "exclusive":
        alone = "each of its VMs has its Mac for itself while it runs"
        return Condition(type=ISOLATED, status="True", reason="OneTenantAMac", message=alone)
    without = sorted(node.metadata.name for node in serving if node.metadata.labels.get(SOFTNET_LABEL) != "true")
    if not serving:
        return None
    if not without:
        apart = "VMs of a Mac are kept apart by Softnet"
        return Condition(type=ISOLATED, status="True", reason="Softnet", message=apart)
    named = ", ".join(without[:_NAMED]) + (f" and {len(without) - _NAMED} more" if len(without) > _NAMED else "")
    message = (
        f"{len(without)} of {len(serving)} Macs ({named}) run VMs without Softnet, so that each of them is given jobs of one account "
        "at a time, and its other seat stays empty while only other accounts' jobs wait: to fill both, install Softnet "
        "(--softnet-url, macosFleet.softnet.url of the chart, or virtual_machines.softnet of the fleet file), or set "
        "spec.isolation to exclusive; a pool that serves one account loses nothing"
    )
    return Condition(type=ISOLATED, status="True", reason="OneAccountAtATime", message=message)
