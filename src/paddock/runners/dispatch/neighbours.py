"""Who may work beside whom on one Mac: without Softnet between its VMs, one account at a time. Pure.

Tart's own network keeps VMs of a Mac from speaking with each other, but one can answer for another's address (ARP) and so
read what it is sent. So a claim is served only when nobody else's work can be on its Mac.

Why two claims never both pass: each is committed in the ledger before its handover looks, and each looks at a fresh list of
the Mac's Pods, then at the ledger. Of two rivals the one that looked last finds the other's claim. Both may find the other,
and then both yield, rest for different times, and the first to come back is served. The older generation is not preferred:
a generation is drawn before its claim is committed, so the younger may have looked, found nobody and passed, before the
older could be seen; an older one that passed all the same would meet it.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from paddock.kube.builtin import Node, Pod
from paddock.runners.api import ACCOUNT_LABEL, SOFTNET_LABEL, RunnerPool
from paddock.runners.ledger import Claim, Tenant

__all__ = ["OUTCOME", "Neighbour", "ended", "kept_apart", "shares_macs", "stranger"]

OUTCOME: Final = "neighbour"
"""What counters and answers call it."""
_WORK: Final = (20.0, 30.0)
"""A job takes minutes: asking sooner would only take the job out of its line and put it back."""
_RACE: Final = (2.0, 6.0)
"""The rival is only claimed and may yield as well: whoever comes back first is served."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_REMEDY: Final = (
    "install Softnet on the Mac (--softnet-url, macosFleet.softnet.url of the chart, or virtual_machines.softnet of the fleet "
    "file), or set isolation: exclusive on the pool"
)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Why a claim is given back, and how long its Pod rests: another account works on the Mac, or that cannot be ruled out.

    `reason` is what the counter of claims given back calls it, `outcome` what the Pod's answer does.
    """

    why: str
    rest: float
    reason: str = OUTCOME
    outcome: str = OUTCOME


def kept_apart(pool: RunnerPool, node: Node | None) -> bool:
    """Whether jobs of two accounts may meet on this Node: no Mac, a Mac for one Pod, or Softnet between its VMs.

    A Node that is not known has no label, so nothing is known to keep its VMs apart.
    """
    if not shares_macs(pool):
        return True
    return node is not None and node.metadata.labels.get(SOFTNET_LABEL) == "true"


def shares_macs(pool: RunnerPool) -> bool:
    """Whether its Pods may be beside others on a Mac."""
    return pool.spec.os == "darwin" and pool.spec.isolation != "exclusive"


def ended(pod: Pod) -> bool:
    """Whether its VM is gone: the agent says so only with proof, and keeps the Pod until then."""
    return pod.status.phase in _ENDED


def stranger(
    claim: Claim, mac: str, pods: Iterable[Pod], tenants: Mapping[str, Tenant], rng: random.Random
) -> Neighbour | None:
    """The other account's work that this claim would be beside; None if there is none. The same account may have both VMs.

    `tenants` is the ledger's word on the uids of `pods`. Who was ever handed a job counts until the Pod has ended: its VM may
    still be on its way out, whatever became of the job.
    """
    for pod in pods:
        if pod.metadata.uid == claim.pod_uid or ended(pod):
            continue
        tenant = tenants.get(pod.metadata.uid)
        if tenant is not None and tenant.account_id != claim.account_id:
            if tenant.handed:
                return _neighbour(claim, mac, f"Pod {pod.metadata.name} of account {tenant.login} is", _WORK, rng)
            return _neighbour(
                claim, mac, f"Pod {pod.metadata.name} is being claimed for account {tenant.login}", _RACE, rng
            )
        labelled = pod.metadata.labels.get(ACCOUNT_LABEL, "")
        if labelled not in ("", str(claim.account_id)):
            return _neighbour(claim, mac, f"Pod {pod.metadata.name} of account number {labelled} is", _WORK, rng)
    return None


def _neighbour(claim: Claim, mac: str, who: str, rest: tuple[float, float], rng: random.Random) -> Neighbour:
    seconds = rng.uniform(*rest)
    there = f"{who} there" if who.endswith(" is") else f"{who} there now"
    why = (
        f"Mac {mac} runs VMs without Softnet, and {there}, so a job of account {claim.login} is not put beside it: the job keeps "
        f"its place for another Pod, and this Pod asks again in about {seconds:.0f} s; to use the seat, {_REMEDY}"
    )
    return Neighbour(why, seconds)
