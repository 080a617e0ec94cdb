"""Applies one webhook delivery to the ledger.

The ledger makes late, repeated and reordered words end alike; here is decided only whom a delivery concerns. Three cases
for a job that no pool of ours was chosen for: it has a row (its pool changed or went since), or it was given to a runner
of ours although it does not carry a dispatch label (GitHub looks at all labels alike), or it is none of our business.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Account, Delivery, InvalidEntryError, Ledger, NewJob, Platform
from paddock.runners.webhooks import payload
from paddock.runners.webhooks.payload import (
    InstallationEvent,
    JobEvent,
    MalformedError,
    Owner,
    RenamedEvent,
    moment,
    storable,
)
from paddock.runners.webhooks.routing import Chosen, Ignored, choose, offered

__all__ = ["Handled", "Tenants", "announces_a_new_job", "handle_event"]


class Tenants:
    """Whose job it is: the account of the number that GitHub gives for the repository's owner, and no other.

    A login decides nothing. One that was given up and taken by somebody else brings nothing of the old owner's along, and an
    account that changed its login keeps its limits, its line on the list and its history; the new login is noted here.
    Enrolling is bookkeeping: whether its jobs may run is the allow list's to say.
    """

    def __init__(self, ledger: Ledger, *, enrol: bool) -> None:
        self._accounts = ledger.accounts
        self._enrol = enrol

    async def known(self, event: JobEvent) -> Account | None:
        """The account, if it is enrolled. Changes nothing."""
        return await self._accounts.get(event.repository.owner.id)

    async def of(self, event: JobEvent) -> Account | None:
        """The account, enrolled now if it must be and may be; None where it may not. A newer installation is noted."""
        return await self._admit(event.repository.owner, event.installation_id)

    async def installed(self, event: InstallationEvent) -> str:
        """The App was installed for an account, or may act there again."""
        account = await self._admit(event.installation.account, event.installation.id)
        return "no_account" if account is None else "enrolled"

    async def removed(self, event: InstallationEvent) -> str:
        """The App may not act for the account any more; its limits and history stay.

        A word about an installation that was replaced since changes nothing. Said late, after the App was allowed again,
        it costs until the next delivery about a job, which names the installation.
        """
        account = await self._accounts.of_installation(event.installation.id)
        if account is None:
            return "unknown_installation"
        await self._accounts.enrol(account.account_id, account.login, None)
        return "removed"

    async def renamed(self, event: RenamedEvent) -> str:
        """The account has another login. It is noted at once, and not only with its next job; nobody is enrolled for it."""
        account = await self._accounts.get(event.account.id)
        if account is None:
            return "unknown_installation"
        await self._admit(event.account, event.installation.id)
        return "renamed"

    async def _admit(self, owner: Owner, installation_id: int | None) -> Account | None:
        account = await self._accounts.get(owner.id)
        login = storable(owner.login)
        if account is None:
            return await self._enrolled(owner.id, login, installation_id) if self._enrol else None
        # Numbers of installations grow: a late word about an older one does not bring it back.
        newest = max(account.installation_id or 0, installation_id or 0) or None
        if newest != account.installation_id or login != account.login:
            return await self._enrolled(account.account_id, login, newest)
        return account

    async def _enrolled(self, account_id: int, login: str, installation_id: int | None) -> Account:
        try:
            return await self._accounts.enrol(account_id, login, installation_id)
        except InvalidEntryError:
            # Of several first words at once one writes the installation, and the others may stumble over it: by now the
            # account is to be found.
            account = await self._accounts.get(account_id)
            if account is None:
                raise
            return account


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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a job belongs: its pool, and the size it is counted as."""

    account_id: int
    pool: str
    platform: Platform
    vcpus: int
    memory_mb: int
    label: str


def announces_a_new_job(delivery: Delivery) -> bool:
    """Whether it says that a job waits; of one that cannot be read, no."""
    try:
        return delivery.event == "workflow_job" and payload.action_of(delivery.payload) in ("queued", "waiting")
    except MalformedError:
        return False


async def handle_event(
    delivery: Delivery, pools: Sequence[RunnerPool], ledger: Ledger, tenants: Tenants, clock: Clock
) -> Handled:
    """Tell the ledger. What is malformed is ignored; every LedgerError is the caller's. Repeatable."""
    known = {"workflow_job": "workflow_job", "installation": "installation", "installation_target": "installation"}
    action = known.get(delivery.event, "other")
    try:
        if delivery.event == "workflow_job":
            said = payload.action_of(delivery.payload)
            if said not in payload.JOB_ACTIONS:
                return Handled("other", "unknown_action", ignored=True)
            action = said
            event = payload.decode_job(delivery.payload)
            return await _JobTeller(event, delivery.received_at, pools, ledger, tenants, clock.now()).handle_event()
        if delivery.event == "installation":
            if payload.action_of(delivery.payload) not in payload.INSTALLATION_ACTIONS:
                return Handled(action, "unknown_action", ignored=True)
            return await _tell_installation(payload.decode_installation(delivery.payload), tenants)
        if delivery.event == "installation_target":
            if payload.action_of(delivery.payload) != "renamed":
                return Handled("installation", "unknown_action", ignored=True)
            outcome = await tenants.renamed(payload.decode_renamed(delivery.payload))
            return Handled("installation", outcome, ignored=outcome == "unknown_installation")
        return Handled("other", "unknown_event", ignored=True)
    except MalformedError as error:
        # It will be malformed every time: trying again only hides it.
        return Handled(action, "malformed", ignored=True, sentence=str(error))


async def _tell_installation(event: InstallationEvent, tenants: Tenants) -> Handled:
    arriving = event.action in ("created", "unsuspend")
    outcome = await (tenants.installed(event) if arriving else tenants.removed(event))
    return Handled("installation", outcome, ignored=outcome in ("no_account", "unknown_installation"))


class _JobTeller:
    def __init__(
        self,
        event: JobEvent,
        received_at: datetime,
        pools: Sequence[RunnerPool],
        ledger: Ledger,
        tenants: Tenants,
        now: datetime,
    ) -> None:
        self._event = event
        self._job = event.workflow_job
        self._received_at = received_at
        self._pools = pools
        self._ledger = ledger
        self._tenants = tenants
        self._now = now
        self._choice = choose(pools, event.workflow_job.labels)

    async def handle_event(self) -> Handled:
        if isinstance(self._choice, Chosen) and self._choice.pool.spec.job_source == "ScaleSet":
            # The scale set's queue announces it; its number there and here would be two jobs.
            return self._ignored("scale_set")
        match self._event.action:
            case "in_progress":
                return await self._in_progress()
            case "completed":
                return await self._completed()
            case _:
                return await self._queued()

    async def _queued(self) -> Handled:
        choice, status, why = self._choice, "waiting" if self._event.held_back else "queued", ""
        if isinstance(choice, Ignored):
            if choice.nearest is None:
                return self._ignored(choice.reason, choice.sentence)
            # It carries a dispatch label of ours, so that nobody else will run it: known, shown, and routed once a pool
            # offers what it asks for.
            status, why = ("waiting", "") if self._event.held_back else ("unserved", choice.sentence)
            choice = Chosen(choice.nearest, choice.nearest.spec.dispatch_label)
        place = await self._chosen_place(choice)
        if place is None:
            return self._ignored("no_account")
        moved = await self._ledger.jobs.enqueue(self._new_job(place), status=status, why=why)
        return Handled(self._event.action, str(moved), sentence=why)

    async def _in_progress(self) -> Handled:
        runner_name = self._event.runner_name
        if runner_name is None:
            return self._ignored("no_runner")
        if isinstance(self._choice, Chosen):
            place = await self._chosen_place(self._choice)
            reason = "no_account"
        elif self._choice.reason in ("no_pools", "no_matching_pool") and not offered(self._pools, self._job.labels):
            # A third of all deliveries are these: other people's jobs, not worth a question to the database.
            return self._ignored(self._choice.reason)
        else:
            place = await self._known_place(runner_name)
            reason = self._choice.reason
        if place is None:
            return self._ignored(reason)
        started_at = moment(self._job.started_at, self._now, self._received_at)
        return self._told(
            await self._ledger.jobs.started(self._new_job(place), runner_name=runner_name, started_at=started_at)
        )

    async def _completed(self) -> Handled:
        runner_name = self._event.runner_name
        if isinstance(self._choice, Chosen):
            place = await self._chosen_place(self._choice)
            reason = "no_account"
        else:
            # A row is looked for whatever the labels: its pool may have changed since, and this is its last word.
            place = await self._known_place(runner_name)
            reason = self._choice.reason
        if place is None:
            return self._ignored(reason)
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

    async def _chosen_place(self, chosen: Chosen) -> _Place | None:
        account = await self._tenants.of(self._event)
        if account is None:
            return None
        pool = chosen.pool
        return _Place(
            account.account_id,
            pool.metadata.name,
            pool.platform,
            pool.vcpus,
            pool.spec.pod_memory_mb,
            storable(chosen.label),
        )

    async def _known_place(self, runner_name: str | None) -> _Place | None:
        """Where the job is by our own records: its row, or the runner of ours that it was given to."""
        row = await self._ledger.jobs.get(self._job.id)
        if row is not None:
            return _Place(row.account_id, row.pool, _platform(row.platform), row.vcpus, row.memory_mb, row.label)
        if runner_name is None or not offered(self._pools, self._job.labels):
            return None
        account = await self._tenants.known(self._event)
        if account is None:
            return None
        # A runner's name means something only within its account.
        runner = await self._ledger.overview.runner(account.account_id, runner_name)
        if runner is None:
            return None
        return _Place(account.account_id, runner.pool, _platform(runner.platform), runner.vcpus, runner.memory_mb, "")

    def _new_job(self, place: _Place) -> NewJob:
        job = self._job
        return NewJob(
            job_id=job.id,
            account_id=place.account_id,
            pool=place.pool,
            platform=place.platform,
            vcpus=place.vcpus,
            memory_mb=place.memory_mb,
            repository=storable(self._event.repository.full_name),
            repository_id=self._event.repository.id,
            enqueued_at=moment(job.created_at, self._now, self._received_at),
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


def _platform(text: str) -> Platform:
    return "linux" if text == "linux" else "macos"
