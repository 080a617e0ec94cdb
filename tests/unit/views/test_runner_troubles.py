"""Runners that go wrong again and again are a cause, in words that a person can act on."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, OTHER_ID, host
from unit.views.test_health import CALM, abouts, look, pool, said

from paddock.kube.objects import Condition
from paddock.runners.ledger.views import LostDeliveries, QueueSummary, RunnerTrouble

SINCE = NOW - timedelta(minutes=9)
WAITING = QueueSummary(700.0, 5, 0, 0, 0, 0, 0, 7)


def trouble(kind: str, **fields: object) -> RunnerTrouble:
    return replace(RunnerTrouble(kind, 4, "macos-runner-4", SINCE, handed=9), **fields)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("hung_runner", "GitHub never saw them at work"),
        ("finished_job_pod", "did not end after their jobs"),
        ("died_in_job", "died in the middle of their jobs"),
        ("still_in_job", "stand still in the middle of their jobs"),
    ],
)
def test_each_kind_says_how_many_of_how_many_and_what_to_look_at(kind: str, word: str):
    [problem] = look(summary=replace(CALM, runner_troubles=[trouble(kind)])).problems
    assert problem.about == "pod macos-runner-4"
    assert problem.sentence.startswith("4 of the last 9 runners ")
    assert word in problem.sentence
    assert problem.doing
    assert problem.since == SINCE
    assert "paddock why pod macos-runner-4" in problem.commands


def test_how_the_latest_one_ended_is_said():
    ended = trouble("died_in_job", said="the Pod ended with exit code 137 (Error)")
    [problem] = look(summary=replace(CALM, runner_troubles=[ended])).problems
    assert problem.sentence.endswith("(the Pod ended with exit code 137 (Error))")


def test_waiting_jobs_and_a_short_pool_hang_on_it():
    short = pool(conditions=said("LicenceLimit", "0 places are free"))
    health = look(summary=replace(WAITING, runner_troubles=[trouble("hung_runner")]), pools=[short])
    assert abouts(health) == ["pod macos-runner-4"]
    assert {one.about for one in health.problems[0].symptoms} == {"queue", "pool macs"}


def test_a_kind_of_a_newer_dispatch_is_left_out_rather_than_guessed():
    assert look(summary=replace(CALM, runner_troubles=[trouble("something_new")])).ok


def test_accounts_that_github_took_away_are_named():
    [problem] = look(summary=replace(CALM, not_installed=["acme"])).problems
    assert problem.about == "github"
    assert "suspended for acme" in problem.sentence
    [problem] = look(summary=replace(CALM, not_installed=["acme", "bolt", "crux"])).problems
    assert "acme and 2 more" in problem.sentence


def test_webhooks_that_do_not_arrive_say_since_when_and_what_the_last_try_was_answered():
    [problem] = look(summary=replace(CALM, undelivered=LostDeliveries(3, SINCE, 502))).problems
    assert (problem.about, problem.since, problem.runbook) == ("github", SINCE, "PaddockWebhooksLost")
    assert "3 events about jobs could not be delivered" in problem.sentence
    assert problem.sentence.endswith("its last try was answered 502")
    assert problem.doing
    [problem] = look(summary=replace(CALM, undelivered=LostDeliveries(1, SINCE, 0))).problems
    assert "1 event about jobs could not be delivered" in problem.sentence
    assert problem.sentence.endswith("not answered at all")


def test_a_zone_that_is_not_listed_is_told_by_a_host_and_told_once():
    sentence = "zone fr-par-1 could not be listed, its hosts are shown as last seen: 503"
    listed = Condition("Listed", "False", "ZoneNotListed", sentence, SINCE)
    unseen = [host(conditions=(listed,)), host(OTHER_ID)]
    [problem] = look(hosts=unseen).problems
    assert (problem.about, problem.sentence, problem.since) == ("paddock", sentence, SINCE)
    [problem] = look(hosts=unseen, told=["zone fr-par-1 could not be listed, …: 504"]).problems
    assert (problem.sentence, problem.since) == ("zone fr-par-1 could not be listed, …: 504", SINCE)


def test_accounts_that_installed_the_app_and_were_not_allowed_are_named_with_the_command():
    [problem] = look(summary=replace(CALM, not_listed=["acme"])).problems
    assert problem.about == "github"
    assert problem.sentence.startswith("acme installed the GitHub App and is not on the allow list")
    assert problem.commands == ("paddock accounts allow acme", "paddock accounts deny acme")
    [many] = look(summary=replace(CALM, not_listed=["acme", "bolt", "crux"])).problems
    assert "acme and 2 more installed the GitHub App and are not on the allow list" in many.sentence
