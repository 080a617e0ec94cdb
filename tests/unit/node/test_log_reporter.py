"""A guest's log on its way to dispatch: whole where it is honest, bounded where it is hostile."""

import os
from pathlib import Path

import pytest

from paddock.base.clock import SystemClock
from paddock.clients.gateway.messages import LARGEST_BODY
from paddock.node.files import DiskFiles
from paddock.node.log_reporter import LogReporter
from paddock.node.shares import Shares


class Kept:
    """Dispatch, as far as logs go: keeps no byte twice, and may be away."""

    def __init__(self) -> None:
        self.content = b""
        self.ended = False
        self.away = False
        self.posts = 0

    async def post(self, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        assert len(content) <= LARGEST_BODY
        self.posts += 1
        if self.away:
            return None
        self.content += content[max(0, len(self.content) - first_byte) :]
        self.ended = self.ended or ended
        return len(self.content)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "status").mkdir()
    return tmp_path / "status" / "log"


def _reporter(log: Path, kept: Kept) -> LogReporter:
    return LogReporter(kept.post, Shares(DiskFiles(threads=False), log.parent.parent), SystemClock())


async def test_new_bytes_are_posted_once_and_the_end_is_said(log: Path) -> None:
    kept = Kept()
    reporter = _reporter(log, kept)
    await reporter.post(4)
    log.write_bytes(b"one\n")
    await reporter.post(4)
    await reporter.post(4)
    with log.open("ab") as more:
        more.write(b"two\n")
    await reporter.finish()
    assert (kept.content, kept.ended) == (b"one\ntwo\n", True)


async def test_a_dispatch_that_is_away_loses_nothing(log: Path) -> None:
    kept = Kept()
    reporter = _reporter(log, kept)
    log.write_bytes(b"one\n")
    kept.away = True
    await reporter.post(4)
    kept.away = False
    await reporter.post(4)
    kept.away = True
    with log.open("ab") as more:
        more.write(b"two\n")
    await reporter.post(4)
    kept.away = False
    await reporter.finish()
    assert kept.content == b"one\ntwo\n"


async def test_a_new_agent_goes_on_where_the_old_one_was(log: Path) -> None:
    kept = Kept()
    log.write_bytes(b"one\n")
    await _reporter(log, kept).post(4)
    log.write_bytes(b"one\ntwo\n")
    await _reporter(log, kept).finish()
    assert kept.content == b"one\ntwo\n"


@pytest.mark.parametrize("hostile", ["link", "pipe", "folder"])
async def test_a_log_that_is_no_file_is_not_read(log: Path, hostile: str) -> None:
    kept = Kept()
    secret = log.parent.parent / "secret"
    secret.write_bytes(b"the agent's own")
    if hostile == "link":
        log.symlink_to(secret)
    elif hostile == "pipe":
        os.mkfifo(log)
    else:
        log.mkdir()
    await _reporter(log, kept).finish()
    assert kept.content == b""


async def test_of_ten_gigabytes_the_last_mebibyte_is_sent(log: Path) -> None:
    kept = Kept()
    with log.open("wb") as hole:
        hole.truncate(10 << 30)
        hole.seek(0, os.SEEK_END)
        hole.write(b"the end\n")
    await _reporter(log, kept).finish()
    assert len(kept.content) == 1 << 20
    assert kept.content.endswith(b"the end\n")


async def test_while_the_job_runs_a_flood_is_sent_at_a_pace(log: Path) -> None:
    kept = Kept()
    log.write_bytes(b"x" * (1 << 20))
    await _reporter(log, kept).post(4)
    assert len(kept.content) == 4 * LARGEST_BODY


async def test_a_log_that_is_begun_anew_is_sent_from_its_beginning(log: Path) -> None:
    kept = Kept()
    reporter = _reporter(log, kept)
    log.write_bytes(b"a long first log\n")
    await reporter.post(4)
    log.write_bytes(b"short\n")
    await reporter.finish()
    assert kept.content == b"a long first log\nshort\n"
