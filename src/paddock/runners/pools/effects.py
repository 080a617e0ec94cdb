"""What the pool controller does to the cluster, one repeatable effect at a time, and the windows between them."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from paddock.base.clock import Clock, rfc3339
from paddock.base.logs import get_logger
from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ApiError, ConflictError, NotFoundError, TransportError, UnavailableError
from paddock.kube.events import EventRecorder
from paddock.runners.api import DRAIN_ELIGIBLE_LABEL, RunnerPool
from paddock.runners.ledger import Pod as PodRef
from paddock.runners.pools.memory import PoolMemory
from paddock.runners.pools.observation import Retirement
from paddock.runners.pools.plan import GonePool, PoolPlan
from paddock.runners.pools.pod_names import DRAIN_SINCE, runner_name
from paddock.runners.pools.pod_predicates import deleting, ending_of, failed_to_start
from paddock.runners.pools.pod_template import owned_by_pod, pod_of, service_account_of
from paddock.runners.pools.retirement import RetirementApi, RetirementUnavailableError
from paddock.runners.pools.settings import PoolSettings

__all__ = ["PoolContext", "PoolEffects"]

log = get_logger("runner pool")
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContext:
    """What the pool controller acts with."""

    client: Client
    retirement: RetirementApi
    settings: PoolSettings
    recorder: EventRecorder
    clock: Clock
    rng: random.Random


class PoolEffects:
    """Every effect can be repeated, and names the uid of what it acts on."""

    def __init__(self, context: PoolContext, memory: PoolMemory) -> None:
        self._client = context.client
        self._retirement = context.retirement
        self._settings = context.settings
        self._recorder = context.recorder
        self._clock = context.clock
        self._rng = context.rng
        self._memory = memory

    # What has ended

    async def reap(self, pods: Sequence[Pod], pool: RunnerPool | GonePool) -> ApiError | None:
        """Keep the evidence, report the stop, delete: in this order, in one hand, for each Pod that has ended.

        A Pod that the server refuses to delete does not keep the others: the refusal is given back, to be told.

        Reported first, because the Pod is all that is left to report from. If the report fails, the Pod goes all the
        same, or an unreachable ledger would fill the cluster with dead Pods: its session and claim then end by reconciliation, which
        finds that their Pod is missing (docs/design/healing.md). Dying between report and delete repeats the report.
        """
        stuck: ApiError | None = None
        for start in range(0, len(pods), _AT_ONCE):
            batch = pods[start : start + _AT_ONCE]
            results = await asyncio.gather(*(self._reap(pod, pool) for pod in batch), return_exceptions=True)
            for result in results:
                if isinstance(result, ApiError) and not isinstance(result, UnavailableError):
                    stuck = result
                elif isinstance(result, BaseException):
                    raise result
        return stuck

    async def _reap(self, pod: Pod, pool: RunnerPool | GonePool) -> None:
        ending = ending_of(pod, self._clock.now())
        log.info(
            "a runner ended",
            pod=pod.metadata.name,
            node=pod.spec.node_name,
            phase=pod.status.phase,
            exit_code=ending.exit_code,
            reason=ending.reason,
            message=ending.message,
            ended_at=rfc3339(ending.at),
        )
        if pod.status.phase == "Failed" or ending.abnormal:
            self._recorder.record(pod, "Warning", "RunnerFailed", f"on {pod.spec.node_name}: {ending.sentence}")
        try:
            await self._retirement.stopped(_ref(pod), ending.at, why=f"the Pod {ending.sentence}")
        except RetirementUnavailableError as error:
            self._memory.leaves(_name(pool), pod, ending.at)  # and is reported when the ledger is back
            log.warning(
                "a stop could not be reported; the Pod goes all the same", pod=pod.metadata.name, why=str(error)
            )
        else:
            self._memory.told(pod.metadata.uid)
        # The uid suffices: a Pod that has ended never begins again.
        await self._delete(pod)
        # Behind the delete: a Pod that the server refuses to delete comes here again, and must not count again.
        if isinstance(pool, RunnerPool) and failed_to_start(pod):
            self._memory.failed(pool, pod.spec.node_name, self._clock.now())

    async def report_left(self, pool: str, present: Sequence[Pod]) -> None:
        """Report Pods that were being deleted and are gone: whatever the ledger still keeps for them ends. `present` are all
        Pods with the pool's name, whichever life of it they are of.
        """
        for ref, at in self._memory.left(pool, present):
            try:
                await self._retirement.stopped(ref, at, why="the Pod was deleted and is gone", ended=False)
            except RetirementUnavailableError as error:
                log.warning("a stop could not be reported", pod=ref.name, why=str(error))
                return  # kept in mind, and reported the next time
            self._memory.reported(ref.uid)

    # What is let go

    async def retire(self, retirements: Sequence[Retirement], pool: RunnerPool | GonePool) -> ApiError | None:
        """Fence, then delete what was fenced. RetirementUnavailableError: the ledger could not be asked, what is left stays.

        As with `reap`, what the server refuses to delete does not keep the others: the refusal is given back. The Pod stays
        fenced, gets no job, and is asked about again.

        The fence stays up over the delete: a Pod that is being deleted could still win a claim from a dispatcher whose
        watch is late. So the stop of these Pods is reported when they are gone, not before.
        Dying after the fence leaves an idle Pod that gets no job: its next poll is answered 410, it ends, and is reaped.
        """
        stuck: ApiError | None = None
        name = _name(pool)
        by_reason: dict[str, list[Retirement]] = {}
        for each in retirements:
            by_reason.setdefault(each.why, []).append(each)
        for why, group in by_reason.items():
            free = await self._retirement.retire([_ref(each.pod) for each in group], why=why)
            for each in group:
                if each.pod.metadata.uid not in free:
                    self._memory.hold(each.pod.metadata.uid)
                    log.info("kept: the ledger says that it is in use", pod=each.pod.metadata.name, wanted=why)
                    continue
                log.info("let go", pod=each.pod.metadata.name, kind=each.kind, why=why)
                self._memory.leaves(name, each.pod, self._clock.now())
                # The uid suffices here, too: the fence is on it, and whatever changes on the Pod now, it gets no job.
                try:
                    await self._delete(each.pod)
                except UnavailableError:
                    raise
                except ApiError as error:
                    stuck = error
                    continue
                # Behind the delete: what is refused comes here again, and must not be held against its Node again.
                if isinstance(pool, RunnerPool):
                    self._blame(pool, each)
        return stuck

    def _blame(self, pool: RunnerPool, each: Retirement) -> None:
        if each.failed_on:
            self._memory.failed(pool, each.failed_on, self._clock.now(), each.waited)
        if each.kind in {"start_timeout", "unschedulable", "runner_not_started"}:
            self._memory.start_timeouts[pool.metadata.name] += 1
            self._recorder.record(pool, "Warning", "RunnerDidNotStart", f"{each.pod.metadata.name}: {each.why}")

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except (NotFoundError, ConflictError):
            return  # gone, or another Pod of that name, which was not judged

    async def mark(self, pods: Sequence[Pod]) -> ApiError | None:
        """Tell idle, stale Pods to drain. Dispatch answers them 410 at their next poll, unless they win a job before.

        What the server refuses to change is given back, as with `reap`.
        """
        stuck: ApiError | None = None
        for pod in pods:
            patch = {
                "metadata": {
                    "uid": pod.metadata.uid,
                    "labels": {DRAIN_ELIGIBLE_LABEL: "true"},
                    "annotations": {DRAIN_SINCE: rfc3339(self._clock.now())},
                }
            }
            try:
                await self._client.merge_patch(Pod, pod.metadata.name, patch, pod.metadata.namespace)
            except (NotFoundError, ConflictError):
                continue
            except UnavailableError:
                raise
            except ApiError as error:
                stuck = error
        return stuck

    # What is made

    async def create(self, pool: RunnerPool, plan: PoolPlan) -> None:
        """Make the Pods that are missing: ServiceAccount, Pod, and then the ServiceAccount becomes the Pod's.

        Dies after the ServiceAccount: it is the pool's and has no Pod; healing deletes it (`orphan_service_account`), or
        it goes with its pool. Dies after the Pod: the ServiceAccount is the pool's still, and the next look hands it over.
        The answer of either creation lost: the name is never used again, and the next look finds what there is. A Pod that
        the server refuses leaves nothing behind: its ServiceAccount is taken back here, by whoever made it a moment ago.
        """
        births = [runner_name(pool.metadata.name, self._rng) for _ in range(plan.create)]
        for name in births:
            self._memory.reserve(pool, name)
        # The first alone: what the server refuses is asked for once, and not by a whole batch.
        for batch in ([births[:1]] if births else []) + [
            births[n : n + _AT_ONCE] for n in range(1, len(births), _AT_ONCE)
        ]:
            outcomes = await asyncio.gather(*(self._create(pool, plan, name) for name in batch), return_exceptions=True)
            failed = {name: error for name, error in zip(batch, outcomes, strict=True) if error is not None}
            if not failed:
                continue
            for name in (*failed, *births[births.index(batch[-1]) + 1 :]):
                # What was not answered may have been made: its reservation runs out by itself. The rest was not.
                if not isinstance(failed.get(name), (TransportError, UnavailableError)):
                    self._memory.release(name)
            raise _worst(failed.values())

    async def _create(self, pool: RunnerPool, plan: PoolPlan, name: str) -> None:
        namespace = pool.metadata.namespace
        account = await self._client.create(service_account_of(pool, name), ServiceAccount.RESOURCE)
        account_uid: str = account["metadata"]["uid"]
        try:
            pod = pod_of(pool, name, self._settings, avoid=plan.avoid)
            made = await self._client.create(pod, Pod.RESOURCE)
        except UnavailableError:
            raise  # the Pod may have been made all the same
        except ApiError:
            # Certainly not made. Otherwise a pool whose Pods are refused would leave an account behind at each try.
            with suppress(ApiError, TransportError):
                await self._client.delete(ServiceAccount, name, namespace, uid=account_uid)
            raise
        self._memory.made(name)
        await self._hand_over(name, namespace, account_uid, made["metadata"]["uid"])

    async def _hand_over(self, name: str, namespace: str, account_uid: str, pod_uid: str) -> None:
        """Make the Pod the ServiceAccount's only owner: garbage collection deletes it as soon as the Pod is gone."""
        patch = {"metadata": {"uid": account_uid, "ownerReferences": [owned_by_pod(name, pod_uid)]}}
        try:
            await self._client.merge_patch(ServiceAccount, name, patch, namespace)
        except (NotFoundError, ConflictError):
            return  # deleted already, or another one: the next look sees a Pod without its account and replaces it

    async def hand_over_left(self, accounts: Sequence[ServiceAccount], pods: Sequence[Pod]) -> None:
        """Finish a hand-over that a crash left undone. `accounts` were listed after `pods`, both fresh.

        An account without a Pod is not touched: `orphan_service_account` is healing's (docs/design/healing.md).
        """
        by_name = {pod.metadata.name: pod for pod in pods}
        for account in accounts:
            meta = account.metadata
            pod = by_name.get(meta.name)
            if pod is None or deleting(pod) or any(owner.uid == pod.metadata.uid for owner in meta.owner_references):
                continue
            await self._hand_over(meta.name, meta.namespace, meta.uid, pod.metadata.uid)


def _worst(errors: Iterable[BaseException]) -> BaseException:
    """Of several the one that says that the server is away: then the whole pass comes again soon."""
    every = list(errors)
    return next((error for error in every if isinstance(error, (TransportError, UnavailableError))), every[0])


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.metadata.uid, pod.metadata.name)


def _name(pool: RunnerPool | GonePool) -> str:
    return pool.name if isinstance(pool, GonePool) else pool.metadata.name
