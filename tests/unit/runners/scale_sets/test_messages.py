"""What entries of a message say, and what identifies an assignment."""

from datetime import UTC, datetime

import pytest

from paddock.runners.scale_sets.messages import (
    Entry,
    UnreadableEntry,
    assignment_of,
    conclusion_of,
    moment,
    read_entries,
)

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_one_unreadable_entry_does_not_hide_the_others() -> None:
    body = b'[{"messageType":"JobAssigned","workflowRunId":7},{"messageType":5},{"messageType":"JobStarted"},"text"]'
    kinds = [entry.message_type if isinstance(entry, Entry) else "unreadable" for entry in read_entries(body)]
    assert kinds == ["JobAssigned", "unreadable", "JobStarted", "unreadable"]


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"[1,", b"\xff\xfe", b'"text"'])
def test_a_body_that_is_no_list_is_one_unreadable_entry(body: bytes) -> None:
    (entry,) = read_entries(body)
    assert isinstance(entry, UnreadableEntry)
    assert len(entry.digest) == 64


def test_fields_that_github_left_out_or_nulled_are_read() -> None:
    (entry,) = read_entries(b'[{"messageType":"JobAssigned","workflowRunId":null,"jobId":null,"ownerName":null,"x":1}]')
    assert isinstance(entry, Entry)
    assert (entry.repository, entry.workflow) == ("", "")


def test_the_same_job_assigned_twice_is_two_assignments_and_repeated_is_one() -> None:
    def assigned(at: str) -> Entry:
        return Entry(message_type="JobAssigned", job_id="guid", workflow_run_id=9, scale_set_assign_time=at)

    first, second = assigned("2026-11-16T11:00:00Z"), assigned("2026-11-16T11:05:00.1234567Z")
    keys = [found.key for entry in (first, second, first) if (found := assignment_of(entry, NOW)) is not None]
    assert len(keys) == 3
    assert keys[0] == keys[2] != keys[1]


def test_one_guid_in_two_runs_is_two_jobs() -> None:
    entries = [
        Entry(
            message_type="JobAssigned", job_id="guid", workflow_run_id=run, scale_set_assign_time="2026-11-16T11:00:00Z"
        )
        for run in (1, 2)
    ]
    first, second = (assignment_of(entry, NOW) for entry in entries)
    assert first is not None
    assert second is not None
    assert first.key != second.key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-16T11:05:00.1234567Z", datetime(2026, 11, 16, 11, 5, 0, 123456, UTC)),
        ("2026-11-16T12:05:00+01:00", datetime(2026, 11, 16, 11, 5, tzinfo=UTC)),
        ("2026-11-16T11:05:00", datetime(2026, 11, 16, 11, 5, tzinfo=UTC)),
        ("0001-01-01T00:00:00", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_as_github_writes_them(text: str | None, expected: datetime | None) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("result", "conclusion"),
    [
        ("succeeded", "success"),
        ("Failed", "failure"),
        ("canceled", "cancelled"),
        ("skipped", "skipped"),
        (None, "unknown"),
    ],
)
def test_results_become_conclusions(result: str | None, conclusion: str) -> None:
    assert conclusion_of(result) == conclusion


def test_the_workflow_is_named_by_its_file() -> None:
    ref = "acme/app/.github/workflows/ios-tests.yml@refs/heads/main"
    assert Entry(message_type="JobAssigned", job_workflow_ref=ref).workflow == "ios-tests"
