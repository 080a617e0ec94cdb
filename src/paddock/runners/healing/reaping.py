"""Deleting one Pod that is proven to be a leak, in the only order in which that is safe.

| # | step | dies, or fails, after it | healed by |
|---|---|---|---|
| 1 | fence (a claim that was won meanwhile is never overruled: the Pod is kept) | fence of a Pod that is there | the next pass finds the fence and judges anew |
| 2 | read Pod, claim, session, job and runner again; judge again | the same | the same |
| 3 | evidence into the heal ledger, as an intent; Event | intent and fence | the same |
| 4 | delete the Pod, with uid and resourceVersion as preconditions | Pod gone or going, fence, intent | `resume`: seen gone, the intent is closed |
| 5 | ask GitHub: was its runner at the job after all? Then it is a row in `kills` | intent and fence | `resume` asks |
| 6 | delete its ServiceAccount, with uid | ServiceAccount, maybe | the sweep of ServiceAccounts |
| 7 | Pod seen gone: session and claim end, the fence is lifted | fence of a Pod that is gone | `resume`; uids are never used twice, so it blocks no Pod |

Once the fence stands, the Pod wins no claim, and without a claim it is never answered: what was read in step 2 stays true.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.github import GitHub, GitHubError
from paddock.kube.builtin import Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, KubeError, NotFoundError
from paddock.kube.events import EventRecorder
from paddock.kube.reader import FreshReader
from paddock.runners.api import POOL_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.evidence import gather
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.observations import PodObservation, PodObserver
from paddock.runners.healing.verdicts.pod import KINDS, Reap, judge
from paddock.runners.healing.verdicts.pod_facts import HeldFact
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Fence, GivenUp, HeldPod, Ledger
from paddock.runners.ledger import Pod as LedgerPod

__all__ = ["BY", "AskAboutJobs", "Kept", "ReapContext", "Reaper"]

BY: Final = "healing"
"""Who raised a fence: the reaper goes on with its own alone, and leaves the operator's to the operator."""

AskAboutJobs = Callable[[Collection[int], str], Awaitable[Report]]
"""Asks GitHub about jobs that ran on a Pod that is gone (`OrphanedJobs.check`), and writes down itself what it healed."""

_LONGEST_ATTEMPT: Final = 120.0
"""From fence to delete, in seconds; well below `HealingSettings.claim_grace`."""
_LOG = get_logger("healing")


@dataclass(frozen=True, slots=True)
class Kept:
    """The Pod was left alone after all."""

    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapContext:
    """What the reaper, and the pass that finds leaks for it, read and act with."""

    ledger: Ledger
    client: Client
    github: GitHub
    clock: Clock
    namespace: str
    metrics: HealingMetrics
    events: EventRecorder | None = None
    ask: AskAboutJobs | None = None


class Reaper:
    """Takes a Pod away, or finds that it must stay. Every step may be repeated, by anybody, after anything."""

    def __init__(self, context: ReapContext, observations: PodObserver, settings: HealingSettings) -> None:
        self._ledger = context.ledger
        self._client = context.client
        self._reader = FreshReader(context.client)
        self._github = context.github
        self._observations = observations
        self._settings = settings
        self._clock = context.clock
        self._metrics = context.metrics
        self._namespace = context.namespace
        self._events = context.events
        self._ask = context.ask

    async def reap(self, seen: PodObservation, verdict: Reap) -> Healed | Kept:
        """Delete the Pod if it is still a leak of this kind when everything is read again. Raises what the ledger, the
        cluster or GitHub raise; whatever was done by then is found by the next pass.
        """
        name, uid = seen.name, seen.uid
        if seen.facts.held is HeldFact.DISPLACED and seen.claim is not None and not await self._let_go(seen, verdict):
            return Kept("alive_after_all", f"Pod {name} is no {verdict.kind} any more when looked at again")
        hold = await self._ledger.fences.raise_fence(
            LedgerPod(uid, name), by=BY, why=f"{verdict.kind}: {verdict.sentence}"
        )
        if isinstance(hold, HeldPod):
            return Kept("claim_won", f"Pod {name} won a claim while it was looked at")
        if hold.by != BY:
            return Kept("retiring", f"Pod {name} is being retired by {hold.by}")
        # Whoever finds the fence may take it for void after `claim_grace`: by then this attempt is long over.
        async with asyncio.timeout(_LONGEST_ATTEMPT):
            return await self._under(hold, name, uid, verdict)

    async def _under(self, hold: Fence, name: str, uid: str, verdict: Reap) -> Healed | Kept:
        """Steps 2 to 7, under the fence."""
        again = await self._observations.of_one(name, uid)
        if again is None:
            await self.gone(hold)
            return Kept("gone", f"Pod {name} ended by itself")
        final = judge(again.facts, self._settings)
        if not isinstance(final, Reap) or final.kind != verdict.kind:
            why = final.sentence
            await self.spare(hold, why)
            return Kept("alive_after_all", f"Pod {name} is no {verdict.kind} any more when looked at again: {why}")
        return await self._delete(again, final, hold)

    async def _let_go(self, seen: PodObservation, verdict: Reap) -> bool:
        """End a claim whose job went to another runner, so that the Pod can be fenced. It has no job to put back."""
        again = await self._observations.of_one(seen.name, seen.uid)
        if again is None or again.claim is None or again.facts.held is not HeldFact.DISPLACED:
            return False
        final = judge(again.facts, self._settings)
        if not isinstance(final, Reap) or final.kind != verdict.kind:
            return False
        why = f"{final.kind}: {final.sentence}"
        return await self._ledger.unconfirmed.release_displaced(again.claim, by=BY, why=why) is not None

    async def _delete(self, seen: PodObservation, verdict: Reap, fence: Fence) -> Healed | Kept:
        meta = seen.pod.metadata
        evidence = await gather(self._client, seen, verdict)
        seconds = max(0.0, (self._clock.now() - verdict.since).total_seconds())
        healed = Healed(verdict.kind, seen.name, f"Pod {seen.name}: {verdict.sentence}", evidence, seconds)
        await self._ledger.heals.intend(
            healed.kind,
            healed.subject,
            healed.sentence,
            pod_uid=seen.uid,
            job_id=seen.job_id,
            evidence=evidence,
            seconds=seconds,
        )
        if self._events is not None:
            self._events.record(seen.pod, "Warning", "Reaped", healed.sentence)
        account = await self._service_account(seen.pod)
        if await self._ledger.fences.of_pod(seen.uid) != fence:
            await self._ledger.heals.withdraw(verdict.kind, seen.uid)
            return Kept("unfenced", f"the fence of Pod {seen.name} was taken down: it may win a job, and is left alone")
        try:
            await self._client.delete(
                Pod, meta.name, self._namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        except NotFoundError:
            pass  # it went by itself in the same moment; its end is the same
        except ConflictError:
            # The cluster's news about the Pod is newer than ours: the proof is void, and is sought again from the start.
            await self._ledger.heals.withdraw(verdict.kind, seen.uid)
            await self.spare(fence, "it changed before it could be deleted")
            return Kept("changed", f"Pod {seen.name} changed in the last moment, and is looked at again")
        _LOG.warning("reaped a Pod", pod=seen.name, kind=verdict.kind, why=verdict.sentence)
        await self.count_if_alive(seen.uid, seen.name, seen.job_id)
        if account is not None:
            await self._delete_account(account)
        left = await self._reader.get(Pod, seen.name, self._namespace)
        if left is None or left.metadata.uid != seen.uid:
            await self.gone(fence)
        return healed

    async def gone(self, fence: Fence) -> None:
        """The fenced Pod is seen to be gone: what it held ends, its jobs are asked about, and the fence is lifted."""
        uid, why = fence.pod_uid, f"Pod {fence.pod_name} is gone"
        stopped = await self._ledger.recovery.pod_stopped(uid, self._clock.now(), by=BY, why=why)
        if stopped.unsettled and self._ask is not None:
            await self._ask([job.job_id for job in stopped.unsettled], uid)
        await self._ledger.fences.lift(fence, by=BY, why=why)

    async def spare(self, fence: Fence, why: str) -> None:
        """The Pod stays: nothing is left of the attempt."""
        for kind in KINDS:
            await self._ledger.heals.withdraw(kind, fence.pod_uid)
        await self._ledger.fences.lift(fence, by=BY, why=f"kept: {why}")

    async def count_if_alive(self, uid: str, name: str, job_id: int | None) -> None:
        """Ask GitHub once more, after the deed. The answer changes nothing but the count that must stay zero.

        Repeatable: a job is counted once, also where a process died between the deed and the question.
        """
        session = await self._ledger.sessions.of_pod(uid)
        job = await self._ledger.jobs.get(job_id) if job_id is not None else None
        if session is None or job is None:
            return  # it was never handed a runner, so no job ran on it
        registration = await self._ledger.registrations.of_runner(
            session.account_id, session.runner_name, job.repository
        )
        if registration is None:
            return
        try:
            found = await self._github.job(registration.installation_id, job.repository, job.job_id)
        except GitHubError as error:
            _LOG.warning("whether a reaped Pod was at a job is not known", pod=name, job=job_id, why=str(error))
            return
        if found.status != "in_progress" or found.runner_name != session.runner_name:
            return
        why = "its Pod was reaped, and after that GitHub says that its runner was at the job"
        killed = GivenUp(
            key=uid, at=self._clock.now(), path="reap", pod_uid=uid, pod_name=name, account=registration.login, why=why
        )
        if await self._ledger.kills.record([killed]):
            self._metrics.live_kills.inc()
        _LOG.error("a Pod was reaped while its job was in progress", pod=name, job=job_id)

    async def _service_account(self, pod: Pod) -> ServiceAccount | None:
        """The Pod's own ServiceAccount: of the same name, and marked as a runner's. Read before the Pod goes."""
        try:
            account = await self._reader.get(ServiceAccount, pod.metadata.name, self._namespace)
        except KubeError:
            return None  # the sweep of ServiceAccounts finds it
        return account if account is not None and POOL_LABEL in account.metadata.labels else None

    async def _delete_account(self, account: ServiceAccount) -> None:
        meta = account.metadata
        try:
            await self._client.delete(ServiceAccount, meta.name, self._namespace, uid=meta.uid)
        except NotFoundError:
            pass
        except KubeError as error:
            _LOG.warning("a ServiceAccount is left for its sweep", account=meta.name, problem=str(error))
