"""Jobs that run on a Mac without a Pod of this cluster: a `clusterctl move` or a restore takes the Mac along, and not its Pods. Pure."""

from collections.abc import Set as AbstractSet
from typing import Final

from paddock.base.explanation import utc
from paddock.clients.gateway.messages import PodReport, Stated
from paddock.gateway.bounds import Accepted
from paddock.gateway.pod_bounds import may_have_job

__all__ = ["OTHER_CLUSTER_VMS", "other_cluster_vms"]

OTHER_CLUSTER_VMS: Final = "OtherClusterVMs"
"""A Node's condition. Its reason counts the jobs."""


def other_cluster_vms(accepted: Accepted, bound: AbstractSet[str]) -> Stated:
    """The Node's condition. A VM that was handed a job, or of which nobody can tell, and whose Pod is not bound here, is a job,
    whichever cluster began it: who takes the Mac for idle would end it.
    """
    jobs = [_words(uid, pod) for uid, pod in sorted(accepted.pods.items()) if uid not in bound and may_have_job(pod)]
    if accepted.left_out:
        jobs.append(f"{accepted.left_out} more that the report could not name")
    if not jobs:
        return Stated(False, "NoJob", "no job of another cluster runs here")
    return Stated(
        True,
        "OneJob" if len(jobs) == 1 else f"{len(jobs)}Jobs",
        f"a job that another cluster began runs on: {', '.join(jobs)}; it keeps its seat, is let finish, and is removed then; "
        "to end it now, run `tart stop` with the VM's name on the Mac",
    )


def _words(uid: str, pod: PodReport) -> str:
    name = f"{pod.namespace}/{pod.name}" if pod.namespace and pod.name else uid
    since = pod.handed_at or pod.accepted_at
    return f"{name} (VM {pod.vm or 'unknown'}, since {utc(since) if since else 'an unknown time'})"
