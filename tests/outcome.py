"""What a run of the suite leaves behind: for a person, what it did not prove; for `.ci/run`, which tests failed and with what."""

import json
import resource
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

# A test skips with this word where one command would make it run on this machine; the command ends its sentence.
NOT_RUN: Final = "NOT RUN"


class Outcome:
    """Hears every report in the process that the terminal belongs to; workers of pytest-xdist have none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._failed: dict[str, str] = {}
        self._reasons: list[str] = []
        self._worker_died = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = first_error(report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A worker that dies is reported as a failure of the test that it ran, in no phase of a test.
        self._worker_died |= report.when not in ("setup", "call", "teardown")
        if report.failed:
            self._failed.setdefault(report.nodeid, first_error(report.longreprtext))
        elif report.skipped and isinstance(report.longrepr, tuple):
            self._reasons.append(str(report.longrepr[2]).removeprefix("Skipped: "))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._file is None:
            return
        found = {
            "exit": int(exitstatus),
            "worker_died": self._worker_died,
            "failed": self._failed,
            "not_proved": not_proved(self._reasons),
        }
        # The file appears complete or not at all: a run that was killed leaves none.
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps(found, indent=1), encoding="utf-8")
        written.rename(self._file)

    def pytest_unconfigure(self) -> None:
        print(f"CPU: {cpu_seconds():.0f} s", *not_proved(self._reasons), sep="\n")


def cpu_seconds() -> float:
    """What this process has used, and whatever it started and outlived."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def first_error(text: str) -> str:
    """The first line that pytest marks as the error, else the last with any text."""
    lines = [line for line in text.splitlines() if line.strip()] or ["no text"]
    return next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1].strip())


def not_proved(reasons: Iterable[str]) -> list[str]:
    counted = Counter(each for each in reasons if each.startswith(NOT_RUN))
    return [f"NOT PROVED, {count} tests were left out: {reason}" for reason, count in sorted(counted.items())]
