"""Runner rows at GitHub that no Pod will ever use again: unregistered, at the lowest priority.

GitHub drops an unused single-job runner by itself after a day; until then it stands in the organisation's list, and
thousands of them slow that list down for everybody.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from paddock.base.clock import Clock
from paddock.base.explanation import span
from paddock.clients.github import Forbidden, GitHub, GitHubRunner, NotFound, RunnerPlace
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import PLAUSIBLE_FROM
from paddock.runners.healing.inquiry import Inquiry, Questions
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.pod_snapshot import CountPods, PodSnapshot
from paddock.runners.healing.runner_lists import possible_places
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import Ledger, Session
from paddock.runners.ledger.registrations import Registration, is_marked

__all__ = ["OfflineRunners"]


class OfflineRunners:
    """Kind `offline_runner`.

    Proof: a complete list (G) shows it offline and idle, twice, `offline_grace` apart and never otherwise in between; its
    name is of a session that has ended (P), or carries this installation's mark and no session and no claim knows it, so that
    it was minted and never handed out; its Pod is not alive (K). A runner that is only named like ours is somebody else's.
    Sightings are remembered by this process alone.
    """

    name = "offline_runners"

    def __init__(
        self,
        ledger: Ledger,
        github: GitHub,
        pods: CountPods,
        settings: HealingSettings,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._github = github
        self._pods = pods
        self._settings = settings
        self._clock = clock
        self._inquiry = Inquiry(github, ledger, clock)
        self.seen: dict[tuple[RunnerPlace, int], datetime] = {}
        self.every = settings.every

    def recall(self, other: "OfflineRunners") -> None:
        """As `Remembers`."""
        self.seen = dict(other.seen)

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        registrations = await self._ledger.registrations.since(self._clock.now() - timedelta(days=1))
        if not registrations:
            return pass_report.report()
        # Lists at GitHub before the ledger and the Pods: a runner minted after its list was read is not in it.
        questions = self._inquiry.begin(pass_report, ())
        places: dict[RunnerPlace, tuple[set[int], list[GitHubRunner]]] = {}
        unread: set[str] = set()
        for registration in registrations:
            if (read := await _read(registration, questions)) is None:
                unread |= {place.owner for place in possible_places(registration)}
            else:
                place, runners = read
                places.setdefault(place, (set(), runners))[0].add(registration.account_id)
        mark = await self._ledger.registrations.drawn_mark()
        snapshot = await self._pods()
        if snapshot.empty and any(runner.online for _, runners in places.values() for runner in runners):
            pass_report.refuse(
                "the list of Pods is empty while runners are online: not believed, nothing is unregistered"
            )
            return pass_report.report()
        observations: dict[tuple[RunnerPlace, int], datetime] = {
            # A list that could not be read says nothing: what was seen before stays as old as it was.
            key: when
            for key, when in self.seen.items()
            if key[0].owner in unread
        }
        for place, (accounts, runners) in places.items():
            if not pass_report.stopped:
                with pass_report.item(f"runners of {place.path}"):
                    await self._place(place, accounts, runners, mark, snapshot, observations, pass_report)
        self.seen = observations
        return pass_report.report()

    async def _place(
        self,
        place: RunnerPlace,
        accounts: Collection[int],
        runners: Collection[GitHubRunner],
        mark: str | None,
        snapshot: PodSnapshot,
        observations: dict[tuple[RunnerPlace, int], datetime],
        pass_report: PassReport,
    ) -> None:
        names = [runner.name for runner in runners]
        sessions = await self._ledger.unconfirmed.sessions_by_runner(accounts, names)
        held = await self._ledger.unconfirmed.held_runners(accounts, names)
        ours = [runner for runner in runners if runner.name in sessions or is_marked(runner.name, mark)]
        pass_report.looked += len(ours)
        if len(ours) >= PLAUSIBLE_FROM and not sessions:
            pass_report.refuse(f"this ledger knows none of {len(ours)} runners of {place.path}: is it the right one?")
            return
        now = self._clock.now()
        for runner in ours:
            if runner.online or runner.busy or runner.name in held or _may_live(sessions.get(runner.name), snapshot):
                continue
            key = (place, runner.runner_id)
            first = observations[key] = self.seen.get(key, now)
            if now - first >= self._settings.offline_grace and not pass_report.stopped:
                with pass_report.item(f"runner {runner.name} of {place.path}"):
                    await self._unregister(place, runner, first, sessions.get(runner.name), pass_report)

    async def _unregister(
        self,
        place: RunnerPlace,
        runner: GitHubRunner,
        first: datetime,
        session: Session | None,
        pass_report: PassReport,
    ) -> None:
        ended = None if session is None or session.ended_at is None else session.ended_at
        why = "its Pod has ended" if ended is not None else "it was minted and never handed out"
        now = self._clock.now()
        heal = Healed(
            kind="offline_runner",
            subject=f"runner {runner.name}",
            sentence=f"runner {runner.name} of {place.path} was unregistered: {why}, and it has been offline for {span(now - first)}",
            evidence={
                "runner_id": runner.runner_id,
                "runner_name": runner.name,
                "place": place.path,
                "pod_uid": None if session is None else session.pod_uid,
                "session_ended_at": None if ended is None else ended.isoformat(),
                "first_seen_offline": first.isoformat(),
            },
            seconds=(now - (ended or first)).total_seconds(),
        )
        if pass_report.may(heal):
            await self._github.remove_runner(place, runner.runner_id)
            pass_report.done(heal)


def _may_live(session: Session | None, snapshot: PodSnapshot) -> bool:
    """Whether the Pod that was handed this runner may still be there."""
    return session is not None and (session.ended_at is None or session.pod_uid in snapshot.alive)


async def _read(registration: Registration, questions: Questions) -> tuple[RunnerPlace, list[GitHubRunner]] | None:
    """The list in which such a runner stands: of its place, or of the first of the possible ones that shows us its own."""
    for place in possible_places(registration):
        listed = await questions.runners.of(place)
        if isinstance(listed, dict):
            return place, list(listed.values())
        if not isinstance(listed, (NotFound, Forbidden)):
            return None
    return None
