"""Applies one webhook delivery to the ledger.

The ledger makes late, repeated and reordered words end alike; here is decided only whom a delivery concerns. Three cases
for a job that no pool of ours was chosen for: it has a row (its pool changed or went since), or it was given to a runner
of ours although it does not carry a dispatch label (GitHub looks at all labels alike), or it is none of our business. A new
one that is none of these and seems to be meant for us is kept as unserved (`unserved`).

A job of a scale set is known by its runner, never by the pool that its labels choose now: that pool may have been changed since.
One that no runner has yet is known by what its queue has said (`scale_set_evidence`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Delivery, Ledger, Moved, NewJob, UnknownAccountError
from paddock.runners.ledger.scale_sets import is_scale_set_job
from paddock.runners.webhooks import installations, payload
from paddock.runners.webhooks.installations import Tenants
from paddock.runners.webhooks.payload import (
    JobEvent,
    MalformedError,
    moment,
    storable,
    waiting_since,
)
from paddock.runners.webhooks.places import Place, place_in, place_of, platform_of
from paddock.runners.webhooks.routing import Chosen, Ignored, choose, offered, only_queues_offer
from paddock.runners.webhooks.scale_set_evidence import Listened, count_as_evidence
from paddock.runners.webhooks.unserved import FormerLabels, Meant, hosted, meant_for_us

__all__ = ["Handled", "announces_a_new_job", "handle_event"]

_MOST_UNSURE = 200
_MOST_UNSURE_OF_ACCOUNT = 50
"""Of jobs that may be meant for runners of others so many are kept at once: enough to see a mistake, and no flood; of one
account fewer, so that it hides no other's.
"""


@dataclass(frozen=True, slots=True)
class Handled:
    """What came of a delivery: two words for the counters, both from small fixed sets, and a sentence for the log."""

    action: str
    outcome: str
    ignored: bool = False
    sentence: str = ""

    @property
    def text(self) -> str:
        """What is written beside the settled delivery."""
        return f"ignored: {self.outcome}" if self.ignored else self.outcome


def announces_a_new_job(delivery: Delivery) -> bool:
    """Whether it says that a job waits; of one that cannot be read, no."""
    try:
        return delivery.event == "workflow_job" and payload.action_of(delivery.payload) in ("queued", "waiting")
    except MalformedError:
        return False


async def handle_event(
    delivery: Delivery,
    pools: Sequence[RunnerPool],
    ledger: Ledger,
    tenants: Tenants,
    former: FormerLabels,
    listened: Listened,
    clock: Clock,
) -> Handled:
    """Tell the ledger. What is malformed is ignored; every LedgerError is the caller's. Repeatable."""
    action = "other"
    try:
        if delivery.event == "workflow_job":
            action = "workflow_job"
            said = payload.action_of(delivery.payload)
            if said not in payload.JOB_ACTIONS:
                return Handled("other", "unknown_action", ignored=True)
            action = said
            event = payload.decode_job(delivery.payload)
            teller = _JobTeller(event, delivery.received_at, pools, ledger, tenants, former, listened, clock.now())
            return await teller.handle_event()
        if delivery.event in installations.EVENTS:
            action = "installation"
            outcome = await installations.tell(delivery.event, delivery.payload, tenants)
            return Handled(action, outcome, ignored=outcome in installations.NOTHING_DONE)
        return Handled("other", "unknown_event", ignored=True)
    except MalformedError as error:
        # It will be malformed every time: trying again only hides it.
        return Handled(action, "malformed", ignored=True, sentence=str(error))


class _JobTeller:
    def __init__(
        self,
        event: JobEvent,
        received_at: datetime,
        pools: Sequence[RunnerPool],
        ledger: Ledger,
        tenants: Tenants,
        former: FormerLabels,
        listened: Listened,
        now: datetime,
    ) -> None:
        self._event = event
        self._job = event.workflow_job
        self._received_at = received_at
        self._pools = pools
        self._ledger = ledger
        self._tenants = tenants
        self._former = former
        self._listened = listened
        self._now = now
        self._choice = choose(pools, event.workflow_job.labels)

    async def handle_event(self) -> Handled:
        match self._event.action:
            case "in_progress":
                return await self._in_progress()
            case "completed":
                return await self._completed()
            case _:
                return await self._queued()

    async def _of_scale_set(self) -> Handled | None:
        """What a set's runner does: its queue announces the job, under a number of ours. None: the runner is no set's."""
        place = await self._place_in_a_set()
        if place is None:
            return None
        job = self._new_job(place)
        outcome = await count_as_evidence(self._event, job, self._ledger, received_at=self._received_at, now=self._now)
        return self._ignored("scale_set") if outcome is None else self._told(outcome)

    async def _place_in_a_set(self) -> Place | None:
        account_id, runner_name = self._event.repository.owner.id, self._event.runner_name
        if runner_name is None or not self._listened.to(account_id):
            return None
        runner = await self._ledger.overview.runner(account_id, runner_name)
        if runner is not None:
            return place_of(runner) if is_scale_set_job(runner.job_id) else None
        if not isinstance(self._choice, Chosen) or not self._by_queue:
            return None
        # A ledger that was restored may know the runner by the queue's word alone.
        job = self._job
        row = await self._ledger.assignments.of_runner(account_id, runner_name, job.run_id, storable(job.name))
        return None if row is None else place_in(self._choice, account_id)

    @property
    def _by_queue(self) -> bool:
        """Whether the pool that the labels choose now hears of its jobs from a queue."""
        return isinstance(self._choice, Chosen) and self._choice.pool.spec.job_source == "ScaleSet"

    async def _queued(self) -> Handled:
        choice, status, why = self._choice, "waiting" if self._event.held_back else "queued", ""
        if self._by_queue or (isinstance(choice, Ignored) and only_queues_offer(self._pools, self._job.labels)):
            return self._ignored("scale_set")
        if isinstance(choice, Ignored):
            if choice.nearest is None:
                return await self._unserved(choice)
            # It carries a dispatch label of ours, so that nobody else will run it: known, shown, and routed once a pool
            # offers what it asks for.
            status, why = ("waiting", "") if self._event.held_back else ("unserved", choice.sentence)
            choice = Chosen(choice.nearest, choice.nearest.spec.dispatch_label)
        if not await self._tenants.admits(self._event):
            return self._ignored("no_account")
        account_id = self._event.repository.owner.id
        job = self._new_job(place_in(choice, account_id))
        if await self._listened.may_have(job, self._job.created_at):
            return self._ignored("scale_set")
        try:
            moved = await self._ledger.jobs.enqueue(job, status=status, why=why)
        except UnknownAccountError:
            self._tenants.forget(account_id)
            if not await self._tenants.admits(self._event):
                return self._ignored("no_account")
            moved = await self._ledger.jobs.enqueue(job, status=status, why=why)
        return Handled(self._event.action, str(moved), sentence=why)

    async def _unserved(self, choice: Ignored) -> Handled:
        """Keep what seems to be meant for us, of accounts that may run jobs. What GitHub holds back is said again later."""
        meant = None if self._event.held_back else await self._meant()
        account = await self._tenants.known(self._event) if meant is not None else None
        if meant is None or account is None:
            return self._ignored(choice.reason, choice.sentence)
        place = Place(
            account.account_id, meant.pool, meant.platform, meant.vcpus, meant.memory_mb, storable(meant.label)
        )
        job = self._new_job(place)
        if not await self._ledger.allow_list.may_run(job.account_id, job.repository_id, job.repository):
            return self._ignored("not_allowed", choice.sentence)
        if await self._listened.may_have(job, self._job.created_at):
            return self._ignored("scale_set")
        if meant.label:
            moved = await self._ledger.jobs.enqueue(job, status="unserved", why=choice.sentence)
        else:
            most = {"most": _MOST_UNSURE, "most_of_account": _MOST_UNSURE_OF_ACCOUNT}
            # Asked before the turn is waited for: most of a flood is told here that there are enough.
            kept = await self._ledger.rerouting.unsure_of(job.account_id)
            full = kept.of_all >= _MOST_UNSURE or kept.of_account >= _MOST_UNSURE_OF_ACCOUNT
            moved = None if full else await self._ledger.jobs.enqueue_unsure(job, why=choice.sentence, **most)
        if moved is None:
            return self._ignored("too_many_unserved", choice.sentence)
        return Handled(self._event.action, str(moved), sentence=choice.sentence)

    async def _meant(self) -> Meant | None:
        # Most of other people's jobs are for runners of GitHub's: those are not worth a question to the database.
        if hosted(self._job.labels):
            return None
        return meant_for_us(self._pools, self._job.labels, await self._former.known())

    async def _in_progress(self) -> Handled:
        runner_name = self._event.runner_name
        if runner_name is None:
            return self._ignored("no_runner")
        if isinstance(self._choice, Ignored) and not await self._may_be_known(self._choice):
            # A third of all deliveries are these: other people's jobs, not worth a question to the database.
            return self._ignored(self._choice.reason)
        if (of_set := await self._of_scale_set()) is not None:
            return of_set
        if isinstance(self._choice, Chosen):
            place, reason = await self._chosen_place(self._choice)
        elif (ended := await self._of_somebody_else(runner_name)) is not None:
            return ended
        else:
            place = await self._known_place(runner_name)
            reason = self._choice.reason
        if place is None:
            return self._ignored(reason)
        started_at = moment(self._job.started_at, self._now, self._received_at)
        return self._told(
            await self._ledger.jobs.started(self._new_job(place), runner_name=runner_name, started_at=started_at)
        )

    async def _may_be_known(self, choice: Ignored) -> bool:
        """Whether a job that no pool was chosen for may have a row, or a runner of ours."""
        unmatched = choice.reason in ("no_pools", "no_matching_pool")
        return not unmatched or offered(self._pools, self._job.labels) or await self._meant() is not None

    async def _of_somebody_else(self, runner_name: str) -> Handled | None:
        """A job that no pool serves, and that a runner which is not ours took up, is over for us. None: it is no such job.

        Every runner of ours has its session before it can be given a job, so that one without is none.
        """
        row = await self._ledger.jobs.get(self._job.id)
        if row is None or row.status != "unserved":
            return None
        if await self._ledger.overview.runner(row.account_id, runner_name) is not None:
            return None
        moved = await self._ledger.jobs.completed(
            row.job_id,
            account_id=row.account_id,
            conclusion="elsewhere",
            completed_at=moment(self._job.started_at, self._now, self._received_at),
            why=f"runner {runner_name}, which is not ours, runs it",
        )
        return Handled(self._event.action, "elsewhere" if moved is Moved.COMPLETED else str(moved))

    async def _completed(self) -> Handled:
        runner_name = self._event.runner_name
        ours = isinstance(self._choice, Chosen) or await self._may_be_known(self._choice)
        if ours and (of_set := await self._of_scale_set()) is not None:
            return of_set
        if isinstance(self._choice, Chosen):
            place, reason = await self._chosen_place(self._choice)
        else:
            # A row is looked for whatever the labels: its pool may have changed since, and this is its last word.
            place = await self._known_place(runner_name)
            reason = self._choice.reason
        if place is None:
            return self._ignored(reason)
        if not ours and (of_set := await self._of_scale_set()) is not None:
            return of_set
        started_at = self._job.started_at if runner_name is not None else None
        moved = await self._ledger.jobs.completed(
            self._job.id,
            account_id=place.account_id,
            conclusion=storable(self._job.conclusion) or "unknown",
            completed_at=moment(self._job.completed_at, self._now, self._received_at),
            runner_name=runner_name,
            started_at=None if started_at is None else min(started_at, self._now),
            job=self._new_job(place),
        )
        return self._told(moved)

    async def _chosen_place(self, chosen: Chosen) -> tuple[Place | None, str]:
        """Where the job belongs, or why nowhere. A pool with a queue has only those that a webhook announced before it had one."""
        if self._by_queue:
            return await self._known_place(self._event.runner_name), "scale_set"
        account = await self._tenants.of(self._event)
        return None if account is None else place_in(chosen, account.account_id), "no_account"

    async def _known_place(self, runner_name: str | None) -> Place | None:
        """Where the job is by our own records: its row, or the runner of ours that it was given to."""
        row = await self._ledger.jobs.get(self._job.id)
        if row is not None:
            return Place(row.account_id, row.pool, platform_of(row.platform), row.vcpus, row.memory_mb, row.label)
        if runner_name is None or not offered(self._pools, self._job.labels):
            return None
        account = await self._tenants.known(self._event)
        if account is None:
            return None
        # A runner's name means something only within its account.
        runner = await self._ledger.overview.runner(account.account_id, runner_name)
        return None if runner is None else place_of(runner)

    def _new_job(self, place: Place) -> NewJob:
        job = self._job
        since = moment(job.created_at, self._now, self._received_at)
        if self._event.action == "queued" and not self._event.held_back:
            since = waiting_since(job.created_at, self._received_at, self._now)
        return NewJob(
            job_id=job.id,
            account_id=place.account_id,
            pool=place.pool,
            platform=place.platform,
            vcpus=place.vcpus,
            memory_mb=place.memory_mb,
            repository=storable(self._event.repository.full_name),
            repository_id=self._event.repository.id,
            enqueued_at=since,
            workflow_run_id=job.run_id,
            workflow_name=storable(job.workflow_name),
            run_attempt=job.run_attempt,
            job_name=storable(job.name),
            head_branch=storable(job.head_branch),
            head_sha=storable(job.head_sha),
            label=place.label,
            labels=tuple(storable(label) for label in job.labels),
        )

    def _told(self, outcome: str) -> Handled:
        return Handled(self._event.action, str(outcome))

    def _ignored(self, reason: str, sentence: str = "") -> Handled:
        return Handled(self._event.action, reason, ignored=True, sentence=sentence)
