"""Webhooks that GitHub could not deliver: asked for again while GitHub still can."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from paddock.base.clock import Clock
from paddock.clients.github import GitHub, GitHubError, HookDelivery, Invalid, RateLimited
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Ledger

__all__ = ["Redelivery", "undelivered"]

_HORIZON = timedelta(days=3)
"""GitHub delivers again what is at most so old."""
_ASK_AGAIN = 3
"""Passes after which a redelivery that did not show up is asked for again."""
_OVERLAP = timedelta(minutes=3)
"""How much of what was read before is read again: an attempt may show up late in GitHub's log."""


class _DeliveryLog:
    """What is known of an App's log: read as a whole once in each window, and in between only what is new.

    A busy App has thousands of attempts in a window, of which GitHub shows a hundred a request: read every minute, they alone
    would take up its hourly allowance.
    """

    def __init__(self) -> None:
        self._attempts: dict[int, HookDelivery] = {}
        self._since: datetime | None = None
        """From when on nothing is missing; None before the first read."""
        self._whole_at = datetime.min.replace(tzinfo=UTC)

    async def read(self, github: GitHub, since: datetime, now: datetime, window: timedelta) -> list[HookDelivery]:
        """The attempts since then. A read that fails raises, and changes nothing."""
        whole = self._since is None or since < self._since or now - self._whole_at >= window
        # By GitHub's own times and not by ours: a clock of ours that is ahead would hide what is new.
        newest = max((one.delivered_at for one in self._attempts.values()), default=since)
        begin = since if whole else max(since, newest - _OVERLAP)
        new = await github.deliveries(begin)
        kept = {} if whole else self._attempts
        merged = {**kept, **{one.delivery_id: one for one in new}}
        self._attempts = {number: one for number, one in merged.items() if one.delivered_at >= since}
        self._since = since
        if whole:
            self._whole_at = now
        return list(self._attempts.values())


@dataclass
class _Memory:
    covered: dict[str, datetime] = field(default_factory=dict)
    logs: dict[str, _DeliveryLog] = field(default_factory=dict)
    asked: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    hopeless: set[int] = field(default_factory=set)


class Redelivery:
    """Kind `redelivered`. Each App by itself: trouble with one keeps no other from its deliveries.

    A redelivery has the id of the original, so that one too many is known as a repeat and changes nothing. What was looked
    through completely is remembered; the first pass of a process looks back to the last delivery that was ever stored, so
    that an outage of ours longer than the window loses nothing that GitHub still has.
    """

    name = "redelivery"

    def __init__(
        self,
        ledger: Ledger,
        apps: Mapping[str, GitHub],
        settings: HealingSettings,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._apps = apps
        self._settings = settings
        self._clock = clock
        self.memory = _Memory()
        self.every = settings.redelivery_every

    def recall(self, other: "Redelivery") -> None:
        """As `Remembers`."""
        self.memory = deepcopy(other.memory)

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        heard = await self._ledger.deliveries.newest()
        for app, github in self._apps.items():
            if pass_report.stopped:
                break
            with pass_report.item(f"deliveries of App {app}"):
                await self._app(app, github, heard, pass_report)
        return pass_report.report()

    async def _app(self, app: str, github: GitHub, heard: datetime | None, pass_report: PassReport) -> None:
        now = self._clock.now()
        window = self._settings.redelivery_window
        # Kept from the first look on, so that what a failed pass missed is not forgotten with it.
        covered = self.memory.covered.setdefault(app, min(now, heard or now))
        since = max(now - _HORIZON, covered - window)
        attempts = await self.memory.logs.setdefault(app, _DeliveryLog()).read(github, since, now, window)
        missed = undelivered(attempts)
        known = await self._ledger.deliveries.known([one.guid for one in missed]) if missed else frozenset[str]()
        pass_report.looked += len({one.guid for one in attempts})
        seen = {one.delivery_id for one in attempts}
        self.memory.hopeless &= seen
        unasked = [now]
        for attempt in missed:
            if attempt.guid in known or attempt.delivery_id in self.memory.hopeless or self._under_way(attempt):
                continue  # our answer was lost and not the delivery; or GitHub will not, or is about to, deliver it
            if not await self._redeliver(app, github, attempt, pass_report):
                unasked.append(attempt.delivered_at)
        self.memory.asked = {guid: last for guid, last in self.memory.asked.items() if last[0] in seen}
        # What was asked for shows up as a new attempt; only what was not must stay in view.
        self.memory.covered[app] = min(unasked)

    def _under_way(self, attempt: HookDelivery) -> bool:
        """Whether this attempt was followed by a request of ours, and the one to come may still come."""
        last, when = self.memory.asked.get(attempt.guid, (0, self._clock.now()))
        return last == attempt.delivery_id and self._clock.now() - when < timedelta(seconds=_ASK_AGAIN * self.every)

    async def _redeliver(self, app: str, github: GitHub, attempt: HookDelivery, pass_report: PassReport) -> bool:
        """Whether it needs no further look of ours: a new attempt will come, or none can."""
        what = f"{attempt.event} {attempt.action or ''}".strip()
        heal = Healed(
            kind="redelivered",
            subject=f"delivery {attempt.guid}",
            sentence=f"GitHub was asked to deliver {what} ({attempt.guid}) of App {app} again: its last attempt was answered {attempt.status_code}",
            evidence={
                "app": app,
                "guid": attempt.guid,
                "delivery_id": attempt.delivery_id,
                "event": attempt.event,
                "action": attempt.action,
                "status_code": attempt.status_code,
                "delivered_at": attempt.delivered_at.isoformat(),
            },
            seconds=max(0.0, (self._clock.now() - attempt.delivered_at).total_seconds()),
        )
        if not pass_report.may(heal):
            return pass_report.only_reports(heal.kind)
        try:
            await github.redeliver(attempt.delivery_id)
        except Invalid:
            self.memory.hopeless.add(attempt.delivery_id)
            pass_report.refuse(f"delivery {attempt.guid} of App {app} cannot be delivered again: GitHub says so")
            return True
        except RateLimited:
            raise  # the rest of this App waits for the next pass
        except GitHubError as error:
            pass_report.fail(f"delivery {attempt.guid} of App {app}: {error.message}")
            return False
        self.memory.asked[attempt.guid] = (attempt.delivery_id, self._clock.now())
        pass_report.done(heal)
        return True


def undelivered(attempts: Sequence[HookDelivery]) -> list[HookDelivery]:
    """The latest attempt of every job event of which no attempt arrived, oldest first. Pure.

    All attempts are needed, successes included: a list of failures alone hides that a later attempt arrived.
    """
    by_guid: dict[str, list[HookDelivery]] = {}
    for attempt in attempts:
        if attempt.event == "workflow_job" and attempt.guid:
            by_guid.setdefault(attempt.guid, []).append(attempt)
    latest = [
        max(tries, key=lambda attempt: (attempt.delivered_at, attempt.delivery_id))
        for tries in by_guid.values()
        if not any(attempt.arrived for attempt in tries)
    ]
    return sorted(latest, key=lambda attempt: (attempt.delivered_at, attempt.delivery_id))
