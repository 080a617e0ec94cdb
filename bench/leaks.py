"""Every kind of leak, brought about by the same steps that lead there in life: queued, claimed, handed out, and then lost."""

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.clients.github import GitHubJob, GitHubRunner, HookDelivery
from paddock.kube.builtin import Container, Node, Pod, PodSpec, ServiceAccount
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import OWNER_LABEL, POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.ledger import Claim, NewJob, Outcome
from paddock.runners.ledger import Pod as LedgerPod

from .runner_rig import LABEL, NAMESPACE, POOL, RunnerRig

__all__ = ["Leak", "Leaks"]

_ACCOUNT, _REPOSITORY = 1, "org1/app"
_ON_ITS_WAY = timedelta(minutes=1)
_IMMORTAL = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Leak:
    """`since` is when the ledgers began to disagree, `grace` how long they must before that is proof."""

    kind: str
    subject: str
    """What the heal will be about: the name of a Pod or of a ServiceAccount, a job's or a delivery's id."""
    since: datetime
    grace: timedelta
    how: str


class Leaks:
    """Each method leaves one leak behind. Pods are in pools of their own: no more than one of a pool is reaped a pass."""

    def __init__(self, rig: RunnerRig, settings: HealingSettings) -> None:
        self._rig = rig
        self._settings = settings
        self._numbers = itertools.count(1)
        self.reporting: dict[str, str] = {}
        """Pods whose runner goes on saying that nothing moved."""

    async def all(self) -> list[Leak]:
        # GitHub shows another runner in every list, because an empty one is not believed.
        self._rig.github.rows["of-somebody"] = GitHubRunner(runner_id=1, name="of-somebody", online=True, busy=False)
        await self._rig.client.create(Node(metadata=ObjectMeta(name="another-node")))
        ways: list[Callable[[], Awaitable[list[Leak]]]] = [
            self._stale_claim,
            self._completed_claim,
            self._never_registered,
            self._end_unheard,
            self._stamped_and_forgotten,
            self._finished_and_still_there,
            self._pod_deleted,
            self._pod_never_seen,
            self._queued_but_over,
            self._queued_but_started,
            self._queued_for_a_day,
            self._never_announced,
            self._undelivered,
            self._account_without_pod,
            self._runner_without_pod,
            self._on_a_node_that_is_gone,
        ]
        return [leak for way in ways for leak in await way()]

    # Claims and jobs

    async def _stale_claim(self) -> list[Leak]:
        dead = await self._rig.ledger.dispatchers.register("a dispatcher that died")
        pod = await self._pod()
        await self._claim(pod, dispatcher=dead)
        grace, how = self._settings.silent_dispatcher, "its dispatcher died before the mint"
        return [self._leak("stale_claim", f"Pod {pod.metadata.name}", grace, how)]

    async def _completed_claim(self) -> list[Leak]:
        pod = await self._pod()
        claim = await self._handed(pod, "in_progress")
        await self._rig.ledger.jobs.completed(
            _job_of(claim), account_id=_ACCOUNT, conclusion="cancelled", completed_at=self._now(), runner_name=None
        )
        how = "its job was cancelled before a runner had it"
        return [self._leak("completed_claim", f"Pod {pod.metadata.name}", self._settings.claim_grace, how)]

    async def _never_registered(self) -> list[Leak]:
        """One leak, healed in two steps: first the job is put back, then the Pod that hangs is reaped."""
        pod = await self._pod()
        claim = await self._handed(pod, "queued", runner="")
        self.reporting[pod.metadata.uid] = "listening"
        deadline, still = self._settings.registration_deadline, self._settings.progress_grace
        return [
            self._leak("orphan_requeued", f"job {claim.job_id}", deadline, "its runner never came online"),
            self._leak("hung_runner", pod.metadata.name, deadline + still, "the same Pod, in which nothing moves"),
        ]

    async def _end_unheard(self) -> list[Leak]:
        claim = await self._handed(await self._pod(), "completed")
        how = "its `completed` was lost"
        return [self._leak("orphan_completed", f"job {claim.job_id}", self._settings.registration_deadline, how)]

    async def _queued_but_over(self) -> list[Leak]:
        job = await self._queued(self._now())
        self._github(job, "completed", "of-somebody")
        return [self._leak("queued_completed", f"job {job}", self._settings.queued_verify, "it is over at GitHub")]

    async def _queued_but_started(self) -> list[Leak]:
        job = await self._queued(self._now())
        self._github(job, "in_progress", "of-somebody")
        return [self._leak("queued_started", f"job {job}", self._settings.queued_verify, "it runs at GitHub")]

    async def _queued_for_a_day(self) -> list[Leak]:
        """Announced almost a day ago: a whole one would be waited for too long."""
        left = timedelta(minutes=5)
        since = self._now() - self._settings.queued_give_up + left
        job = await self._queued(since)
        self._github(job, "queued", "")
        return [Leak("queued_gave_up", f"job {job}", since, self._settings.queued_give_up, "it waits for a day")]

    async def _never_announced(self) -> list[Leak]:
        job = next(self._numbers)
        self._rig.github.jobs[job] = GitHubJob(job_id=job, status="queued", labels=(LABEL,), created_at=self._now())
        return [self._leak("queued_found", f"job {job}", _ON_ITS_WAY, "GitHub never sent its `queued`")]

    async def _undelivered(self) -> list[Leak]:
        guid = f"guid-{next(self._numbers)}"
        attempt = HookDelivery(
            delivery_id=1, guid=guid, delivered_at=self._now(), redelivery=False, status_code=503, event="workflow_job"
        )
        self._rig.github.attempts.append(attempt)
        return [self._leak("redelivered", f"delivery {guid}", timedelta(), "we answered 503")]

    # Pods

    async def _stamped_and_forgotten(self) -> list[Leak]:
        pod = await self._pod()
        claim = await self._claim(pod)
        await self._assign(pod)
        await self._rig.ledger.claims.release(claim, by="claims", why="stale")
        how = "assigned, then its dispatcher died"
        return [self._leak("orphaned_stamped_pod", pod.metadata.name, self._settings.assignment_grace, how)]

    async def _finished_and_still_there(self) -> list[Leak]:
        pod = await self._pod()
        claim = await self._handed(pod, "completed")
        await self._rig.ledger.jobs.completed(
            _job_of(claim),
            account_id=_ACCOUNT,
            conclusion="success",
            completed_at=self._now(),
            runner_name=_runner_of(pod),
        )
        self.reporting[pod.metadata.uid] = "done"
        how = "its job is over, and it does not end"
        return [self._leak("finished_job_pod", pod.metadata.name, self._settings.finished_grace, how)]

    async def _pod_deleted(self) -> list[Leak]:
        pod = await self._pod()
        await self._handed(pod, "in_progress")
        await self._rig.client.delete(Pod, pod.metadata.name, NAMESPACE, grace_period=0)
        how = "its Pod is deleted by hand, and a watch sees it"
        return [
            self._leak(kind, pod.metadata.name, timedelta(), how)
            for kind in ("pod_missing_claim", "orphaned_runner_session")
        ]

    async def _pod_never_seen(self) -> list[Leak]:
        """A Pod that no watch of this process ever showed: the sweep alone can find out."""
        name = f"{POOL}-unseen"
        pod = LedgerPod(f"uid-of-{name}", name)
        await self._handed(pod, "in_progress")
        settings = self._settings
        how = "its Pod vanished while nobody watched"
        return [
            self._leak("pod_missing_claim", name, settings.missing_grace + settings.missing_confirm, how),
            self._leak("orphaned_runner_session", name, settings.session_absence + settings.missing_confirm, how),
        ]

    async def _on_a_node_that_is_gone(self) -> list[Leak]:
        pod = await self._pod(node="a-node-that-is-gone", finalizers=("bench/agent",))
        await self._rig.client.delete(Pod, pod.metadata.name, NAMESPACE)
        going = await self._rig.client.get(Pod, pod.metadata.name, NAMESPACE)
        assert going.metadata.deletion_timestamp is not None
        how = "its Node went, and its agent's finalizer stayed"
        return [Leak("immortal_pod", pod.metadata.name, going.metadata.deletion_timestamp, _IMMORTAL, how)]

    # What is left of Pods

    async def _account_without_pod(self) -> list[Leak]:
        name = f"{POOL}-without-pod"
        meta = ObjectMeta(name=name, namespace=NAMESPACE, labels={POOL_LABEL: POOL})
        await self._rig.client.create(ServiceAccount(metadata=meta))
        return [self._leak("orphan_service_account", name, self._settings.assignment_grace, "its Pod is gone")]

    async def _runner_without_pod(self) -> list[Leak]:
        name = f"{POOL}-gone-0123abcd"
        self._rig.github.rows[name] = GitHubRunner(runner_id=2, name=name, online=False, busy=False)
        how = "minted and never handed out; looked for every 5 min"
        return [self._leak("offline_runner", f"runner {name}", self._settings.missing_grace, how)]

    # Steps

    def _now(self) -> datetime:
        return self._rig.clock.now()

    def _leak(self, kind: str, subject: str, grace: timedelta, how: str) -> Leak:
        return Leak(kind, subject, self._now(), grace, how)

    async def _pod(self, *, node: str = "another-node", finalizers: tuple[str, ...] = ()) -> Pod:
        number = next(self._numbers)
        name, labels = f"{POOL}-{number}-pod", {RUNNER_LABEL: "true", POOL_LABEL: f"{POOL}-{number}"}
        await self._rig.client.create(
            ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels))
        )
        made = await self._rig.client.create(
            Pod(
                metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels, finalizers=finalizers),
                spec=PodSpec(
                    containers=(Container(name=RUNNER, image="runner:1"),),
                    node_selector={"kubernetes.io/os": "darwin"},
                    node_name=node,
                    service_account_name=name,
                    restart_policy="Never",
                ),
            )
        )
        running = {"status": {"phase": "Running"}}
        await self._rig.client.merge_patch(Pod, name, running, NAMESPACE, subresource="status")
        return made

    async def _queued(self, since: datetime) -> int:
        job = next(self._numbers)
        await self._rig.ledger.jobs.enqueue(
            NewJob(
                job_id=job,
                account_id=_ACCOUNT,
                pool=POOL,
                platform="macos",
                vcpus=6,
                memory_mb=14_336,
                repository=_REPOSITORY,
                enqueued_at=since,
                label=LABEL,
            )
        )
        return job

    async def _claim(self, pod: Pod | LedgerPod, dispatcher: int | None = None) -> Claim:
        job = await self._queued(self._now())
        mine = pod if isinstance(pod, LedgerPod) else LedgerPod(pod.metadata.uid, pod.metadata.name)
        # This very job for this Pod, by the ledger's own admission: others wait that belong to other leaks.
        given = [job, mine.uid, mine.name, dispatcher, "dispatch", self._now()]
        claims = self._rig.ledger.claims
        (claim,) = await claims._ask("SELECT * FROM attempt_job(%s, %s, %s, %s, %s, %s)", given)
        assert claim.outcome is Outcome.CLAIMED, claim
        return claim

    async def _assign(self, pod: Pod) -> None:
        patch = {"metadata": {"labels": {OWNER_LABEL: "org1"}}}
        await self._rig.client.merge_patch(Pod, pod.metadata.name, patch, NAMESPACE)

    async def _handed(self, pod: Pod | LedgerPod, status: str, runner: str | None = None) -> Claim:
        """A Pod that was handed a runner; what GitHub says of its job from now on."""
        claim = await self._claim(pod)
        if isinstance(pod, Pod):
            await self._assign(pod)
        await self._rig.ledger.claims.commit(claim, _runner_of(pod))
        self._github(_job_of(claim), status, _runner_of(pod) if runner is None else runner)
        return claim

    def _github(self, job: int, status: str, runner: str) -> None:
        over = self._now() if status == "completed" else None
        self._rig.github.jobs[job] = GitHubJob(
            job_id=job,
            status=status,  # pyright: ignore[reportArgumentType]
            runner_name=runner,
            completed_at=over,
            conclusion="success" if over else None,
        )


def _job_of(claim: Claim) -> int:
    assert claim.job_id is not None
    return claim.job_id


def _runner_of(pod: Pod | LedgerPod) -> str:
    return f"{pod.name if isinstance(pod, LedgerPod) else pod.metadata.name}-mint"
