"""`paddock rewind`: moments as people write them, and what is shown of one."""

import json
from datetime import UTC, datetime
from typing import Any

import click
import pytest
from unit.cli.scene import Scene

from paddock.cli.rewind import when

NOW = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", "2026-11-15T09:28:30+00:00"),
        ("20m", "2026-11-15T09:10:00+00:00"),
        ("2h", "2026-11-15T07:30:00+00:00"),
        ("3d", "2026-11-12T09:30:00+00:00"),
        ("03:12", "2026-11-15T03:12:00+00:00"),
        ("9:05:30", "2026-11-15T09:05:30+00:00"),
        ("23:59", "2026-11-14T23:59:00+00:00"),
        ("2026-11-14T03:12", "2026-11-14T03:12:00+00:00"),
        ("2026-11-14T03:12:00Z", "2026-11-14T03:12:00+00:00"),
        ("2026-11-14T03:12:00+01:00", "2026-11-14T02:12:00+00:00"),
    ],
)
def test_a_moment_is_understood_as_people_write_it(text: str, moment: str):
    assert when(text, NOW).isoformat() == moment


@pytest.mark.parametrize("text", ["yesterday", "25:00", "12:60", "5 m", "", "20x"])
def test_what_is_no_moment_is_refused_with_examples(text: str):
    with pytest.raises(click.UsageError, match="is no moment: write 20m, 03:12"):
        when(text, NOW)


def test_a_moment_that_lies_ahead_is_refused():
    with pytest.raises(click.UsageError, match="lies ahead"):
        when("2026-11-15T10:00", NOW)


def rewound(**then: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"at": "2026-11-15T03:12:00Z", "kept_since": "2026-11-01T00:00:00Z"}
    lists = {"pools": [], "jobs": [], "fences": [], "lines": []}
    return {"sentence": "at 03:12: 1 job waited", "known": True, "then": {**empty, **lists, **then}}


JOB = {
    "job_id": 7, "login": "acme", "repository": "acme/app", "workflow_name": "ci", "job_name": "test", "pool": "macs",
    "state": "queued", "since": "2026-11-15T03:10:00Z", "why": "announced", "pod_uid": None,
    "enqueued_at": "2026-11-15T03:10:00Z", "now": "completed", "conclusion": "success", "completed_at": None,
}  # fmt: skip
LINE = {
    "transition_id": 1, "at": "2026-11-15T03:10:00Z", "subject": "job", "job_id": 7, "account_id": 1, "pod_uid": None,
    "generation": None, "was": "", "became": "queued", "by": "webhook", "why": "announced", "pod_name": None,
}  # fmt: skip


@pytest.fixture
def asked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("paddock.cli.rewind.when", lambda _, __: datetime(2026, 11, 15, 3, 12, tzinfo=UTC))
    return scene


def test_it_shows_the_sentence_the_pools_the_jobs_and_the_log(asked: Scene):
    pools = [{"pool": "macs", "queued": 1, "claimed": 0, "running": 2, "oldest_queued_seconds": 120.0}]
    fence = {"pod_uid": "u", "pod_name": "runner-3", "since": "2026-11-15T03:11:00Z", "by": "pool", "why": "too many"}
    asked.ledger.json["at/2026-11-15T03:12:00Z"] = rewound(pools=pools, jobs=[JOB], fences=[fence], lines=[LINE])
    outcome = asked.type("rewind", "03:12")
    assert outcome.exit_code == 0, outcome.output
    shown = outcome.output.splitlines()
    assert shown[0] == "at 03:12: 1 job waited"
    assert "macs  1       0        2" in shown
    assert "7    waited  03:10:00  acme/app    test  macs  success" in shown
    assert "Pod runner-3 was being retired: too many" in shown
    assert shown[-1] == "  03:10:00  job 7: job new → queued (webhook: announced)"


def test_scripts_get_everything_as_json(asked: Scene):
    asked.ledger.json["at/2026-11-15T03:12:00Z"] = rewound(jobs=[JOB])
    shown = json.loads(asked.type("rewind", "03:12", "-o", "json").output)
    assert shown["then"]["jobs"][0]["job_id"] == 7


def test_a_moment_before_the_log_began_is_said_and_fails(asked: Scene):
    answer = {**rewound(), "known": False, "sentence": "it is not known any more: the log begins at 2026-11-10"}
    asked.ledger.json["at/2026-11-15T03:12:00Z"] = answer
    outcome = asked.type("rewind", "03:12")
    assert (outcome.exit_code, outcome.output.strip()) == (1, answer["sentence"])


def test_a_service_that_is_too_old_to_rewind_is_named(asked: Scene):
    outcome = asked.type("rewind", "03:12")
    assert outcome.exit_code == 1
    assert "cannot rewind: update it" in outcome.output
