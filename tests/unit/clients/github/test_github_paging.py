"""Lists are complete or an error, whatever happens to them while they are read."""

from collections.abc import Callable, Iterable

import httpx2
import pytest
from doubles.clocks import SteppedClock
from doubles.scripted_github import INSTALLATION, ScriptedGitHub, ok, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.clients.github import IncompleteList, RunnerPlace, Unavailable

ORGANISATION = RunnerPlace(INSTALLATION, "acme")


class Runners:
    """A list of runners that GitHub pages, in the given order, and that `change` may change after each page."""

    def __init__(self, ids: Iterable[int], order: Callable[[list[int]], list[int]] = sorted) -> None:
        self.ids = list(ids)
        self.order = order
        self.read: list[int] = []
        self.change: Callable[[int], None] = lambda _: None

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.params["per_page"] == "100"
        page = int(request.url.params["page"])
        self.read.append(page)
        shown = self.order(self.ids)[(page - 1) * 100 : page * 100]
        answer = {
            "total_count": len(self.ids),
            "runners": [{"id": key, "name": f"r{key}", "status": "online", "busy": False} for key in shown],
        }
        self.change(len(self.read))
        return ok(answer)


def newest_first(ids: list[int]) -> list[int]:
    return sorted(ids, reverse=True)


def by_name(ids: list[int]) -> list[int]:
    return sorted(ids, key=lambda key: str(key)[::-1])


async def listed(github: ScriptedGitHub) -> list[int]:
    return [runner.runner_id for runner in await github.client().runners(ORGANISATION)]


@pytest.mark.parametrize("order", [sorted, newest_first, by_name])
@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200, 250])
async def test_a_list_that_keeps_still_is_read_whole(
    github: ScriptedGitHub, count: int, order: Callable[[list[int]], list[int]]
):
    github.script = [Runners(range(1, count + 1), order)]
    assert sorted(await listed(github)) == list(range(1, count + 1))


@pytest.mark.parametrize("order", [sorted, newest_first, by_name])
async def test_a_runner_that_ends_while_another_begins_hides_nobody(
    github: ScriptedGitHub, order: Callable[[list[int]], list[int]]
):
    # The total stays the same, and reading forwards in the order oldest first would miss the first of page two.
    runners = Runners(range(1, 251), order)

    def change(reads: int) -> None:
        if reads == 1:
            runners.ids.remove(5)
            runners.ids.append(251)

    runners.change = change
    github.script = [runners]
    assert set(await listed(github)) >= set(range(1, 251)) - {5}


@pytest.mark.parametrize("order", [sorted, newest_first, by_name])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
async def test_whoever_was_there_all_the_time_is_in_the_list(order: Callable[[list[int]], list[int]], data):
    github = ScriptedGitHub(SteppedClock())
    count = data.draw(st.integers(95, 330))
    runners = Runners(range(1, count + 1), order)
    there_all_the_time = set(runners.ids)
    churn = data.draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3)), max_size=6))

    def change(_: int) -> None:
        if churn:
            place, born = churn.pop()
            if place < len(runners.ids):
                there_all_the_time.discard(runners.ids.pop(place))
            start = max(runners.ids, default=0) + 1000
            runners.ids.extend(range(start, start + born))

    runners.change = change
    github.script = [runners]
    try:
        found = await listed(github)
    except IncompleteList:
        return
    assert set(found) >= there_all_the_time
    assert len(found) == len(set(found))


async def test_a_list_in_steady_change_is_read_all_the_same_where_it_is_oldest_first(github: ScriptedGitHub):
    runners = Runners(range(1, 451))

    def change(_: int) -> None:
        runners.ids.pop(0)
        runners.ids.append(runners.ids[-1] + 1)

    runners.change = change
    github.script = [runners]
    assert set(await listed(github)) >= set(range(20, 451))
    assert runners.read == [1, 5, 4, 3, 2, 1]


@pytest.mark.parametrize("order", [newest_first, by_name])
async def test_a_list_that_never_keeps_still_is_an_error(
    github: ScriptedGitHub, order: Callable[[list[int]], list[int]]
):
    runners = Runners(range(1, 251), order)
    runners.change = lambda _: runners.ids.append(max(runners.ids) + 1)
    github.script = [runners]
    with pytest.raises(IncompleteList, match="/orgs/acme/actions/runners"):
        await listed(github)


async def test_a_page_that_lacks_entries_is_an_error(github: ScriptedGitHub):
    github.script = [ok({"total_count": 3, "runners": []})]
    with pytest.raises(IncompleteList, match="0 entries were read, but the total is 3"):
        await listed(github)
    assert len(github.requests) == 3


async def test_an_entry_that_is_there_twice_is_an_error(github: ScriptedGitHub):
    entry = {"id": 1, "name": "r1", "status": "online", "busy": False}
    github.script = [ok({"total_count": 2, "runners": [entry, entry]})]
    with pytest.raises(IncompleteList, match="twice"):
        await listed(github)


async def test_a_total_beyond_reason_is_an_error(github: ScriptedGitHub):
    github.script = [ok({"total_count": 10**9, "runners": []})]
    with pytest.raises(IncompleteList, match="more than can be read"):
        await listed(github)


async def test_a_page_that_cannot_be_read_is_an_error_and_never_the_end(github: ScriptedGitHub):
    runners = Runners(range(1, 251))

    def answer(request: httpx2.Request) -> httpx2.Response:
        return refused(502) if request.url.params["page"] == "2" else runners(request)

    github.script = [answer]
    with pytest.raises(Unavailable):
        await listed(github)


async def test_a_list_ends_by_its_deadline(github: ScriptedGitHub, clock: SteppedClock):
    runners = Runners(range(1, 5001))
    runners.change = lambda _: clock.step(5)
    github.script = [runners]
    with pytest.raises(Unavailable):
        await listed(github)
    assert clock.monotonic() <= 125


# Without a total: installations


def installations(*ids: int, last: bool) -> httpx2.Response:
    link = {} if last else {"link": '<http://127.0.0.1:1/app/installations?per_page=100&page=2>; rel="next"'}
    return ok([{"id": key, "account": {"id": key * 10, "login": f"org-{key}"}} for key in ids], headers=link)


async def test_installations_are_read_to_the_last_page(github: ScriptedGitHub):
    first, second = installations(1, 2, last=False), installations(3, last=True)
    github.script = [lambda request: second if request.url.params["page"] == "2" else first]
    assert [entry.installation_id for entry in await github.client().installations()] == [1, 2, 3]
    assert [request.url.params["page"] for request in github.requests] == ["1", "2", "1", "2"]


async def test_installations_that_change_while_they_are_read_are_read_again(github: ScriptedGitHub):
    first, moved = installations(1, 2, last=False), installations(2, 3, last=False)
    second = installations(4, last=True)
    github.script = [first, second, moved, second, moved, second, moved, second]
    assert [entry.installation_id for entry in await github.client().installations()] == [2, 3, 4]
