"""The RunnerPool controller: keeps as many warm runners as a pool asks for, and never ends one that a job uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from paddock.base.clock import rfc3339
from paddock.base.logs import get_logger
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.conditions import set_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.difference import merge_difference
from paddock.kube.errors import ApiError, ConflictError, NotFoundError, UnavailableError
from paddock.kube.objects import Condition, KubeObject
from paddock.kube.reader import CachedReader, FreshReader
from paddock.runners.api import FINALIZER, POOL_LABEL, RunnerPool
from paddock.runners.api.dispatch_label import had_label_since, label_keeper
from paddock.runners.pools.admission import share_a_fleet
from paddock.runners.pools.effects import PoolContext, PoolEffects
from paddock.runners.pools.memory import PoolMemory
from paddock.runners.pools.messages import troubled
from paddock.runners.pools.observation import PoolObservation, looks_idle
from paddock.runners.pools.plan import GonePool, PoolPlan, plan
from paddock.runners.pools.pod_names import POOL_UID
from paddock.runners.pools.pod_predicates import deleting, failed_to_start, of_pool
from paddock.runners.pools.retirement import RetirementUnavailableError

__all__ = ["PoolCaches", "PoolContext", "PoolReconciler", "between_looks", "its_pool"]

_NODES_ASKED = 10
_REFUSED_AGAIN = 30.0
_REST_PER_POD = 0.005
_SHORTEST_REST, _LONGEST_REST = 1.0, 10.0
log = get_logger("runner pool")


def its_pool(obj: KubeObject) -> list[Request]:
    """The pool of a runner's Pod or account, by the label: neither is its dependent."""
    pool = obj.metadata.labels.get(POOL_LABEL)
    return [Request(obj.metadata.namespace, pool)] if pool else []


def between_looks(pods: int) -> float:
    """For how many seconds a pool of so many Pods is left alone after a look at it.

    A look is at all of its Pods, and every job changes some Pod a dozen times: a look for each change would cost a pool of
    thousands more than all else. It is little beside the boot of a VM, and what happens after a quiet while is seen at once.
    """
    return min(_LONGEST_REST, max(_SHORTEST_REST, _REST_PER_POD * pods))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCaches:
    """What is watched: Pods with `RUNNER_LABEL`, all Nodes, all RunnerPools."""

    pods: CachedReader[Pod]
    nodes: CachedReader[Node]
    pools: CachedReader[RunnerPool]


class PoolReconciler:
    """Looks at its cache to see whether there is anything to do, and at the server before it does it.

    A live Pod is deleted only after `RetirementApi.retire` named its uid; if the ledger cannot be asked, all of them stay and the
    Ready condition says so. It deletes what it made and what it retired; Pods that cannot end and accounts without a Pod are
    healing's (docs/design/healing.md). It is called for pools, for their Pods (`its_pool`) and should be for the pools of a Node that is cordoned,
    deleted, or gets healthy. Any number of workers may call it, each for another pool.
    """

    def __init__(self, context: PoolContext, caches: PoolCaches) -> None:
        self._client = context.client
        self._fresh = FreshReader(context.client)
        self._pods = caches.pods
        self._nodes = caches.nodes
        self._pools = caches.pools
        self._settings = context.settings
        self._clock = context.clock
        self._memory = PoolMemory(context.clock, context.settings)
        self._effects = PoolEffects(context, self._memory)

    @property
    def start_timeouts(self) -> Mapping[str, int]:
        """Pods that did not start in time, by pool, since this process began."""
        return self._memory.start_timeouts

    async def __call__(self, request: Request) -> Result:
        pool = await self._fresh.get(RunnerPool, request.name, request.namespace)
        if pool is None:
            return await self._without_pool(request)
        ending = pool.metadata.deletion_timestamp is not None
        if FINALIZER not in pool.metadata.finalizers:
            if ending:
                return Done()  # it is let go already; what is left of it is its dependents' business
            pool = await self._hold(pool)
        cached = [pod for pod in self._pods.list(pool.metadata.namespace) if of_pool(pod, pool)]
        self._remember_leaving(pool.metadata.name, cached)
        from_cache = plan(self._seen(pool, cached))
        if not ending and not self._worth_a_look(pool, cached, from_cache):
            await self._tell(pool, from_cache, from_cache.conditions)
            return self._again(from_cache)
        return await self._work(pool)

    def _remember_leaving(self, pool: str, pods: list[Pod]) -> None:
        for pod in pods:
            if deleting(pod):
                self._memory.leaves(pool, pod, pod.metadata.deletion_timestamp or self._clock.now())

    async def _hold(self, pool: RunnerPool) -> RunnerPool:
        """The finalizer comes before the first Pod: a deletion must never take Pods along that run a job."""
        meta = pool.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": [*meta.finalizers, FINALIZER]}}
        return await self._client.merge_patch(RunnerPool, meta.name, patch, meta.namespace)

    def _worth_a_look(self, pool: RunnerPool, cached: list[Pod], from_cache: PoolPlan) -> bool:
        missing = any(self._memory.left(pool.metadata.name, cached))
        nowhere = any(pod.spec.node_name and self._nodes.get(pod.spec.node_name) is None for pod in cached)
        # A Pod that came and went between two looks at the cache counts as on its way until the server is asked.
        overlooked = from_cache.blocked and self._memory.overlooked(pool.metadata.name)
        return from_cache.acts or missing or nowhere or overlooked or self._memory.look_due(pool.metadata.uid)

    # One look at the server, and what follows from it

    async def _work(self, pool: RunnerPool) -> Result:
        meta = pool.metadata
        selector = f"{POOL_LABEL}={meta.name}"
        # Pods first: every Pod in this list had its ServiceAccount before it was created, so one that the second list does
        # not show is gone.
        listed = (await self._fresh.list(Pod, meta.namespace, label_selector=selector)).items
        pods = [pod for pod in listed if of_pool(pod, pool)]
        accounts = (await self._fresh.list(ServiceAccount, meta.namespace, label_selector=selector)).items
        named = {account.metadata.name for account in accounts}
        homeless = frozenset(pod.metadata.uid for pod in pods if pod.metadata.name not in named)
        gone = await self._absent_nodes(pods)
        self._memory.looked(meta.uid)
        self._memory.listed(meta.name, listed)
        self._remember_leaving(pool.metadata.name, pods)
        # From here to the reservations in `create` nothing is awaited but what belongs to other Pods of this pool, and
        # the plan is made anew right before them where another pool is in the fleet, so two of them never count on the same
        # place.
        decided = plan(self._seen(pool, pods, gone, homeless))
        conditions = await self._act(pool, decided, pods, listed, accounts, gone, homeless)
        orphans = [pod for pod in listed if not of_pool(pod, pool)]
        conditions = _refused(conditions, await self._tidy(Request(meta.namespace, meta.name), orphans))
        ending = meta.deletion_timestamp is not None
        # A creation whose answer was lost may still arrive; it is waited for, or its Pod would outlive its pool.
        if ending and not pods and not self._memory.expects(meta.name):
            await self._let_go(pool)
            return Done()
        await self._tell(pool, decided, conditions)
        if conditions is not decided.conditions:
            reason = conditions[0].reason
            later = reason == "CreateFailed" or (reason == "ChangeRefused" and not decided.blocked)
            return RequeueAfter(_REFUSED_AGAIN if later else self._settings.blocked)
        return self._again(decided, ending=ending)

    async def _without_pool(self, request: Request) -> Result:
        """The pool is gone past its finalizer, which a person took off by hand, and Pods of it may be left."""
        selector = f"{POOL_LABEL}={request.name}"
        listed = (await self._fresh.list(Pod, request.namespace, label_selector=selector)).items
        stuck = await self._tidy(request, listed)
        await self._effects.report_left(request.name, listed)
        if stuck is not None:
            raise stuck
        if any(POOL_UID in pod.metadata.annotations for pod in listed):
            return RequeueAfter(self._settings.draining)
        self._memory.forget(request.name)
        return Done()

    async def _tidy(self, request: Request, orphans: list[Pod]) -> ApiError | None:
        """See off Pods that we made for a pool that is no more, as a deleted pool does with its own: what has ended is
        reported and deleted, what the ledger calls idle is let go, and what is busy goes on to its end. Gives back what the
        server refused.
        """
        ours = [pod for pod in orphans if POOL_UID in pod.metadata.annotations]
        if not ours:
            return None
        self._remember_leaving(request.name, ours)
        gone = GonePool(name=request.name, pods=ours, held=self._memory.held())
        stuck = await self._effects.reap(gone.reap, gone)
        try:
            stuck = await self._effects.retire(gone.retire, gone) or stuck
        except RetirementUnavailableError as error:
            log.warning("Pods of a pool that is gone stay for now", pool=request.name, error=str(error))
        return stuck

    async def _act(
        self,
        pool: RunnerPool,
        decided: PoolPlan,
        pods: list[Pod],
        listed: list[Pod],
        accounts: list[ServiceAccount],
        gone: frozenset[str],
        homeless: frozenset[str],
    ) -> tuple[Condition, ...]:
        """Do what was decided; what to say about it. What cannot be reached raises, and is tried again soon; what is refused
        of one Pod keeps no other, and is said.
        """
        effects = self._effects
        conditions = decided.conditions
        stuck = await effects.reap(decided.reap, pool)
        await effects.report_left(pool.metadata.name, listed)
        await effects.hand_over_left(accounts, pods)
        try:
            stuck = await effects.retire(decided.retire, pool) or stuck
        except RetirementUnavailableError as error:
            text = f"{len(decided.retire)} Pods should go and stay, because the ledger cannot be asked whether they are in use"
            conditions = (troubled(conditions[0], "LedgerUnavailable", f"{text}: {error}"), *conditions[1:])
        stuck = await effects.mark(decided.mark) or stuck
        conditions = _refused(conditions, stuck)
        try:
            if decided.create:
                # Where no other pool is in the fleet, nobody can have taken a place meanwhile; and where nothing was let go
                # and nothing failed to start, no Node has come to be avoided.
                blamed = bool(decided.retire) or any(failed_to_start(pod) for pod in decided.reap)
                still = not blamed and not self._siblings(pool)
                await effects.create(pool, decided if still else plan(self._seen(pool, pods, gone, homeless)))
        except UnavailableError:
            raise
        except ApiError as error:
            text = f"a Pod could not be created: {error}"
            conditions = (troubled(conditions[0], "CreateFailed", text), *conditions[1:])
        return conditions

    async def _absent_nodes(self, pods: list[Pod]) -> frozenset[str]:
        """The Nodes of these Pods that do not exist, each proven by a read of its own; a few at a time.

        Only of Pods that would be let go for it: a busy one, and one that is leaving, may stay for long, and its Node would be
        asked for in every pass in place of others.
        """
        held = self._memory.held()
        named = {pod.spec.node_name for pod in pods if pod.spec.node_name and looks_idle(pod, held)}
        unknown = sorted(named - {n.metadata.name for n in self._nodes.list()})
        return frozenset([name for name in unknown[:_NODES_ASKED] if await self._fresh.get(Node, name) is None])

    def _seen(
        self,
        pool: RunnerPool,
        pods: list[Pod],
        gone: frozenset[str] = frozenset(),
        homeless: frozenset[str] = frozenset(),
    ) -> PoolObservation:
        mine, namespace = pool.metadata.name, pool.metadata.namespace
        others = [each for each in self._pools.list(namespace) if each.metadata.name != mine]
        keeper = label_keeper([pool, *others], pool.spec.dispatch_label)
        everyone = self._siblings(pool)
        names = {each.metadata.name for each in everyone}
        cached = self._pods.list(namespace)
        self._memory.cached(cached)
        theirs = [pod for pod in cached if pod.metadata.labels.get(POOL_LABEL) in names] if names else []
        return PoolObservation(
            pool=pool,
            pods=pods,
            nodes={node.metadata.name: node for node in self._nodes.list()},
            now=self._clock.now(),
            settings=self._settings,
            siblings=everyone,
            sibling_pods=theirs,
            reserved=self._memory.reserved(pool, (*pods, *theirs)),
            held=self._memory.held(),
            gone=gone,
            homeless=homeless,
            failures=self._memory.failures(pool),
            label_keeper=keeper if keeper is not None and keeper.metadata.name != mine else None,
        )

    def _siblings(self, pool: RunnerPool) -> list[RunnerPool]:
        """The other pools of its fleet."""
        mine, namespace = pool.metadata.name, pool.metadata.namespace
        return [
            each for each in self._pools.list(namespace) if each.metadata.name != mine and share_a_fleet(pool, each)
        ]

    async def _let_go(self, pool: RunnerPool) -> None:
        """The last Pod is gone on a complete read: nothing is left to protect. Accounts that are the pool's go with it."""
        meta = pool.metadata
        rest = [each for each in meta.finalizers if each != FINALIZER]
        patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": rest or None}}
        try:
            await self._client.merge_patch(RunnerPool, meta.name, patch, meta.namespace)
        except NotFoundError:
            return
        self._memory.forget(meta.name)

    async def _tell(self, pool: RunnerPool, decided: PoolPlan, conditions: tuple[Condition, ...]) -> None:
        """Write the status if it says anything new. The autoscaler writes other fields of it, so the version is a
        precondition: conditions are one list, and the last writer must not undo the first.
        """
        counts, meta = decided.counts, pool.metadata
        all_of_them = pool.status.conditions
        for condition in conditions:
            all_of_them = set_condition(
                all_of_them, replace(condition, observed_generation=meta.generation), self._clock.now()
            )
        status = replace(
            pool.status,
            replicas=counts.living,
            idle=counts.idle,
            busy=counts.busy,
            starting=counts.starting,
            stale=counts.stale,
            selector=f"{POOL_LABEL}={meta.name}",
            dispatch_label=pool.spec.dispatch_label,
            dispatch_label_since=self._label_since(pool),
            observed_generation=meta.generation,
            conditions=all_of_them,
        )
        change = merge_difference(pool.status, status)
        if change or self._status_ages(pool):
            # Whoever reads the counts must know how old they are: where nothing changes they are still of this minute.
            change["observedAt"] = rfc3339(self._clock.now().replace(microsecond=0))
            patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": change}
            try:
                await self._client.merge_patch(RunnerPool, meta.name, patch, meta.namespace, subresource="status")
            except (ConflictError, NotFoundError):
                return  # another client wrote first; its write brings the pool back here

    def _status_ages(self, pool: RunnerPool) -> bool:
        """Whether a reader would take the counts for old, though they are right."""
        at = pool.status.observed_at
        return at is None or (self._clock.now() - at).total_seconds() >= self._settings.recheck - 1.0

    def _label_since(self, pool: RunnerPool) -> datetime:
        return min(had_label_since(pool), self._clock.now()).replace(microsecond=0)

    def _again(self, decided: PoolPlan, *, ending: bool = False) -> Result:
        settings = self._settings
        wait = settings.blocked if decided.acts or decided.blocked else settings.recheck
        if ending and not decided.acts:
            wait = settings.draining
        if decided.due is not None:
            wait = min(wait, max(1.0, decided.due.total_seconds()))
        return RequeueAfter(wait)


def _refused(conditions: tuple[Condition, ...], stuck: ApiError | None) -> tuple[Condition, ...]:
    """What to say where the server refuses to delete or change a Pod: until a person helps, it is tried again and again."""
    if stuck is None:
        return conditions
    text = f"a Pod that should go could not be deleted or told to drain, and is tried again: {stuck}"
    return (troubled(conditions[0], "ChangeRefused", text), *conditions[1:])
