"""Runner groups of organisations: their numbers by name, and whether a repository may use them.

A runner in a group that is closed to the repository waits for ever, and its Mac with it, while GitHub shows nothing. So the
group is looked up before each mint, among those that the organisation opens to the repository, and remembered for a while.
"""

from urllib.parse import quote

from paddock.base.clock import Clock
from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.contract import Priority, RunnerPlace
from paddock.clients.github.errors import Forbidden, GroupRefused, IncompleteList, NotFound, RateLimited
from paddock.clients.github.messages import GitHubRequest
from paddock.clients.github.model import WireGroup, group_page
from paddock.clients.github.paging import read_all

__all__ = ["DEFAULT_GROUP", "RunnerGroups"]

DEFAULT_GROUP = 1
"""The number that GitHub gives every organisation's first group, and that runners of a repository have to name."""
_REMEMBERED = 900.0
_WHERE = "in the organisation's settings under Actions, Runner groups"


class RunnerGroups:
    def __init__(self, connection: GitHubConnection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[int, float]] = {}

    async def usable(self, place: RunnerPlace, project: str, group: str, deadline: float) -> int:
        """The number of the group of that name ('' for the default one), if the repository may use it.

        GroupRefused says what to do otherwise. Where GitHub does not show groups, the default one is taken on trust, as the
        mint itself will tell; a named one cannot be.
        """
        key = _key(place, project, group)
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() < known[1]:
            return known[0]
        try:
            open_to = await self._groups(place, {"visible_to_repository": project}, deadline)
        except (Forbidden, IncompleteList, NotFound, RateLimited):
            if group:
                raise
            return DEFAULT_GROUP
        found = next((one for one in open_to if _is(one, group)), None)
        if found is None:
            repository = f"{place.owner}/{project}"
            raise GroupRefused(await self._sentence(place, repository, group, deadline))
        self._known[key] = (found.id, self._clock.monotonic() + _REMEMBERED)
        return found.id

    def forget(self, place: RunnerPlace, project: str, group: str) -> None:
        self._known.pop(_key(place, project, group), None)

    async def _sentence(self, place: RunnerPlace, repository: str, group: str, deadline: float) -> str:
        if not group:
            return (
                f"the default runner group of {place.owner} is closed to {repository}: open it {_WHERE}, or name another"
                " group in the pool's spec.runnerGroup"
            )
        there = await self._groups(place, {}, deadline)
        if any(_is(one, group) for one in there):
            return f"the runner group {group!r} of {place.owner} is closed to {repository}: open it {_WHERE}"
        names = ", ".join(sorted(one.name for one in there)) or "none"
        return (
            f"{place.owner} has no runner group {group!r} (it has: {names}): create it {_WHERE}, or correct the pool's"
            " spec.runnerGroup"
        )

    async def _groups(self, place: RunnerPlace, params: dict[str, str | int], deadline: float) -> list[WireGroup]:
        call = GitHubRequest(
            installation_id=place.installation_id,
            priority=Priority.VERIFY,
            method="GET",
            path=f"/orgs/{quote(place.owner, safe='')}/actions/runner-groups",
            params=params,
        )
        return await read_all(self._connection, call, group_page, deadline=deadline)


def _is(one: WireGroup, group: str) -> bool:
    return one.name.lower() == group.lower() if group else one.default


def _key(place: RunnerPlace, project: str, group: str) -> tuple[str, str, str]:
    return place.owner.lower(), project.lower(), group.lower()
