"""The Host controller: performs every recorded release, whether its machine still exists or not.

The order of effects and the crash windows are in docs/design; the decision is `paddock.hosts.release`.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from paddock.base.clock import rfc3339
from paddock.base.explanation import utc
from paddock.clients.scaleway import (
    BelowBillingFloor,
    ScalewayError,
)
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.controllers.context import ReconcileContext, without_key
from paddock.hosts.fenced_cloud import LeaseTooShortError
from paddock.hosts.first_contact import WINDOW
from paddock.hosts.names import Rename
from paddock.hosts.release import (
    GIVEN_UP,
    LIVES_TO_QUARANTINE,
    Abandon,
    Delete,
    Finish,
    MarkStarted,
    Reinstall,
    ReleaseStep,
    Remove,
    Wait,
    release_step,
)
from paddock.hosts.retirement import policy_reason
from paddock.kube.builtin import Node
from paddock.kube.conditions import set_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import Condition
from paddock.kube.status_writes import write_status

__all__ = ["HostReconciler"]

Host = ScalewayAppleSiliconHost
_STEPS_AT_A_TIME = 12
_WHEN_THE_CLOUD_FAILS = 60.0
_WHEN_LEASE_IS_SHORT = 2.0
_WHEN_DISPATCH_IS_AWAY = 30.0


class HostReconciler:
    """Takes the steps of a recorded release until it has to wait, or until the host is free again."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def __call__(self, request: Request) -> Result:
        for _ in range(_STEPS_AT_A_TIME):
            host = await self._context.fresh.get(Host, request.name, request.namespace)
            if host is None or host.spec.release is None:
                return Done()
            try:
                step = release_step(host, await self._context.look(host), self._context.clock.now())
                if step is None:
                    return Done()
                if isinstance(step, Wait):
                    await self._tell(host, "Waiting", step.reason)
                    return RequeueAfter(step.seconds)
                if isinstance(step, Remove) and host.spec.ended_jobs:
                    # The Host is all that knows of them: it outlives its server until dispatch has written them down.
                    await self._remove_node(host)
                    await self._tell(
                        host, "Waiting", "its server is gone; it goes when dispatch has the jobs that ended with it"
                    )
                    return RequeueAfter(_WHEN_DISPATCH_IS_AWAY)
                await self._take(host, step)
            except LeaseTooShortError:
                return RequeueAfter(_WHEN_LEASE_IS_SHORT)
            except ScalewayError as error:
                message = f"the cloud did not do what the release needs, it is tried again in {_WHEN_THE_CLOUD_FAILS:.0f} s: {error}"
                self._context.recorder.record(host, "Warning", "ReleaseFailed", str(error))
                await self._tell(host, "ReleaseFailed", message)
                return RequeueAfter(_WHEN_THE_CLOUD_FAILS)
        return RequeueAfter(1.0)

    async def _take(self, host: Host, step: ReleaseStep) -> None:
        context, zone, server_id = self._context, host.spec.zone, host.spec.server_id
        release = host.spec.release
        assert release is not None
        now = context.clock.now()
        match step:
            case Rename(to, _):
                if release.policy == "pool" and release.wipe != "started":
                    await context.image_of(host, release.os_family)  # fails before the host is parked, not after
                await context.fenced_cloud.rename(zone, server_id, to)
            case Reinstall(family):
                image = await context.image_of(host, family)
                # Recorded before it is asked for: died in between, it is asked for again after a while.
                await context.patch_host(host, {"release": {"wipe": "requested", "wipeRequestedAt": rfc3339(now)}})
                await context.fenced_cloud.reinstall(zone, server_id, image)
                context.recorder.record(host, "Normal", "Releasing", "the wipe of the disk was asked for")
            case MarkStarted():
                await self._remove_node(host)  # before the write: died in between, it is seen and removed again
                await context.patch_host(host, {"release": {"wipe": "started"}} | without_key(host))
                await self._tell(host, "Wiping", "the disk is being wiped; the host is free again when that is done")
            case Finish():
                await self._remove_node(host)
                await self._finish(host, now)
            case Delete(then):
                await self._delete(host, then)
            case Remove():
                await self._remove_node(host)
                context.recorder.record(host, "Normal", "Deleted", "the server does not exist any more")
                await self._remove(host)
            case Abandon(reason):
                context.recorder.record(host, "Warning", "ReleaseAbandoned", reason)
                # Others may install it anew, unseen by us: the key of the disk that we knew says nothing any more. Died in
                # between: the release is still recorded, and this is repeated.
                host = await self._save(host, {"hostKey": None, "firstContact": None}, guarded=True)
                await context.free_host(host)
            case Wait():
                pass

    async def _finish(self, host: Host, now: datetime) -> None:
        """Forget the old disk's host key and open the window for the new one, then free the host in one write; the count may follow later or never.

        The key goes first: a freed host that still pins it would refuse its next tenant. Both writes are made in the
        version that was judged. Died in between: the release is still recorded, and this is repeated.
        """
        context = self._context
        asked = host.spec.release.wipe_requested_at if host.spec.release is not None else None
        evidence = f"the wipe that was asked for at {utc(asked)} ended" if asked else "its wipe ended"
        begun = {"openedAt": rfc3339(now), "until": rfc3339(now + WINDOW), "evidence": evidence, "seenAt": None}
        host = await self._save(host, {"hostKey": None, "firstContact": begun}, guarded=True)
        context.bootstrapper.forgive(host)
        host = await self._judge_record(host)
        await context.free_host(host)
        context.recorder.record(host, "Normal", "Released", "wiped and back in the pool")
        await self._save(host, {"history": {"releases": host.status.history.releases + 1}})

    async def _judge_record(self, host: Host) -> Host:
        """An ordinary end clears the record; too many lives that were given up in a row put the host aside.

        Before it is freed: died in between, the release is still recorded, and this is repeated with the same outcome.
        """
        lives, release = host.status.history.failed_lives, host.spec.release
        if release is None or not lives:
            return host
        if release.reason not in GIVEN_UP:
            return await self._save(host, {"history": {"failedLives": 0}}, guarded=True)
        if lives < LIVES_TO_QUARANTINE or host.spec.quarantine:
            return host
        why = f"given up in {lives} lives in a row, the last time because: {release.message or release.reason}"
        self._context.recorder.record(host, "Warning", "Quarantined", why)
        quarantines = host.status.history.quarantines + 1
        host = await self._save(host, {"history": {"quarantines": quarantines}}, guarded=True)
        retire = policy_reason(quarantines, self._context.settings.retire_after_quarantines)
        return await self._context.patch_host(host, {"quarantine": why} | ({"retire": retire} if retire else {}))

    async def _delete(self, host: Host, then: datetime | None) -> None:
        context, zone, server_id = self._context, host.spec.zone, host.spec.server_id
        if then is not None:
            # Asked to delete it now, the cloud would do the same; flagged, it says so itself on the next look.
            await context.fenced_cloud.schedule_deletion(zone, server_id)
            message = f"under its monthly commitment the deletion takes effect on {utc(then)}"
            context.recorder.record(host, "Normal", "DeletionScheduled", message)
            return
        outcome = await context.fenced_cloud.delete(zone, server_id)
        if isinstance(outcome, BelowBillingFloor):
            # Either shape of the 412 ends here. Died before the schedule: the next pass is refused again, and schedules.
            await context.fenced_cloud.schedule_deletion(zone, server_id)
            context.recorder.record(host, "Normal", "DeletionScheduled", outcome.message)
        else:
            context.recorder.record(host, "Normal", "Deleting", "the server is given back to the cloud")

    async def _remove_node(self, host: Host) -> None:
        """The Node ends with the disk of its Mac, and not before: until then it is the fence that keeps work away.

        Only a Node that says itself that it is of this server; or says nothing, while its machine is no more.
        """
        context, claim, release = self._context, host.spec.claim, host.spec.release
        names = {release.cloud_name if release is not None else "", claim.machine_name if claim is not None else ""}
        for name in sorted(names - {""}):
            node = await context.fresh.get(Node, name)
            if node is None:
                continue
            server = node.spec.provider_id.rpartition("/")[2]
            if not server and claim is not None:
                machine = await context.fresh.get(ScalewayAppleSiliconMachine, name, claim.machine_namespace)
                ends = machine is None or machine.metadata.deletion_timestamp is not None
            else:
                ends = server == host.spec.server_id
            if ends:
                with suppress(NotFoundError):
                    await context.client.delete(Node, name, uid=node.metadata.uid)

    async def _remove(self, host: Host) -> None:
        try:
            await self._context.client.delete(Host, host.metadata.name, host.metadata.namespace, uid=host.metadata.uid)
        except NotFoundError:
            return

    async def _tell(self, host: Host, reason: str, message: str) -> None:
        """Say where the release stands, if that changed."""
        said = Condition(type="Released", status="False", reason=reason, message=message)
        conditions = set_condition(host.status.conditions, said, self._context.clock.now())
        status = replace(host.status, conditions=conditions)
        await write_status(self._context.client, host, status)

    async def _save(self, host: Host, status: dict[str, Any], *, guarded: bool = False) -> Host:
        patch: dict[str, Any] = {"status": status}
        if guarded:
            patch["metadata"] = {"resourceVersion": host.metadata.resource_version}
        return await self._context.client.merge_patch(
            Host, host.metadata.name, patch, namespace=host.metadata.namespace, subresource="status"
        )
