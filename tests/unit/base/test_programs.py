"""A program that is run leaves nothing behind: no pipe, no process, no reader."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paddock.base.programs import ProgramTimeoutError, run_program


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def no_more_files_than(before: int) -> None:
    """The loop closes what it was told to close a moment later."""
    deadline = time.monotonic() + 10
    while open_files() > before:
        assert time.monotonic() < deadline, f"{open_files()} files are open, and {before} were"
        await asyncio.sleep(0.05)


def running(words: str) -> bool:
    shown = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True)
    return words in shown.stdout.splitlines()


async def test_a_child_that_keeps_the_pipes_of_a_program_that_has_ended_costs_neither_time_nor_descriptors() -> None:
    await run_program(("true",), seconds=30)
    before, began = open_files(), time.monotonic()
    for _ in range(3):
        ended = await run_program(("sh", "-c", "sleep 6171 & echo said; exit 3"), seconds=60)
        assert (ended.code, ended.out) == (3, b"said\n")
    assert time.monotonic() - began < 30, "it waited for the child"
    await no_more_files_than(before)
    assert not running("sleep 6171")


async def test_a_child_in_a_session_of_its_own_loses_our_pipes_and_nothing_else() -> None:
    await run_program(("true",), seconds=30)
    before = open_files()
    script = "import os,time\nif os.fork() == 0:\n os.setsid()\n time.sleep(4.321)\nelse: print('said', flush=True)"
    ended = await run_program((sys.executable, "-c", script), seconds=60)
    assert (ended.code, ended.out) == (0, b"said\n")
    await no_more_files_than(before)


async def test_at_the_deadline_and_when_given_up_the_whole_session_is_killed() -> None:
    await run_program(("true",), seconds=30)
    before = open_files()
    with pytest.raises(ProgramTimeoutError, match="sh -c sleep 6170 & sleep 6170 did not end within"):
        await run_program(("sh", "-c", "sleep 6170 & sleep 6170"), seconds=0.3)
    task = asyncio.create_task(run_program(("sh", "-c", "sleep 6170 & sleep 6170"), seconds=None))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running("sleep 6170")
    await no_more_files_than(before)


async def test_what_is_written_is_read_to_its_end_and_kept_up_to_a_bound() -> None:
    ended = await run_program(("sh", "-c", "cat; head -c 20000000 /dev/zero >&2"), seconds=60, stdin=b"x" * 300_000)
    assert ended.out == b"x" * 300_000
    assert len(ended.err) == 8 * 1024 * 1024
