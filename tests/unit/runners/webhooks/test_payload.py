"""What a delivery says."""

import contextlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.runners.webhooks.payload import (
    MalformedError,
    action_of,
    decode_installation,
    decode_job,
    moment,
    storable,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def body(**job: object) -> bytes:
    return json.dumps(
        {
            "action": "queued",
            "workflow_job": {"id": 7, "labels": ["paddock-macos"], "created_at": "2026-06-01T11:59:00Z"} | job,
            "repository": {"full_name": "acme/app", "owner": {"id": 1, "login": "acme"}, "private": True},
            "installation": {"id": 1001, "node_id": "x"},
            "sender": {"login": "octocat"},
        }
    ).encode()


def test_what_github_sends_is_read_and_the_rest_is_passed_over():
    event = decode_job(body(runner_name="", conclusion=None, head_branch=None, steps=[{"name": "x"}]))
    assert (event.workflow_job.id, event.installation_id, event.runner_name) == (7, 1001, None)
    assert event.workflow_job.created_at == NOW - timedelta(minutes=1)
    assert event.repository.owner.login == "acme"


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (body(id="seven"), "$.workflow_job.id"),
        (body(id=0), "$.workflow_job.id"),
        (body(id=2**63), "$.workflow_job.id"),
        (body(labels="paddock-macos"), "$.workflow_job.labels"),
        (body(created_at="yesterday"), "$.workflow_job.created_at"),
        (body(created_at="2026-06-01T11:59:00"), "$.workflow_job.created_at"),
        (b'{"action": "queued"}', "workflow_job"),
        (b"payload=%7B%7D", "application/json"),
        (b"", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b'{"x":' + b"[" * 100_000, "application/json"),
    ],
)
def test_what_is_malformed_is_said_with_the_field(raw: bytes, named: str):
    with pytest.raises(MalformedError, match=r".") as caught:
        decode_job(raw)
    assert named in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_whatsoever_raise_anything_else(raw: bytes):
    for read in (action_of, decode_job, decode_installation):
        with contextlib.suppress(MalformedError):
            read(raw)


def test_moments_are_never_in_the_future_and_missing_ones_are_the_arrival():
    assert moment(NOW + timedelta(hours=1), NOW, NOW) == NOW
    assert moment(None, NOW, NOW - timedelta(seconds=3)) == NOW - timedelta(seconds=3)


def test_a_zero_character_does_not_reach_the_database():
    assert decode_job(body(name="a\x00b")).workflow_job.name == "a\x00b"
    assert storable("a\x00b") == "ab"
    assert storable(None) == ""
