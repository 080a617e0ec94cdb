"""What the four ledgers show of a Pod: read, and put into the few words that the verdict needs.

Pods are listed first, claims and sessions read afterwards: a claim that is made in between then protects its Pod, and a Pod
that is made in between is not looked at.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from msgspec import structs

from paddock.base.clock import Clock
from paddock.clients.github import GitHub, GitHubError, GitHubJob, GitHubRunner, RunnerPlace
from paddock.kube.builtin import Pod
from paddock.kube.reader import FreshReader
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL, POOL_LABEL, RUNNER_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Streaks
from paddock.runners.healing.facts import (
    held_of,
    job_of,
    left_by_its_dispatcher,
    life_of,
    listener_still_since,
    listens,
    machine_of,
    moves_of,
    poller_of,
    released_at,
    remembered_release,
    runner_of,
)
from paddock.runners.healing.pod_snapshot import CountPods, PodSnapshot
from paddock.runners.healing.runner_lists import RunnerLists
from paddock.runners.healing.verdicts.pod import waits_past_deadline
from paddock.runners.healing.verdicts.pod_facts import (
    HandedFact,
    HeldFact,
    MovesFact,
    PodFacts,
    PodLife,
    PollerFact,
    RunnerFact,
    RunnerRow,
    VmFact,
)
from paddock.runners.ledger import Completion, Fence, HeldPod, Ledger, ProgressMark, Session

__all__ = ["PodObservation", "PodObserver", "count_pods", "list_runner_pods", "pool_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """What our own ledger holds for a Pod."""

    claim: HeldPod | None = None
    session: Session | None = None
    fence: Fence | None = None
    mark: ProgressMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation(_Entries):
    """A Pod, what each ledger says about it, and the same in the verdict's words."""

    pod: Pod
    facts: PodFacts
    completion: Completion | None = None
    github_job: GitHubJob | None = None
    github_runner: GitHubRunner | None = None
    place: RunnerPlace | None = None
    """Where that runner is listed."""
    installation_id: int | None = None
    repository: str = ""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def runner_name(self) -> str:
        if self.session is not None:
            return self.session.runner_name
        return "" if self.claim is None else self.claim.runner_name or ""

    @property
    def job_id(self) -> int | None:
        """The job that the runner is known to execute, else the one that it was minted for."""
        if self.session is not None:
            return self.session.executed_job_id or self.session.job_id
        return None if self.claim is None else self.claim.job_id


async def list_runner_pods(reader: FreshReader, namespace: str) -> list[Pod]:
    """Every runner Pod, from a complete list that was read now; raises rather than leave one out."""
    return (await reader.list(Pod, namespace, label_selector=f"{RUNNER_LABEL}=true")).items


def count_pods(reader: FreshReader, namespace: str) -> CountPods:
    """The Pod snapshot that the workers on jobs ask for: complete and fresh, or an error."""

    async def count() -> PodSnapshot:
        pods = await list_runner_pods(reader, namespace)
        ended = frozenset(pod.metadata.uid for pod in pods if life_of(pod) is PodLife.ENDED)
        return PodSnapshot(alive=frozenset(pod.metadata.uid for pod in pods) - ended, ended=ended)

    return count


def pool_of(pod: Pod) -> str:
    return pod.metadata.labels.get(POOL_LABEL, "")


class PodObserver:
    """Reads the ledgers. What one look cannot tell is remembered between looks, in `Streaks`."""

    def __init__(
        self,
        ledger: Ledger,
        reader: FreshReader,
        github: GitHub,
        settings: HealingSettings,
        clock: Clock,
        *,
        namespace: str,
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._github = github
        self._settings = settings
        self._clock = clock
        self._namespace = namespace
        gap = timedelta(seconds=3 * settings.every)
        self._unseen = Streaks(gap)
        self._absent = Streaks(gap)
        self._stuck = Streaks(gap)

    async def of_all(self, pods: Iterable[Pod]) -> list[PodObservation]:
        """All of these Pods, listed before this call. GitHub is asked about those alone whose verdict hangs on it."""
        pods = list(pods)
        ledger = self._ledger
        uids = frozenset(pod.metadata.uid for pod in pods)
        claims = {claim.pod_uid: claim for claim in await ledger.claims.all()}
        sessions = {session.pod_uid: session for session in await ledger.sessions.open()}
        fences = {fence.pod_uid: fence for fence in await ledger.fences.standing()}
        marks = await ledger.progress.of_pods(uids)
        self._unseen.keep_only(uids)
        self._absent.keep_only(uids)
        self._stuck.keep_only(uids)
        lists = RunnerLists(self._github, ledger)
        found: list[PodObservation] = []
        for pod in pods:
            uid = pod.metadata.uid
            session = sessions.get(uid)
            handed_perhaps = _assigned(pod) or _committed(pod) or uid in marks
            if session is None and uid not in claims and handed_perhaps:
                session = await ledger.sessions.of_pod(uid)
            entries = _Entries(claim=claims.get(uid), session=session, fence=fences.get(uid), mark=marks.get(uid))
            found.append(await self._seen(pod, entries, lists))
        return found

    async def of_one(self, name: str, uid: str, *, claimed: bool = False) -> PodObservation | None:
        """One Pod, everything read anew; None if it is gone, or another one has its name.

        With `claimed` GitHub is asked about a Pod that holds a claim, too, whose job nobody has put back yet.
        """
        ledger = self._ledger
        pod = await self._reader.get(Pod, name, self._namespace)
        if pod is None or pod.metadata.uid != uid:
            return None
        # The Pod first, then the ledger: what was claimed since the Pod was read protects it.
        fence = await ledger.fences.of_pod(uid)
        claim = await ledger.claims.of_pod(uid)
        session = await ledger.sessions.of_pod(uid)
        mark = (await ledger.progress.of_pods([uid])).get(uid)
        return await self._seen(
            pod,
            _Entries(claim=claim, session=session, fence=fence, mark=mark),
            RunnerLists(self._github, ledger),
            claimed=claimed,
        )

    async def _seen(self, pod: Pod, entries: _Entries, lists: RunnerLists, *, claimed: bool = False) -> PodObservation:
        now = self._clock.now()
        claim, session, fence, mark = entries.claim, entries.session, entries.fence, entries.mark
        uid = pod.metadata.uid
        moves, still_since = moves_of(mark, now, self._settings)
        facts = PodFacts(
            now=now,
            life=life_of(pod),
            machine=machine_of(pod),
            created_at=pod.metadata.creation_timestamp,
            assigned=_assigned(pod),
            committed=_committed(pod),
            runner=runner_of(pod),
            poller=poller_of(pod),
            held=held_of(claim, fence),
            handed=HandedFact.NONE
            if session is None
            else HandedFact.OPEN
            if session.ended_at is None
            else HandedFact.ENDED,
            handed_at=session.started_at if session is not None else None if claim is None else claim.claimed_at,
            moves=moves,
            still_since=still_since,
            listens=listens(mark, now, self._settings),
            listener_still_since=listener_still_since(mark, now, self._settings),
        )
        seen = PodObservation(pod=pod, facts=facts, claim=claim, session=session, fence=fence, mark=mark)
        if facts.life is PodLife.ALIVE and facts.handed is HandedFact.NONE and claim is None:
            return await self._forgotten(seen) if facts.assigned else seen
        self._stuck.broken(uid)
        still = facts.moves is not MovesFact.MOVING or facts.listener_still_since is not None
        # Of one whose listener alone moves GitHub must still know; past its deadline, because most have a worker by then.
        still = still or (facts.listens and waits_past_deadline(facts, self._settings))
        held = facts.held in (HeldFact.NONE, HeldFact.FENCE, HeldFact.DISPLACED)
        if facts.life is PodLife.ALIVE and still and (held or (claimed and facts.held is HeldFact.RUNNING)):
            return await self._asked(seen, lists)
        self._not_asked(uid)
        return seen

    def _not_asked(self, uid: str) -> None:
        self._unseen.broken(uid)
        self._absent.broken(uid)

    async def _forgotten(self, seen: PodObservation) -> PodObservation:
        """Assigned, and neither claim nor session: does the ledger remember how that came about?"""
        facts = seen.facts
        waits = facts.runner in (RunnerFact.NONE, RunnerFact.WAITING) and facts.poller is not PollerFact.TERMINATED
        stuck_since = None
        if facts.machine is VmFact.LINUX and waits:
            stuck_since = self._stuck.seen(seen.uid, facts.now)
        else:
            self._stuck.broken(seen.uid)
        released = remembered_release(await self._ledger.transitions.of_pod(seen.uid))
        return _with(
            seen,
            unclaimed_since=released_at(released),
            dispatcher_died=left_by_its_dispatcher(released),
            stuck_since=stuck_since,
        )

    async def _asked(self, seen: PodObservation, lists: RunnerLists) -> PodObservation:
        """What GitHub says about the runner's job and, unless that is at work, about the runner itself."""
        account = seen.session.account_id if seen.session is not None else seen.claim.account_id if seen.claim else 0
        job_id, runner_name = seen.job_id, seen.runner_name
        known = None if job_id is None else await self._ledger.jobs.get(job_id)
        repository = known.repository if known is not None else seen.session.repository if seen.session else ""
        registration = None
        if runner_name:
            registration = await self._ledger.registrations.of_runner(account, runner_name, repository)
        if registration is None or job_id is None:
            self._not_asked(seen.uid)
            return seen
        completion = await self._ledger.jobs.completion(job_id)
        github_job = await self._job(registration.installation_id, repository, job_id)
        standing = await lists.standing(registration)
        row = standing.row
        unseen_since = None
        if row in (RunnerRow.ABSENT, RunnerRow.OFFLINE):
            unseen_since = self._unseen.seen(seen.uid, seen.facts.now)
        else:
            self._unseen.broken(seen.uid)
        absent_since = None
        if row is RunnerRow.ABSENT:
            absent_since = self._absent.seen(seen.uid, seen.facts.now)
        else:
            self._absent.broken(seen.uid)
        said, executor = job_of(github_job, runner_name)
        seen = _with(
            seen,
            finish_recorded=completion is not None and completion.runner_name == runner_name,
            unclaimed_since=(
                None
                if seen.claim is not None
                else released_at(remembered_release(await self._ledger.transitions.of_pod(seen.uid)))
            ),
            job=said,
            executor=executor,
            job_over_at=None if github_job is None else github_job.completed_at,
            runner_row=row,
            unseen_since=unseen_since,
            absent_since=absent_since,
        )
        return replace(
            seen,
            completion=completion,
            github_job=github_job,
            github_runner=standing.runner,
            place=standing.place,
            installation_id=registration.installation_id,
            repository=repository,
        )

    async def _job(self, installation_id: int, repository: str, job_id: int) -> GitHubJob | None:
        if "/" not in repository:
            return None
        try:
            return await self._github.job(installation_id, repository, job_id)
        except GitHubError:
            return None  # not known, whatever the reason: a 404 alone proves nothing, either


def _with(seen: PodObservation, **more: object) -> PodObservation:
    return replace(seen, facts=structs.replace(seen.facts, **more))


def _assigned(pod: Pod) -> bool:
    return bool(pod.metadata.labels.get(OWNER_LABEL))


def _committed(pod: Pod) -> bool:
    return bool(pod.metadata.labels.get(ACCOUNT_LABEL))
