"""Whose a set is, how much is asked for, what a failure means, and which rows are ghosts."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import ScaleSet
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import Autoscaling, RunnerPool, RunnerPoolSpec, ScaleSetSource
from paddock.runners.ledger.assignments import OpenAssignment
from paddock.runners.ledger.scale_sets import Listenable, Room
from paddock.runners.scale_sets.decisions import (
    Found,
    GhostWatch,
    broken_off,
    capacity,
    clash,
    failure,
    judge_found,
    labels_dropped,
    set_labels,
)
from paddock.runners.scale_sets.service import wanted_sources

PLACE = RunnerPlace(5, "acme")
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def pool(
    name: str = "macos",
    *,
    replicas: int = 4,
    autoscaling: Autoscaling | None = None,
    repositories: tuple[str, ...] = (),
    source: str = "ScaleSet",
    group: str = "",
    label: str = "macos-26",
    offers: tuple[str, ...] = ("self-hosted", "macOS"),
) -> RunnerPool:
    return RunnerPool(
        metadata=ObjectMeta(name=name),
        spec=RunnerPoolSpec(
            image="runner:1",
            fleet_selector="macs",
            dispatch_label=label,
            runner_labels=offers,
            runner_group=group,
            replicas=replicas,
            autoscaling=autoscaling or Autoscaling(),
            job_source="ScaleSet" if source == "ScaleSet" else "Webhook",
            scale_set=ScaleSetSource(repositories=repositories),
        ),
    )


def found(number: int = 3, *labels: str) -> ScaleSet:
    return ScaleSet(scale_set_id=number, name="macos-26", group_id=1, labels=labels)


def room(vcpus: int = 24, memory_mb: int = 57_344, *, elsewhere: int = 0, rivals: int = 0, weight: int = 1) -> Room:
    return Room(
        vcpus=vcpus,
        memory_mb=memory_mb,
        elsewhere_vcpus=6 * elsewhere,
        elsewhere_memory_mb=14_336 * elsewhere,
        rivals=rivals,
        weight=weight,
    )


def test_a_set_is_ours_by_our_row_or_by_our_label_and_never_by_its_name() -> None:
    assert judge_found(None, recorded=3, owner="us") is Found.NONE
    assert judge_found(found(3), recorded=3, owner="us") is Found.OURS
    assert judge_found(found(9, "Paddock-US"), recorded=None, owner="us") is Found.OURS
    assert judge_found(found(9, "macos-26", "paddock-them"), recorded=3, owner="us") is Found.ANOTHERS


def test_the_set_offers_all_that_jobs_may_ask_for_and_says_whose_it_is() -> None:
    assert set_labels(pool(), "us") == ("macos-26", "self-hosted", "macOS", "paddock-us")
    assert labels_dropped(pool(), found(1, "macos-26", "MACOS")) == ("self-hosted",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (room(), 4),  # as many as the limit and the pool allow
        (room(vcpus=13), 2),
        (room(memory_mb=14_336), 1),
        (room(elsewhere=3), 1),
        (room(elsewhere=4), 1),  # nothing is left, and yet an account must be seen
        (room(rivals=1), 2),  # a fair part
        (room(rivals=9), 1),
        (room(rivals=1, weight=3), 3),  # three parts of four
        (room(rivals=3), 1),  # beside an account of weight 3
        (room(vcpus=12, rivals=1, weight=100), 2),  # and never above the limit
        (None, 1),
    ],
)
def test_the_capacity_is_a_promise_that_can_be_kept(given: Room | None, expected: int) -> None:
    assert capacity(given, pool(), draining=False) == expected


def test_the_autoscaler_may_make_room_up_to_its_most() -> None:
    assert (
        capacity(room(), pool(replicas=0, autoscaling=Autoscaling(enabled=True, max_replicas=3)), draining=False) == 3
    )


@pytest.mark.parametrize("given", [room(), None])
@pytest.mark.parametrize("autoscaling", [Autoscaling(), Autoscaling(enabled=True, max_replicas=0)])
def test_a_pool_that_may_have_no_pod_asks_for_nothing(given: Room | None, autoscaling: Autoscaling) -> None:
    assert capacity(given, pool(replicas=0, autoscaling=autoscaling), draining=False) == 0


def test_a_source_that_ends_asks_for_nothing() -> None:
    assert capacity(room(), pool(), draining=True) == 0


@pytest.mark.parametrize(
    ("error", "state", "again_in", "says"),
    [
        (github.Unavailable("GET: no answer"), "Lost", 2.0, "cannot be asked for jobs"),
        (github.RateLimited("slow down", retry_after=40), "Lost", 40.0, "left alone for 40 s"),
        (github.Conflict("active session"), "Conflict", 15.0, "another listener holds the queue"),
        (github.Forbidden("no"), "Refused", 300.0, "grant it 'Self-hosted runners: write'"),
        (github.NotFound("no"), "Refused", 300.0, "name its repositories in scaleSet.repositories"),
        (github.Invalid("bad name"), "Refused", 300.0, "does not accept the scale set: bad name"),
    ],
)
def test_a_failure_says_what_it_means_and_when_it_is_tried_again(
    error: github.GitHubError, state: str, again_in: float, says: str
) -> None:
    told = failure(error, PLACE, failures=1)
    assert (told.state, told.again_in) == (state, again_in)
    assert says in told.sentence


def test_failures_in_a_row_are_tried_again_at_most_every_quarter_minute() -> None:
    assert [failure(github.Unavailable("x"), PLACE, failures=n).again_in for n in (1, 2, 3, 4, 99)] == [2, 4, 8, 15, 15]


def assigned(minutes: float, *, started: bool = False) -> OpenAssignment:
    at = NOW - timedelta(minutes=minutes)
    return OpenAssignment(
        job_id=1,
        source_id=1,
        assignment="a",
        workflow_run_id=1,
        assigned_at=at,
        runner_name="r" if started else None,
        started_at=at if started else None,
        finished_at=None,
        result=None,
        forge_job_id=None,
    )


def test_a_row_is_a_ghost_after_two_empty_reads_a_minute_apart() -> None:
    watch, row = GhostWatch(), assigned(10)
    assert watch.ghosts(0, [row], NOW) == []
    assert watch.ghosts(0, [row], NOW + timedelta(seconds=59)) == []
    assert watch.ghosts(0, [row], NOW + timedelta(seconds=60)) == [row]


def test_a_read_that_shows_a_job_begins_anew() -> None:
    watch, row = GhostWatch(), assigned(10)
    watch.ghosts(0, [row], NOW)
    assert watch.ghosts(1, [row], NOW + timedelta(seconds=30)) == []
    assert watch.ghosts(0, [row], NOW + timedelta(seconds=70)) == []


def test_neither_a_young_assignment_nor_a_job_with_a_runner_is_a_ghost() -> None:
    watch, later = GhostWatch(), NOW + timedelta(seconds=60)
    young, running = assigned(0), assigned(10, started=True)
    watch.ghosts(0, [], NOW)
    assert watch.ghosts(0, [young, assigned(10)], later) == []
    assert watch.ghosts(0, [running], later) == []


ACME = Listenable(1, "acme", 11)


def test_each_account_has_a_source_in_each_pool_that_asks() -> None:
    wanted = wanted_sources([pool("a"), pool("b", source="Webhook")], [ACME, Listenable(2, "bolt", 12)])
    assert [(key.pool, key.account_id, key.repository) for key in wanted] == [("a", 1, ""), ("a", 2, "")]
    assert [place.path for place in wanted.values()] == ["orgs/acme", "orgs/bolt"]


def test_named_repositories_of_an_account_have_sources_of_their_own() -> None:
    wanted = wanted_sources([pool(repositories=("Bob/app", "bob/web", "nonsense"))], [Listenable(3, "bob", 13)])
    assert [place.path for place in wanted.values()] == ["repos/bob/app", "repos/bob/web"]


def test_an_account_of_which_only_some_repositories_are_allowed_is_never_listened_to_as_a_whole() -> None:
    partly = Listenable(1, "acme", 11, False, ["acme/app"])
    assert [place.path for place in wanted_sources([pool()], [partly]).values()] == ["repos/acme/app"]
    assert [place.path for place in wanted_sources([pool(group="macs")], [partly]).values()] == ["orgs/acme"]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (pool("A", label="MACOS-26"), "pool A has had the dispatch label 'macos-26' for longer"),
        (pool("A", source="Webhook"), "pool A has had the dispatch label 'macos-26' for longer"),
        (pool("b", label="m4", offers=("macos-26",), source="Webhook"), "take it out of that pool's runnerLabels"),
        (pool("b", label="macOS", source="Webhook"), "take it out of this pool's runnerLabels"),
    ],
)
def test_jobs_that_two_pools_could_be_given_are_refused_with_one_remedy(other: RunnerPool, says: str) -> None:
    found = clash(pool("a"), [pool("a"), other])
    assert found is not None
    assert says in found


def test_of_two_pools_with_one_label_the_older_goes_on() -> None:
    older, newer = (
        msgspec.structs.replace(
            pool(name), metadata=ObjectMeta(name=name, creation_timestamp=NOW + timedelta(days=day))
        )
        for name, day in (("z", 0), ("a", 1))
    )
    assert clash(older, [older, newer]) is None
    assert "pool z has had the dispatch label" in (clash(newer, [older, newer]) or "")
    assert clash(newer, [older, newer], holds=True) is None


def test_pools_that_share_labels_beside_their_dispatch_labels_do_not_clash() -> None:
    others = [
        pool("b", label="m4"),
        pool("c", label="m2", source="Webhook"),
        pool("d", label="x", offers=("macos-26",)),
    ]
    assert clash(pool("a"), [pool("a"), *others]) is None


@pytest.mark.parametrize(
    ("asked", "capacity", "lately", "ends"),
    [
        (4, 3, True, True),
        (4, 3, False, True),
        (4, 5, True, True),
        (4, 5, False, False),
        (0, 1, False, True),
        (4, 4, True, False),
    ],
)
def test_a_poll_ends_early_for_less_room_and_for_more_only_while_the_queue_answers(
    asked: int, capacity: int, lately: bool, ends: bool
) -> None:
    assert broken_off(asked, capacity, answered_lately=lately) is ends
