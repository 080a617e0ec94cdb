"""What GitHub's lists say of our runners: the one reader, for every worker that asks whether a runner is still there.

A runner stands in the list of the place where it was minted, which its session remembers: that list alone counts. Another place
that refuses us its list says nothing about it, and one that does not show it proves nothing. Where the place was not kept, the
runner may be at the organisation or at the repository, and is absent only by complete lists of both, as far as they exist.

A place that refuses or lacks its own list is not knowing. Neither is an empty list by itself proof, because it looks the same as
one that lost everything: it counts only where the ledger knows of no other runner at work that should be in it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from paddock.clients.github import Forbidden, GitHub, GitHubError, GitHubRunner, NotFound, RunnerPlace
from paddock.runners.healing.verdicts.pod_facts import RunnerRow
from paddock.runners.ledger import Ledger
from paddock.runners.ledger.registrations import Registration

__all__ = ["RunnerLists", "RunnerStanding", "possible_places"]


@dataclass(frozen=True, slots=True)
class RunnerStanding:
    """What the lists say of one runner; where it is listed, also the place and the row."""

    row: RunnerRow
    why: str = ""
    """Why it is not known."""
    place: RunnerPlace | None = None
    runner: GitHubRunner | None = None


def possible_places(registration: Registration) -> tuple[RunnerPlace, ...]:
    """Where the runner is listed, if it is anywhere: one place where that was kept, else the organisation and the repository."""
    installation_id = registration.installation_id
    kind, _, rest = (registration.place or "").partition("/")
    if kind == "orgs":
        # By the login of now: an organisation that was renamed took its runners along.
        return (RunnerPlace(installation_id, registration.login or rest),)
    owner, _, repository = (rest if kind == "repos" else registration.repository).partition("/")
    if not repository:
        return ()
    at_repository = RunnerPlace(installation_id, owner, repository)
    return (at_repository,) if kind == "repos" else (RunnerPlace(installation_id, owner), at_repository)


class RunnerLists:
    """Each list is read once in the life of this object: make one for each pass, and a new one to look again.

    Nothing of GitHub's is raised: `on_trouble` hears of a list that did not come. That a place is not there, or not ours to
    list, is an answer.
    """

    def __init__(
        self,
        github: GitHub,
        ledger: Ledger,
        on_trouble: Callable[[RunnerPlace, GitHubError], None] = lambda _place, _error: None,
        may_ask: Callable[[RunnerPlace], bool] = lambda _place: True,
    ) -> None:
        self._github = github
        self._ledger = ledger
        self._on_trouble = on_trouble
        self._may_ask = may_ask
        self._lists: dict[RunnerPlace, dict[str, GitHubRunner] | GitHubError | None] = {}

    async def of(self, place: RunnerPlace) -> dict[str, GitHubRunner] | GitHubError | None:
        """Every runner registered there by name, or why that is not known; None where it may not be asked now."""
        if place not in self._lists:
            self._lists[place] = await self._read(place)
        return self._lists[place]

    async def standing(self, registration: Registration) -> RunnerStanding:
        """What is known of this runner."""
        known = any_listed = False
        why = ""
        for place in possible_places(registration):
            listed = await self.of(place)
            if isinstance(listed, NotFound) and registration.place is None:
                continue  # no organisation of that name: then it was minted at the repository
            if not isinstance(listed, dict):
                why = f"GitHub gives no list of the runners of {place.path}" + (f": {listed.message}" if listed else "")
                continue
            if (runner := listed.get(registration.runner_name)) is not None:
                row = RunnerRow.BUSY if runner.busy else RunnerRow.IDLE if runner.online else RunnerRow.OFFLINE
                return RunnerStanding(row, "", place, runner)
            known, any_listed = True, any_listed or bool(listed)
        if not known and not why:
            why = f"GitHub knows neither an organisation nor a repository {registration.repository or 'without a name'}"
        if not why and not any_listed and await self._ledger.registrations.others_at_work(registration):
            why = "GitHub lists no runner at all, although another one works there"
        return RunnerStanding(RunnerRow.UNKNOWN if why else RunnerRow.ABSENT, why)

    async def _read(self, place: RunnerPlace) -> dict[str, GitHubRunner] | GitHubError | None:
        if not self._may_ask(place):
            return None
        try:
            return {runner.name: runner for runner in await self._github.runners(place)}
        except (NotFound, Forbidden) as error:
            return error
        except GitHubError as error:
            self._on_trouble(place, error)
            return error
