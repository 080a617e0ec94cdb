"""Drains, names, labels and holds: what needs nobody's answer."""

import random
from datetime import UTC, datetime

import pytest

from paddock.kube.builtin import Container, Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import (
    ACCOUNT_LABEL,
    DRAIN_ELIGIBLE_LABEL,
    OPERATOR_DRAIN_LABEL,
    OWNER_LABEL,
    RunnerPool,
    RunnerPoolSpec,
)
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.handover import labels_of, work_folder
from paddock.runners.dispatch.http import bearer, hold_wanted
from paddock.runners.dispatch.waiting_pods import must_go
from paddock.runners.ledger.registrations import is_marked, runner_name


def pool(**spec) -> RunnerPool:
    given = {
        "image": "new",
        "fleet_selector": "m4",
        "dispatch_label": "paddock",
        "runner_labels": ("self-hosted", "macOS"),
    }
    return RunnerPool(spec=RunnerPoolSpec(**{**given, **spec}))


def pod(image: str = "new", labels: dict[str, str] | None = None, *, deleting: bool = False) -> Pod:
    gone = datetime(2026, 1, 1, tzinfo=UTC) if deleting else None
    containers = (Container(name="sidecar", image="other"), Container(name="runner", image=image))
    return Pod(metadata=ObjectMeta(labels=labels or {}, deletion_timestamp=gone), spec=PodSpec(containers=containers))


ELIGIBLE = {DRAIN_ELIGIBLE_LABEL: "true"}


@pytest.mark.parametrize(
    ("seen", "of", "expected"),
    [
        (pod(), pool(), None),
        (pod("old"), pool(), None),
        (pod("old", ELIGIBLE), pool(), "drain"),
        (pod("new", ELIGIBLE), pool(), None),
        (pod("old", ELIGIBLE), None, None),
        (None, pool(), None),
        (pod("new", {OPERATOR_DRAIN_LABEL: "true"}), None, "operator_drain"),
        (pod("new", {OPERATOR_DRAIN_LABEL: "false"}), pool(), None),
        (pod("new", {ACCOUNT_LABEL: "1"}), pool(), "committed"),
        (pod("new", {OWNER_LABEL: "acme"}), pool(), None),
        (pod(deleting=True), pool(), "deleting"),
        (Pod(metadata=ObjectMeta(labels=ELIGIBLE)), pool(), None),
    ],
)
def test_a_pod_has_to_go_only_for_a_reason(seen, of, expected):
    answer = must_go(seen, of)
    assert (answer.outcome if answer else None) == expected
    assert answer is None or answer.status == 410


def test_a_runners_name_fits_and_is_new_for_every_mint():
    rng = random.Random(1)
    names = {runner_name("runner-" + "x" * 100, "0c0ffe", rng) for _ in range(1000)}
    assert len(names) == 1000
    assert all(len(name) <= 64 for name in names)
    assert runner_name("mac-1", "0c0ffe", random.Random(1)).startswith("mac-1-0c0ffe-")
    assert "--" not in runner_name("a" * 47 + "-bc", "0c0ffe", random.Random(1))


def test_a_runners_name_is_ours_by_the_mark_of_this_installation_alone():
    name = runner_name("mac-m4-x7k2p", "0c0ffe", random.Random(1))
    assert is_marked(name, "0c0ffe")
    assert not is_marked(name, "beef00"), "staging's, beside production"
    for others in ("mac-mini-of-anna-cafebabe", "mac-m4-x7k2p-cafebabe", "mac-m4-x0c0ffe-cafebabe", f"{name}-2"):
        assert not is_marked(others, "0c0ffe")


def test_labels_are_the_pools_and_the_one_that_was_asked_for():
    assert labels_of(pool(), "Paddock-Large") == ("self-hosted", "macOS", "Paddock-Large")
    assert labels_of(pool(), "") == ("self-hosted", "macOS", "paddock")
    assert labels_of(pool(), "MACOS") == ("self-hosted", "macOS")


def test_the_work_folder_is_the_systems():
    assert work_folder(pool()) == "/Users/runner/work"
    assert work_folder(pool(os="linux")) == "/home/runner/work"


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("", 8.0),
        ("wait=25", 25.0),
        ("wait=0", 0.0),
        ("respond-async, wait=10", 10.0),
        ("WAIT=3; foo=bar", 3.0),
        ("wait=99999", 75.0),
        ("wait=-1", 8.0),
        ("wait=soon", 8.0),
        ("await=3", 8.0),
    ],
)
def test_a_request_is_held_as_long_as_it_asks_and_no_longer_than_we_hold_anybody(prefer, expected):
    assert hold_wanted(prefer, DispatchSettings()) == expected


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "abc"])
def test_what_is_no_bearer_token_is_none(header):
    assert bearer(header) is None


def test_a_bearer_token_does_not_show():
    token = bearer("bearer  abc ")
    assert token is not None
    assert token.reveal() == "abc"
    assert "abc" not in repr(token)
