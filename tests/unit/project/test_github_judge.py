"""The judge of whole worlds can fail: each way in which GitHub and we disagree is a complaint."""

import random

import pytest
from doubles.clocks import StandingClock
from doubles.github_judge import JobSeen, complaints, counted_kills, judge, seen

from paddock.base.metrics import CollectorRegistry, exposition, live_kills
from paddock.simulator.github import SimulatedGitHub

FINE = JobSeen(1, "completed", "success", 1, lost=False)
LOST = JobSeen(2, "completed", "failure", 1, lost=True)
DYING = JobSeen(3, "in_progress", None, 1, lost=True)


@pytest.mark.parametrize(
    ("jobs", "counted", "others", "ledger", "said"),
    [
        pytest.param([FINE], 0, 0, {1: "success"}, [], id="all is well"),
        pytest.param([FINE, LOST], 0, 0, {}, ["lost the runners of [2]"], id="a kill that was not counted"),
        pytest.param([DYING], 0, 0, {}, ["lost the runners of [3]"], id="before GitHub gives up"),
        pytest.param([FINE, LOST], 1, 0, {}, [], id="a kill that was counted"),
        pytest.param([LOST], 0, 1, {}, [], id="what the test itself ended"),
        pytest.param([LOST, DYING], 0, 1, {}, ["1 at most by others"], id="more than the test ended"),
        pytest.param([FINE], 1, 0, {}, ["we counted 1 kills"], id="a count without a kill"),
        pytest.param([JobSeen(1, "completed", "success", 2, lost=False)], 0, 0, {}, ["2 times"], id="run twice"),
        pytest.param([LOST], 1, 0, {2: "success"}, ["is failure at GitHub and success in"], id="the ledger is wrong"),
    ],
)
def test_each_disagreement_is_named(jobs, counted, others, ledger, said) -> None:
    found = complaints(jobs, counted=counted, others=others, ledger=ledger)
    assert len(found) == len(said)
    assert all(words in sentence for words, sentence in zip(said, found, strict=True))


def test_a_kill_that_is_not_counted_fails_the_world_that_saw_it() -> None:
    clock = StandingClock()
    github = SimulatedGitHub(clock, random.Random(1), speed=1.0)
    github.add_organization("acme", "app")
    job = github.submit("acme/app", labels=("macs",))
    job.status, job.starts, job.lost_since = "in_progress", 1, clock.now()
    registry = CollectorRegistry()
    kills = live_kills(registry)
    with pytest.raises(AssertionError, match="we counted 0 kills"):
        judge(seen(github.state.jobs.values()), counted=counted_kills(exposition(registry).decode()))
    kills.labels("force").inc()
    judge(seen(github.state.jobs.values()), counted=counted_kills(exposition(registry).decode()))


def test_a_process_that_exports_no_count_is_no_process_without_kills() -> None:
    with pytest.raises(AssertionError, match="not exported"):
        counted_kills("# HELP other x\nother 0\n")
