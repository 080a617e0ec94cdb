"""Giving a Mac back, for the page and the commands: what becomes of its host, as it is said before anybody agrees to it,
and the deed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from paddock.base.explanation import utc
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import machine_owner, machine_resource
from paddock.hosts.delete import RELEASE_POLICY, RecordRelease, SkipRelease, ending
from paddock.hosts.disruption import FORCE
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.reader import FreshReader
from paddock.runners.api import RUNNER_LABEL
from paddock.views.finding import Mac, busy_pods

__all__ = ["Fate", "JobsCameError", "fate", "give_back", "successor"]

_ANY_POOL = "pool-"
"""Which pool is the operator's business: here it counts only that there is one."""


@dataclass(frozen=True, slots=True)
class Fate:
    """`kept`: nothing is done to the host, because it is not this machine's to give back, or because there is none."""

    becomes: Literal["pooled", "terminated", "kept"]
    sentence: str


def fate(mac: Mac, *, terminate: bool = False) -> Fate:
    """What the operator does about the host, by the very function that it decides with; `terminate` where a person asks for that.

    A machine whose annotation or source says so is terminated whatever the verb is, and a release that is recorded goes on as
    it was recorded.
    """
    assert mac.machine is not None
    if mac.host is None:
        return Fate("kept", "nothing more: it has no host")
    host = mac.host
    where = f"host {host.metadata.name} ({host.status.type}, {host.spec.zone})"
    match ending(mac.machine, host, _ANY_POOL):
        case SkipRelease("ReleaseRecorded", _) if host.spec.release is not None:
            for_good = host.spec.release.policy == "terminate"
            sentence = f"{where} is on its way already: it {_end(host, for_good=for_good)}"
            return Fate("terminated" if for_good else "pooled", sentence)
        case SkipRelease(_, message):
            return Fate("kept", f"{where} is not touched: {message}")
        case RecordRelease("terminate", _) if not terminate:
            said = "its machine says so, by its release policy or because it was ordered"
            return Fate("terminated", f"{where} {_end(host, for_good=True)} ({said})")
        case _:
            return Fate("terminated" if terminate else "pooled", f"{where} {_end(host, for_good=terminate)}")


def successor(mac: Mac, *, terminate: bool = False) -> str:
    """Who makes another machine in its place, and what that one waits for; empty where nobody does."""
    assert mac.machine is not None
    owner = next((ref for ref in mac.machine.metadata.owner_references if ref.kind in ("MacFleet", "Machine")), None)
    if owner is None:
        return ""
    makes = f"{owner.kind} {owner.name} makes another machine in its place"
    from_pool = owner.kind == "MacFleet" and mac.machine.spec.source == "Pool"
    if from_pool and fate(mac, terminate=terminate).becomes == "terminated":
        return f"{makes}, which waits until a host is free: to have a Mac less, lower spec.replicas of {owner.name} too"
    return makes


def _end(host: ScalewayAppleSiliconHost, *, for_good: bool) -> str:
    if not for_good:
        return "is wiped and goes back to the pool"
    if (end := host.status.committed_until) is None:
        return "is deleted at the cloud"
    return f"is deleted at the cloud when its monthly commitment ends on {utc(end)}, and is paid for until then"


class JobsCameError(Exception):
    """Pods work there whose end nobody was shown, so that nothing was changed."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        super().__init__(", ".join(pod.metadata.name for pod in pods))
        self.pods = pods


async def give_back(
    client: Client, machine: ScalewayAppleSiliconMachine, *, shown: Collection[str], terminate: bool = False
) -> None:
    """Delete the machine. `shown` are the uids of the Pods that a person was shown and gives up; JobsCameError where others work.

    Force names those that still work and no other, so that a job which comes after this look is waited for. Died between
    the marks and the deletion: they count only for a machine that is deleted, and the next attempt writes its own.
    """
    meta, kind = machine.metadata, ScalewayAppleSiliconMachine
    pods = await FreshReader(client).list(Pod, label_selector=f"{RUNNER_LABEL}=true")
    working = busy_pods(pods.items, meta.name)
    if came := [pod for pod in working if pod.metadata.uid not in shown]:
        raise JobsCameError(came)
    given_up = ",".join(sorted(pod.metadata.uid for pod in working))
    # The uid in each write: a machine that was made anew under the name is another one, and is not meant.
    marks = {FORCE: given_up or None, **({RELEASE_POLICY: "terminate"} if terminate else {})}
    if any(meta.annotations.get(name) != value for name, value in marks.items()):
        marked = {"metadata": {"uid": meta.uid, "annotations": marks}}
        await client.merge_patch(kind, meta.name, marked, namespace=meta.namespace)
    owner = machine_owner(machine)
    if owner is not None:
        resource = machine_resource(owner.api_version.rpartition("/")[2])
        await client.delete(resource, owner.name, meta.namespace, uid=owner.uid)
    else:
        await client.delete(kind, meta.name, meta.namespace, uid=meta.uid)
