"""How long leaks last, as docs/design/healing.md promises, is what the settings and the pace of the workers come to."""

import re
from datetime import timedelta

import pytest
from docs.documents import ROOT

from paddock.base.explanation import span
from paddock.runners.api import Provisioning
from paddock.runners.api.settings import HealingSettings

S = HealingSettings()
PASS = timedelta(seconds=S.every)
OFTEN = timedelta(seconds=15)  # the pace of the worker on claims
ORPHANS = timedelta(seconds=30)  # and of the one on running jobs
DELETION = timedelta(seconds=90)  # what a runner Pod is given to end
TEXT = (ROOT / "docs" / "design" / "healing.md").read_text(encoding="utf-8")


def promised(leak: str) -> str:
    (row,) = re.findall(rf"^\| {re.escape(leak)} \| ([^|]+) \|", TEXT, re.MULTILINE)
    return row.replace("**", "")  # what is bold is measured, too


def minutes(said: str) -> timedelta:
    """The first span of a sentence."""
    found = re.match(r"(\d+)(¼)? (s|min)\b", said)
    assert found is not None, said
    count = int(found[1]) + (0.25 if found[2] else 0)
    return timedelta(seconds=count) if found[3] == "s" else timedelta(minutes=count)


@pytest.mark.parametrize(
    ("leak", "worst"),
    [
        ("claim of a dispatcher that died", S.silent_dispatcher + OFTEN),
        ("assignment label of a process that lives, and failed to remove it", S.assignment_grace + PASS),
        ("runner that never registered", S.registration_deadline + ORPHANS),
        ("runner without a job, because its job went elsewhere", S.displaced_grace + OFTEN),
        ("job over, Pod still there", S.finished_grace + PASS),
        ("announcement that was not delivered", timedelta(seconds=S.redelivery_every) + PASS),
        ("job that waits here and is over there", S.queued_verify + PASS),
        ("runner row without a Pod", S.offline_grace + PASS),
        ("Pod that is deleting on a Node that is gone", DELETION + S.immortal_grace + PASS),
    ],
)
def test_a_leak_lasts_for_its_grace_and_one_pass(leak: str, worst: timedelta) -> None:
    assert timedelta(0) <= minutes(promised(leak)) - worst < timedelta(minutes=1), promised(leak)


def test_an_assignment_label_of_a_dispatcher_that_died_lasts_two_minutes() -> None:
    """Its claim ends first, and the next pass over Pods needs no grace beside that proof."""
    said = promised("assignment label of a dispatcher that died")
    assert minutes(said) >= S.silent_dispatcher + OFTEN + PASS, said


def test_a_pod_that_no_watch_saw_go_is_missed_for_its_grace_and_then_confirmed() -> None:
    said = promised("Pod that is gone")
    claim = S.missing_grace + S.missing_confirm + PASS
    session = S.session_absence + S.missing_confirm + PASS
    assert f"{span(claim)} for a claim" in said
    assert f"{span(session).removesuffix(' min')} for a session" in said


def test_a_pod_whose_runner_reports_nothing_waits_until_github_would_have_given_up() -> None:
    minutes = span(S.lost_communication + PASS).removesuffix(" min")
    assert f"{minutes} if its runner reports nothing" in promised("job over, Pod still there")


def test_a_runner_whose_guest_says_its_stage_is_healed_in_under_two_minutes() -> None:
    repeated = timedelta(seconds=30)  # by the agent, while nothing moves
    said = promised("runner that hangs")
    assert said.startswith("under 2 min on a Mac"), said
    assert said.endswith(f"{span(S.lost_communication + PASS)} elsewhere"), said
    assert S.listener_grace + repeated + timedelta(seconds=S.listener_every) < timedelta(minutes=2)


def test_an_end_that_was_not_announced_lasts_as_long_as_the_guest_lets_it() -> None:
    said = promised("end of a job that was not announced")
    moved = timedelta(seconds=2 + 5)  # the guest looks, and the agent says what it saw
    assert moved + S.still_asked + ORPHANS <= timedelta(minutes=2)
    assert "2 min where the guest says that nothing moves any more" in said
    assert timedelta(seconds=S.redelivery_every) + PASS <= timedelta(minutes=2)
    assert "2 min where GitHub's log says that it could not deliver" in said
    assert f"{span(S.executing_asked + PASS)} where its runner reports nothing" in said
    assert f"{span(S.working_asked + PASS)} where a worker lives on" in said


def test_a_pod_that_does_not_start_has_its_pools_timeout() -> None:
    default = span(timedelta(seconds=Provisioning().start_timeout_seconds))
    assert promised("Pod that does not start").endswith(default)
