"""Recording a release on a Host: the one write after which a host is on its way home, whatever happens to us."""

from collections.abc import Sequence

from paddock.base.clock import rfc3339
from paddock.hosts.api import EndedJob, ScalewayAppleSiliconHost
from paddock.hosts.controllers.context import ReconcileContext
from paddock.hosts.ended_jobs import with_ended_jobs

__all__ = ["record_release"]


async def record_release(
    context: ReconcileContext,
    host: ScalewayAppleSiliconHost,
    *,
    policy: str,
    prefix: str,
    family: str,
    reason: str,
    message: str,
    cloud_name: str,
    ended: Sequence[EndedJob] = (),
) -> None:
    """Write it under the version of the Host that was judged; ConflictError when anything about it changed since.

    `cloud_name` is the name by which the caller knows the host to be ours, never just the one that the cloud shows:
    whoever renamed a host took it, and a release that accepts that name would wipe what is theirs.
    `ended` are the jobs that this ends: one write records both, so that neither is there without the other.
    The Host controller does everything else. Recording a release that is recorded already is the caller's mistake.
    """
    release = {
        # A host that is to be retired ends with whoever has it: nobody else gets it.
        "policy": "terminate" if host.spec.retire else policy,
        "reason": reason,
        "message": message,
        "poolPrefix": prefix,
        "osFamily": family,
        "cloudName": cloud_name,
        "requestedAt": rfc3339(context.clock.now()),
    }
    await context.patch_host(host, {"release": release} | with_ended_jobs(host, ended))
