"""`paddock up` says that its files were replaced or removed under it, once an hour, and never while they are as they were."""

import asyncio
import sys
from pathlib import Path

import pytest
from doubles.clocks import SteppedClock
from structlog.testing import capture_logs

import paddock
from paddock.all_in_one.own_files import OwnFiles, loaded_files, stamps


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("a.py", "b.py")]
    for file in made:
        file.write_text("1", encoding="utf-8")
    return made


def seen(own: OwnFiles, files: list[Path]) -> tuple[list[str], int]:
    """What people are shown, and how many lines the log got."""
    with capture_logs() as log:
        own.judge(stamps(files))
    return [f"{one.found}: {one.fix}" for one in own.concerns()], len(log)


def test_files_that_are_as_they_were_are_no_news(files: list[Path]) -> None:
    assert seen(OwnFiles(SteppedClock(), stamps(files)), files) == ([], 0)


def test_a_removed_environment_wants_a_restart(files: list[Path]) -> None:
    own = OwnFiles(SteppedClock(), stamps(files))
    for file in files:
        file.unlink()
    what = f"2 files that Paddock was started from were removed ({files[0]}), so parts of it may fail"
    assert seen(own, files) == ([f"{what}: stop it and start it again"], 1)


def test_an_updated_file_wants_a_restart_even_with_the_same_text(files: list[Path]) -> None:
    own = OwnFiles(SteppedClock(), stamps(files))
    again = files[1].with_suffix(".new")
    again.write_text("1", encoding="utf-8")
    again.replace(files[1])
    (line,), logged = seen(own, files)
    assert line.startswith("1 files that Paddock was started from were replaced")
    assert logged == 1


def test_it_is_logged_once_and_shown_with_the_moment_at_which_it_was_noticed(files: list[Path]) -> None:
    clock = SteppedClock()
    own = OwnFiles(clock, stamps(files))
    files[0].unlink()
    noticed, (_, logged) = clock.now(), seen(own, files)
    clock.step(3000.0)
    assert (logged, seen(own, files)[1]) == (1, 0)
    assert [one.since for one in own.concerns()] == [noticed]


def test_our_own_modules_and_the_libraries_are_watched() -> None:
    watched = loaded_files(tuple(sys.modules.values()))
    assert {Path(paddock.__file__), Path(asyncio.__file__), Path(pytest.__file__)} <= watched
    assert Path(sys.modules["paddock.all_in_one.own_files"].__file__ or "") in watched
