"""Logs are lines of JSON for machines, lines of text for people, and hold no secret in either form."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import msgspec
import pytest
import structlog

from paddock.base.logs import get_logger, set_up
from paddock.base.secrets import Secret


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def lines(stream: io.StringIO) -> list[dict[str, str]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_who_and_what() -> None:
    stream = io.StringIO()
    set_up(stream=stream)
    get_logger("sweep").warning("zone could not be swept", zone="fr-par-1")
    (line,) = lines(stream)
    assert (line["component"], line["level"], line["event"], line["zone"]) == (
        "sweep",
        "warning",
        "zone could not be swept",
        "fr-par-1",
    )
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize(
    "field", ["password", "sudo_password", "token", "github_token", "authorization", "jit_config", "private_key"]
)
def test_a_field_whose_name_says_secret_is_masked(field: str, json: bool) -> None:
    stream = io.StringIO()
    set_up(stream=stream, json=json)
    get_logger("test").info("logged in", **{field: "hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_a_secret_in_any_field_is_masked_by_itself() -> None:
    stream = io.StringIO()
    set_up(stream=stream, json=True)
    get_logger("test").info("logged in", anything=Secret("hunter2"), several=[Secret("hunter2")])
    assert "hunter2" not in stream.getvalue()


def test_names_of_secrets_are_not_secrets() -> None:
    stream = io.StringIO()
    set_up(stream=stream, json=True)
    get_logger("test").info("kept", secret_name="m-1-bootstrap", token_file="/var/run/token")
    (line,) = lines(stream)
    assert (line["secret_name"], line["token_file"]) == ("m-1-bootstrap", "/var/run/token")


def test_an_exception_is_told_with_its_type_and_its_message() -> None:
    stream = io.StringIO()
    set_up(stream=stream, json=True)
    get_logger("test").error("it failed", exc_info=ValueError("the answer was lost"))
    (line,) = lines(stream)
    assert "ValueError: the answer was lost" in line["exception"]


def test_what_is_below_the_level_is_not_said() -> None:
    stream = io.StringIO()
    set_up(stream=stream, level="warning")
    get_logger("test").info("nobody wants to know")
    assert stream.getvalue() == ""


class FullDisk(io.StringIO):
    """A stream on a disk that is full while `problem` is set."""

    def __init__(self, problem: Exception | None) -> None:
        super().__init__()
        self.problem = problem

    def write(self, text: str, /) -> int:
        if isinstance(self.problem, ValueError):
            raise self.problem
        return super().write(text)

    def flush(self) -> None:
        if self.problem is not None:
            raise self.problem


@pytest.mark.parametrize(
    "problem", [OSError(28, "No space left on device"), ValueError("I/O operation on closed file")]
)
def test_a_line_that_cannot_be_written_fails_nobody_and_the_next_one_is_said(problem: Exception) -> None:
    stream = FullDisk(problem)
    set_up(stream=stream, json=True)
    get_logger("test").warning("nobody reads this")
    stream.problem = None
    get_logger("test").warning("there is room again")
    assert lines(stream)[-1]["event"] == "there is room again"


def test_what_a_library_says_is_a_line_of_ours_and_only_one() -> None:
    stream = io.StringIO()
    set_up(stream=io.StringIO())
    set_up(stream=stream)
    logging.getLogger("some.library").warning("%s did not answer", "it")
    logging.getLogger("some.library").info("of no interest to anybody")
    (line,) = lines(stream)
    assert (line["component"], line["level"], line["event"]) == ("some.library", "warning", "it did not answer")


def test_a_connection_that_the_pool_replaces_is_a_line_for_debugging() -> None:
    stream = io.StringIO()
    set_up(stream=stream)
    logging.getLogger("psycopg.pool").warning("discarding closed connection: %s", "<AsyncConnection [BAD]>")
    assert lines(stream) == []
    set_up(stream=stream, level="debug")
    logging.getLogger("psycopg.pool").warning("discarding closed connection: %s", "<AsyncConnection [BAD]>")
    assert [line["level"] for line in lines(stream)] == ["debug"]


def test_a_library_whose_line_cannot_be_written_out_still_works() -> None:
    stream = io.StringIO()
    set_up(stream=stream)
    slip = logging.LogRecord("some.library", logging.WARNING, __file__, 1, "%d of %d", ("one",), None)
    logging.getLogger().handlers[-1].handle(slip)
    assert [line["event"] for line in lines(stream)] == ["%d of %d"]
