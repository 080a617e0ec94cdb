"""Serving a won claim: review and assign, mint, commit, answer. What fails on the way is undone on the spot.

Where the process may die, and what is left (docs/design/dispatch.md has the table):

- after the claim: a claim, perhaps a label. Our silence frees the claim; the next claim or the reaper removes the label;
- after the mint: also a runner at GitHub that no Pod has. A commit by another process is impossible, so it is never used;
- after the commit: an open session. The Pod asks again, is told to exit, and GitHub is asked about the job.

A runner's config leaves this module only inside the answer, and only after its commit.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import to_its_end
from paddock.clients.github import errors as github
from paddock.clients.github.contract import GitHub, MintedRunner, RunnerPlace
from paddock.kube.errors import KubeError
from paddock.runners.api import RunnerPool
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.account_labels import AccountLabels
from paddock.runners.dispatch.assignment import Assigned, Assignments
from paddock.runners.dispatch.cluster import Observations
from paddock.runners.dispatch.identity import IdentityError, Unreachable
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.neighbour_check import NeighbourCheck
from paddock.runners.dispatch.pending_releases import BY, PendingReleases, Release
from paddock.runners.dispatch.waiting_pods import HandedJob, PollAnswer, Waiter, later
from paddock.runners.ledger import Claim, JobGoneError, Ledger, LedgerError, LedgerUnavailableError, Scope
from paddock.runners.ledger.app_access import RATE_LIMITED
from paddock.runners.ledger.registrations import runner_name
from paddock.runners.ledger.scale_sets import is_scale_set_job
from paddock.runners.scale_sets.minting import ScaleSetMinting

__all__ = ["GivenUpError", "Handover", "ServingContext", "labels_of", "work_folder"]

_COMMIT_TRIES: Final = 3
_COMMIT_PAUSE: Final = 0.1
_UNDO_TIMEOUT: Final = 10.0

log = get_logger("dispatch")


class GivenUpError(Exception):
    """This claim is not served: it is undone, and the Pod gets `answer`, or goes on waiting where that is None."""

    def __init__(
        self,
        reason: str,
        why: str,
        *,
        answer: PollAnswer | None = None,
        scope: Scope | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why
        self.answer = answer
        self.scope: Scope | None = scope
        self.retry_after = retry_after


@dataclass(slots=True)
class _Progress:
    """How far serving came, so that undoing knows what there is to undo."""

    assign: Assigned | None = None
    minted: MintedRunner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingContext:
    """What the dispatcher and the handover both work with."""

    ledger: Ledger
    observations: Observations
    pending_releases: PendingReleases
    settings: DispatchSettings
    clock: Clock
    rng: random.Random
    metrics: DispatchMetrics


class Handover:
    """Serves one claim a call, any number at once."""

    def __init__(
        self,
        context: ServingContext,
        github: GitHub,
        assignments: Assignments,
        scale_sets: ScaleSetMinting | None = None,
    ) -> None:
        self._ledger = context.ledger
        self._github = github
        self._scale_sets = scale_sets
        self._assignments = assignments
        self._account_labels = AccountLabels(assignments, context.clock)
        self._observations = context.observations
        self._pending_releases = context.pending_releases
        self._clock = context.clock
        self._rng = context.rng
        self._metrics = context.metrics
        self._deadline = context.settings.serve_deadline
        self._neighbours = NeighbourCheck(context.ledger, context.observations, context.rng)

    async def serve(self, waiter: Waiter, claim: Claim) -> PollAnswer | None:
        """The Pod's answer, or None if it goes on waiting.

        With a runner in the answer the claim is committed; with anything else, an exception and a cancellation included,
        the claim is given back (now, or as soon as the ledger answers), the label is off and the runner unregistered,
        as far as the others can be reached.
        """
        progress = _Progress()
        if claim.enqueued_at is not None and claim.claimed_at is not None:
            queued = (claim.claimed_at - claim.enqueued_at).total_seconds()
            self._metrics.stage.labels("queued").observe(max(0.0, queued))
        try:
            with self._account_labels.serving():
                async with self._timed("serve"), asyncio.timeout(self._deadline):
                    runner = await self._prepare(waiter, claim, progress)
        except GivenUpError as ending:
            await self._undo_shielded(waiter, claim, progress, ending)
            return ending.answer
        except TimeoutError:
            why = f"the claim could not be served within {self._deadline:.0f} s"
            ending = GivenUpError("deadline", why, answer=later("deadline", why))
            await self._undo_shielded(waiter, claim, progress, ending)
            return ending.answer
        except BaseException as error:
            why = "the process stops" if isinstance(error, asyncio.CancelledError) else "serving failed"
            await self._undo_shielded(waiter, claim, progress, GivenUpError("stopped", why))
            raise
        answer = PollAnswer(200, "handed", handed=HandedJob(runner.config, claim.login, claim.job_id))
        # It is committed, so the answer gets out before anything else can go wrong; no component needs the label that soon.
        waiter.settle(answer)
        self._account_labels.after(waiter.pod, claim)
        return answer

    async def settle(self) -> None:
        """At the end, when nothing is served any more: what was put off is done."""
        await self._account_labels.settle()

    async def _prepare(self, waiter: Waiter, claim: Claim, progress: _Progress) -> MintedRunner:
        pool = await self._look(waiter, claim, progress)
        async with self._timed("neighbours"):
            mac = waiter.proof.mac
            beside = await self._neighbours.crowded(claim, mac) or await self._neighbours.look(claim, pool, mac)
        if beside is not None:
            raise GivenUpError(beside.reason, beside.why, answer=later(beside.outcome, beside.why, beside.rest))
        installation_id = claim.installation_id or await self._installed(claim)
        if installation_id is None:
            why = f"the GitHub App is not installed for {claim.login}: install it there, or lift its suspension"
            raise GivenUpError("not_installed", why, scope="account")
        self._still_there(waiter)
        name = runner_name(claim.pod_name, await self._mark(), self._rng)
        async with self._timed("mint"):
            progress.minted = await self._mint(claim, installation_id, pool, name)
        self._still_there(waiter)
        async with self._timed("commit"):
            await self._commit(claim, name, progress.minted.place)
        return progress.minted

    async def _installed(self, claim: Claim) -> int | None:
        """Where GitHub says now that the App may act for the account, which is noted; None where it says that it may not.

        A removal that was replayed or overtaken took the installation away here alone. The pause after each failure bounds how
        often GitHub is asked.
        """
        try:
            found = next(
                (one for one in await self._github.installations() if one.account_id == claim.account_id), None
            )
            if found is None or found.suspended:
                return None
            await self._ledger.accounts.enrol(claim.account_id, found.login, found.installation_id)
        except (github.GitHubError, LedgerError) as error:
            log.warning("GitHub could not be asked for an installation", account=claim.login, error=str(error))
            why = f"GitHub cannot be asked whether the App is installed for {claim.login}: {error}"
            raise GivenUpError("not_installed", why, scope="account") from error
        return found.installation_id

    async def _look(self, waiter: Waiter, claim: Claim, progress: _Progress) -> RunnerPool:
        """Everything that must be known and done before the mint, at once. All of it is finished before any of it counts:
        a label that is still on its way while it is being taken off would stay.
        """
        progress.assign = Assigned.UNKNOWN
        async with self._timed("prepare"):
            review, assign, pool = await asyncio.gather(
                waiter.proof.confirm(),
                self._assignments.put(waiter.pod, claim),
                self._observations.pool(claim.pool),
                return_exceptions=True,
            )
        if isinstance(assign, Assigned):
            progress.assign = assign
        if isinstance(review, Unreachable):
            raise GivenUpError("cluster", str(review), answer=later(review.outcome, str(review))) from review
        if isinstance(review, IdentityError):
            raise GivenUpError(review.outcome, str(review), answer=_refusal(review)) from review
        if assign is Assigned.POD_GONE:
            raise GivenUpError("pod_gone", "the Pod is gone", answer=PollAnswer(403, "not_allowed", "the Pod is gone"))
        if isinstance(pool, KubeError):
            why = "the pool cannot be read"
            raise GivenUpError("cluster", why, answer=later("unreachable", why)) from pool
        for failure in (review, assign, pool):
            if isinstance(failure, BaseException):
                raise failure
        assert not isinstance(pool, BaseException)
        if pool is None:
            why = f"there is no pool {claim.pool}"
            raise GivenUpError("no_pool", why, answer=later("unreachable", why), scope="job")
        return pool

    async def _mint(self, claim: Claim, installation_id: int, pool: RunnerPool, name: str) -> MintedRunner:
        scope = pool.spec.runner_scope
        if not claim.wholly_allowed and not pool.spec.runner_group:
            # GitHub gives an organisation's runner the job of any of its repositories, and not all of them are allowed.
            scope = "repository"
        try:
            if self._scale_sets is not None and is_scale_set_job(claim.job_id):
                # Only a runner of the set that announced the job is given it.
                return await self._scale_sets.mint(claim, installation_id, name=name, work_folder=work_folder(pool))
            return await self._github.mint(
                installation_id,
                claim.repository,
                name=name,
                labels=labels_of(pool, claim.label),
                work_folder=work_folder(pool),
                group=pool.spec.runner_group,
                scope=scope,
            )
        except github.GroupRefused as error:
            # Until a person opens the group this fails each time: the repository rests, a quarter of an hour at most.
            raise GivenUpError("group_refused", str(error), scope="repository", retry_after=60.0) from error
        except github.RateLimited as error:
            why = f"{RATE_LIMITED}: {error}"
            raise GivenUpError("rate_limited", why, scope="account", retry_after=error.retry_after) from error
        except github.Forbidden as error:
            # Until a person acts this fails each time, as with groups.
            why = (
                f"GitHub refuses a runner for {claim.login}: {error}: give the App the permission Self-hosted runners: write "
                "(organisation) or Administration: write (repository), accept it for the account, or lift its suspension"
            )
            raise GivenUpError("forbidden", why, scope="account", retry_after=60.0) from error
        except github.Unauthenticated as error:
            raise GivenUpError("forbidden", f"GitHub refuses a runner: {error}", scope="account") from error
        except (github.NotFound, github.OutOfReach) as error:
            why = (
                f"GitHub knows neither {claim.repository} nor its owner: {error}: if it was transferred or renamed, install the "
                "App for its new owner and run the workflow again; if it is gone, its jobs are closed with it"
            )
            raise GivenUpError("not_found", why, scope="repository", retry_after=60.0) from error
        except github.Unavailable as error:
            why = f"GitHub cannot be reached: {error}"
            raise GivenUpError("unavailable", why, scope="job", answer=later("unreachable", "GitHub")) from error
        except github.GitHubError as error:
            raise GivenUpError("mint", f"GitHub gave no runner: {error}", scope="job") from error

    async def _mark(self) -> str:
        try:
            return await self._ledger.registrations.mark()
        except LedgerError as error:
            why = "the ledger did not answer"
            raise GivenUpError("ledger", why, answer=later("unreachable", why)) from error

    async def _commit(self, claim: Claim, name: str, place: RunnerPlace) -> None:
        """Claim and job running, session open. A lost answer is asked for again, under the same name: it is the same."""
        for attempt in range(1, _COMMIT_TRIES + 1):
            try:
                await self._ledger.claims.commit(claim, name, place=place.path, by=BY)
            except LedgerUnavailableError as error:
                if attempt == _COMMIT_TRIES:
                    # It may have happened. Giving the claim back ends either state, and no Pod will get this runner; if
                    # there is a session, the Pod is told to exit.
                    why = "the ledger did not confirm the claim"
                    raise GivenUpError("ledger", why, answer=later("unreachable", why)) from error
                await self._clock.sleep(_COMMIT_PAUSE * attempt)
            except JobGoneError as error:
                raise GivenUpError("job_gone", str(error)) from error
            except LedgerError as error:
                raise GivenUpError("stale_claim", str(error)) from error
            else:
                return

    @staticmethod
    def _still_there(waiter: Waiter) -> None:
        if waiter.gone:
            raise GivenUpError("hung_up", "the Pod hung up before it was served")
        if waiter.parting is not None:
            raise GivenUpError(waiter.parting.outcome, waiter.parting.reason, answer=waiter.parting)

    # Undoing

    async def _undo_shielded(self, waiter: Waiter, claim: Claim, progress: _Progress, ending: GivenUpError) -> None:
        """Undo to the end, also if we are cancelled meanwhile."""
        self._metrics.undone.labels(ending.reason).inc()
        log.info("a claim is given back", pod=claim.pod_name, job=claim.job_id, pool=claim.pool, why=ending.why)
        await to_its_end(self._undo(waiter, claim, progress, ending))

    async def _undo(self, waiter: Waiter, claim: Claim, progress: _Progress, ending: GivenUpError) -> None:
        """Label off first, while the claim still keeps every other claim from the Pod; then the claim; then the runner."""
        try:
            async with asyncio.timeout(_UNDO_TIMEOUT):
                if progress.assign in (Assigned.YES, Assigned.UNKNOWN):
                    certain = progress.assign is Assigned.YES
                    if not await self._assignments.take_off(waiter.pod, claim, certain=certain):
                        log.warning("an assignment label is left for the reaper", pod=claim.pod_name)
        except TimeoutError:
            log.warning("an assignment label is left for the reaper", pod=claim.pod_name)
        await self._pending_releases.pay(Release(claim, ending.why, ending.scope, ending.retry_after))
        if progress.minted is not None:
            try:
                async with asyncio.timeout(_UNDO_TIMEOUT):
                    if self._scale_sets is not None and is_scale_set_job(claim.job_id):
                        await self._scale_sets.remove(progress.minted)
                    else:
                        await self._github.remove_runner(progress.minted.place, progress.minted.runner_id)
            except (github.GitHubError, TimeoutError) as error:
                # GitHub forgets a runner that never came within a day, and `offline_runner` before that.
                log.info("an unused runner is left at GitHub", runner=progress.minted.name, error=str(error))

    @asynccontextmanager
    async def _timed(self, stage: str) -> AsyncIterator[None]:
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._metrics.stage.labels(stage).observe(self._clock.monotonic() - began)


def _refusal(error: IdentityError) -> PollAnswer:
    return PollAnswer(error.status, error.outcome, str(error))


def labels_of(pool: RunnerPool, requested: str) -> tuple[str, ...]:
    """What the pool's runners offer, and the label that the job asked for, spelled as it did; each once.

    A job that names no label came by the pool's own.
    """
    labels: dict[str, str] = {}
    for label in (*pool.spec.runner_labels, requested or pool.spec.dispatch_label):
        labels.setdefault(label.lower(), label)  # GitHub's labels do not differ by case alone
    return tuple(labels.values())


def work_folder(pool: RunnerPool) -> str:
    return "/Users/runner/work" if pool.spec.os == "darwin" else "/home/runner/work"
