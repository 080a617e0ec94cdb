"""Whether the tests of a change pass, from what each part of `.ci/run` left behind; a few failures get a second try, alone.

`second_try.py FOLDER PART...` reads `FOLDER/PART.json` of each part (`pytest --outcome`). Programs, databases, API servers and a
browser that others made run in some tests in real time, on whatever machine this is: such a test may fail once, and is named
and counted at the end. A function or a simulation fails for a reason of ours, however seldom: it gets no second try, and neither
does a part whose tests broke off or failed by the dozen.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOST = 10
NEVER = ("tests/unit/", "tests/simulation/")
TESTS_FAILED = 1


@dataclass(frozen=True)
class Judgement:
    """A part is red if `red` says why; it may be green once `again` (test and first error) have passed."""

    red: str = ""
    again: Mapping[str, str] = field(default_factory=dict)


def judge(outcome: Mapping[str, Any] | None) -> Judgement:
    if outcome is None:
        return Judgement("left no outcome: it was cut off, or never began")
    failed: Mapping[str, str] = outcome["failed"]
    if outcome["not_proved"]:
        return Judgement("; ".join(outcome["not_proved"]))
    if outcome["exit"] == 0:
        return Judgement()
    if outcome["exit"] != TESTS_FAILED or not failed:
        return Judgement(f"pytest ended with {outcome['exit']} and {len(failed)} failures")
    if outcome["worker_died"]:
        return Judgement("a process of the tests died")
    if len(failed) > MOST:
        return Judgement(f"{len(failed)} tests failed: that is no accident")
    if ours := [test for test in failed if test.startswith(NEVER)]:
        return Judgement(f"failed, and gets no second try: {', '.join(ours)}")
    return Judgement(again=failed)


def read(file: Path) -> Mapping[str, Any] | None:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def try_again(folder: Path, part: str, tests: Sequence[str]) -> Judgement:
    """Run exactly these tests once more, one after the other."""
    file = folder / f"{part}-second-try.json"
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--outcome={file}", *tests]
    subprocess.run(pytest, cwd=ROOT, check=False)
    second = read(file)
    if second is not None and second["failed"]:
        return Judgement(f"failed twice: {', '.join(second['failed'])}")
    return judge(second)


def main(folder: Path, *parts: str) -> int:
    red: list[str] = []
    passed: list[str] = []
    for part in parts:
        judgement = judge(read(folder / f"{part}.json"))
        if judgement.again:
            tests = judgement.again
            judgement = try_again(folder, part, list(tests))
            passed += [] if judgement.red else [f"  {part}: {test}: {error}" for test, error in tests.items()]
        red += [f"{part}: {judgement.red}"] if judgement.red else []
    print(f"passed at the second try: {len(passed)}", *passed, sep="\n")
    print(*red, sep="\n", end="\n" if red else "")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
