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
TEXT = (ROOT / "docs" / "design" / "healing.md").read_text(encoding="utf-8")


def promised(leak: str) -> str:
    (row,) = re.findall(rf"^\| {re.escape(leak)} \| ([^|]+) \|", TEXT, re.MULTILINE)
    return row


@pytest.mark.parametrize(
    ("leak", "grace"),
    [
        ("claim of a dispatcher that died", S.silent_dispatcher),
        ("assignment label of a dispatcher that died", S.assignment_grace),
        ("runner that never registered", S.registration_deadline),
        ("job over, Pod still there", S.finished_grace),
        ("runner that hangs", S.lost_communication),
        ("announcement that was not delivered", timedelta(seconds=S.redelivery_every)),
        ("job that waits here and is over there", S.queued_verify),
    ],
)
def test_a_leak_lasts_for_its_grace_and_one_pass(leak: str, grace: timedelta) -> None:
    assert promised(leak).startswith(span(grace + PASS)), promised(leak)


def test_a_pod_that_no_watch_saw_go_is_missed_for_its_grace_and_then_confirmed() -> None:
    said = promised("Pod that is gone")
    claim = S.missing_grace + S.missing_confirm + PASS
    session = S.session_absence + S.missing_confirm + PASS
    assert f"{span(claim)} for a claim" in said
    assert f"{span(session).removesuffix(' min')} for a session" in said


def test_a_pod_whose_runner_reports_nothing_waits_until_github_would_have_given_up() -> None:
    minutes = span(S.lost_communication + PASS).removesuffix(" min")
    assert f"{minutes} if its runner reports nothing" in promised("job over, Pod still there")


def test_a_pod_that_does_not_start_has_its_pools_timeout() -> None:
    default = span(timedelta(seconds=Provisioning().start_timeout_seconds))
    assert promised("Pod that does not start").endswith(default)
