"""The controller of profiles: keeps one pool for each row of a pool's table.

Create, change and delete are separate, each repeatable, each for one pool: dying between any two leaves some rows done, and
the next pass finds the rest. A creation whose answer was lost is found by its name and its owner. A pool whose owner is
deleted goes by this controller, and by the cluster's garbage collection where nobody is left to look.
"""

from typing import Final

from msgspec.structs import replace

from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.base.logs import get_logger
from paddock.kube.client import Client
from paddock.kube.conditions import set_condition, without_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.difference import merge_difference
from paddock.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError, UnavailableError
from paddock.kube.objects import Condition
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import CacheChange
from paddock.runners.api import PROFILE_OF_LABEL, RunnerPool, RunnerPoolSpec
from paddock.runners.pools.pod_names import REVISION
from paddock.runners.pools.profiles import PROFILES, made_from, plan_profiles, revision_of

__all__ = ["ProfileReconciler", "its_table", "table_changed"]

log = get_logger("profiles")
_EVERY: Final = 60.0
_WHEN_CHANGED: Final = 0.5


def its_table(pool: RunnerPool) -> list[Request]:
    """The pool whose table is meant: the pool itself, and the one that it was made from."""
    namespace = pool.metadata.namespace
    parent = pool.metadata.labels.get(PROFILE_OF_LABEL)
    return [Request(namespace, pool.metadata.name), *([Request(namespace, parent)] if parent else [])]


def table_changed(change: CacheChange[RunnerPool]) -> bool:
    """Whether a pool came, went, or has another spec, label, revision or owner; what its status says does not matter here."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _matters(old) != _matters(new)


class ProfileReconciler:
    """Looks at its cache to see whether there is a table at all, and at the server before it does anything."""

    def __init__(self, client: Client, pools: CachedReader[RunnerPool], clock: Clock) -> None:
        self._client = client
        self._fresh = FreshReader(client)
        self._pools = pools
        self._clock = clock

    async def __call__(self, request: Request) -> Result:
        known = self._pools.get(request.name, request.namespace)
        if known is not None and not known.spec.profiles and not self._has_some(known):
            return Done()
        pool = await self._fresh.get(RunnerPool, request.name, request.namespace)
        if pool is None:
            return Done()  # what was made from it is its dependents, which the cluster collects
        others = (await self._fresh.list(RunnerPool, request.namespace)).items
        decided = plan_profiles(pool, [each for each in others if each.metadata.name != request.name])
        said = decided.condition
        try:
            try:
                for made in decided.create:
                    await self._create(made)
                for mine, spec in decided.change:
                    await self._change(mine, spec, revision_of(pool))
                for gone in decided.delete:
                    await self._delete(gone)
            except (ConflictError, UnavailableError):
                raise
            except ApiError as error:
                said = Condition(type=PROFILES, status="False", reason="WriteRefused", message=_refused(error))
            if pool.metadata.deletion_timestamp is None:
                await self._say(pool, said)
        except ConflictError:
            return RequeueAfter(_WHEN_CHANGED)  # another client wrote since we read; judged anew
        return RequeueAfter(_EVERY) if pool.spec.profiles else Done()

    def _has_some(self, pool: RunnerPool) -> bool:
        said = any(each.type == PROFILES for each in pool.status.conditions)
        return said or bool(made_from(pool, self._pools.list(pool.metadata.namespace)))

    async def _create(self, pool: RunnerPool) -> None:
        try:
            await self._client.create(pool)
        except AlreadyExistsError:
            return  # made since we read: the next pass sees whose it is
        log.info("a profile has a pool", pool=pool.metadata.name, label=pool.spec.dispatch_label)

    async def _change(self, pool: RunnerPool, spec: RunnerPoolSpec, revision: str | None) -> None:
        meta = pool.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version, "annotations": {REVISION: revision}},
            "spec": merge_difference(pool.spec, spec),
        }
        try:
            await self._client.merge_patch(RunnerPool, meta.name, patch, namespace=meta.namespace)
        except NotFoundError:
            return
        log.info(
            "the pool of a profile was changed", pool=meta.name, fields=sorted(patch["spec"]), revision=revision or ""
        )

    async def _delete(self, pool: RunnerPool) -> None:
        """Its finalizer holds the pool until its busy Pods are done."""
        meta = pool.metadata
        try:
            await self._client.delete(RunnerPool, meta.name, meta.namespace, uid=meta.uid)
        except NotFoundError:
            return
        log.info("a profile was taken off", pool=meta.name, label=pool.spec.dispatch_label)

    async def _say(self, pool: RunnerPool, said: Condition | None) -> None:
        conditions = (
            without_condition(pool.status.conditions, PROFILES)
            if said is None
            else set_condition(pool.status.conditions, said, self._clock.now())
        )
        change = merge_difference(pool.status, replace(pool.status, conditions=conditions))
        if not change:
            return
        meta = pool.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": change}
        try:
            await self._client.merge_patch(RunnerPool, meta.name, patch, namespace=meta.namespace, subresource="status")
        except NotFoundError:
            return


def _refused(error: ApiError) -> str:
    return (
        f"the cluster refuses a pool of a profile, and it is asked again every {span(_EVERY)}: {error}; the operator needs to "
        "create, patch and delete runnerpools (deploy/rbac, the chart)"
    )


def _matters(pool: RunnerPool) -> object:
    meta = pool.metadata
    return (
        meta.generation,
        meta.deletion_timestamp,
        meta.labels.get(PROFILE_OF_LABEL),
        revision_of(pool),
        meta.owner_references,
        any(each.type == PROFILES for each in pool.status.conditions),
    )
