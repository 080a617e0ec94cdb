"""How the listeners of a process share its files: nobody takes all, and nobody is left with none."""

import resource

import pytest

from paddock.base import connection_budget
from paddock.base.connection_budget import ConnectionBudget, of_this_process


def filled(budget: ConnectionBudget, listener: str) -> int:
    count = 0
    while budget.has_room(listener):
        budget.accepted(listener)
        count += 1
    return count


def test_one_listener_may_take_all() -> None:
    budget = ConnectionBudget(1000)
    budget.open("api")
    assert filled(budget, "api") == 1000


def test_a_crowd_leaves_to_each_other_listener_its_own_and_no_more() -> None:
    budget = ConnectionBudget(1000)
    for listener in ("api", "page", "metrics"):
        budget.open(listener)
    for _ in range(30):
        budget.accepted("page")
    assert filled(budget, "api") == 1000 - 64 - 64, "thirty of the page's own are taken"
    assert filled(budget, "page") == 34
    assert filled(budget, "metrics") == 64


@pytest.mark.parametrize("most", [64, 100, 257])
def test_where_there_are_few_they_are_shared(most: int) -> None:
    budget, listeners = ConnectionBudget(most), ["api", "page", "metrics", "dispatch", "runners"]
    for listener in listeners:
        budget.open(listener)
    counts = [filled(budget, listener) for listener in listeners]
    assert min(counts) >= most // 10
    assert sum(counts) == most


def test_what_ended_is_free_and_a_listener_that_closed_holds_nothing_back() -> None:
    budget = ConnectionBudget(100)
    budget.open("api")
    budget.open("page")
    assert filled(budget, "api") == 75
    budget.ended("api")
    assert filled(budget, "api") == 1
    budget.close("page")
    assert filled(budget, "api") == 25
    budget.ended("page")  # a connection that outlived its listener


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        pytest.param(1024, 4096, 4096, 3840, id="Linux, by hand"),
        pytest.param(1024, 1_048_576, 20_256, 20_000, id="in a container"),
        pytest.param(256, resource.RLIM_INFINITY, 20_256, 20_000, id="without a hard limit"),
        pytest.param(300, 300, None, 64, id="hardly any"),
        pytest.param(30_000, 30_000, None, 20_000, id="plenty"),
        pytest.param(resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, 20_000, id="no limit at all"),
    ],
)
def test_the_soft_limit_is_raised_first_and_what_the_rest_needs_is_kept(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None, most: int
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(connection_budget, "_budgets", [])
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert of_this_process().most == most
    assert asked == ([] if raised is None else [(raised, hard)])
    assert of_this_process() is of_this_process()


def test_a_system_that_gives_less_is_asked_for_what_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """MacOS promises any number, and refuses more than its kernel has."""

    def refuse(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > 10_240:
            raise ValueError("not allowed")

    monkeypatch.setattr(connection_budget, "_budgets", [])
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert of_this_process().most == 10_240 - 256
