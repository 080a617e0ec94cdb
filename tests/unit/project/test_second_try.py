"""What `.ci/run` makes of a part of the tests that failed."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from outcome import Outcome, first_error, not_proved
from unit.deploy.rendering import ROOT

_SPEC = importlib.util.spec_from_file_location("second_try", ROOT / "hack" / "second_try.py")
assert _SPEC is not None
assert _SPEC.loader is not None
second_try = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(second_try)

ZSH = "NOT RUN: zsh is not installed: apt-get install -y zsh"


INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def outcome(*failed: str, code: int = 1, died: bool = False, missing: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"exit": code, "failed": dict.fromkeys(failed, "assert 1"), "worker_died": died, "not_proved": list(missing)}


def test_a_green_part_is_green():
    assert second_try.judge(outcome(code=0)) == second_try.Judgement()


def test_what_runs_in_real_time_gets_a_second_try():
    judgement = second_try.judge(outcome("tests/kube/test_a.py::test_b", "tests/integration/test_c.py::test_d"))
    assert list(judgement.again) == ["tests/kube/test_a.py::test_b", "tests/integration/test_c.py::test_d"]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "cut off"),
        (outcome("tests/unit/test_a.py::test_b", "tests/kube/test_a.py::test_b"), "no second try: tests/unit/"),
        (outcome("tests/simulation/test_a.py::test_b"), "no second try"),
        (outcome("tests/kube/test_a.py::test_b", died=True), "process of the tests died"),
        (outcome(*(f"tests/kube/test_a.py::test_{n}" for n in range(11))), "11 tests failed"),
        (outcome("tests/kube/test_a.py", code=2), "ended with 2"),
        (outcome(code=5), "ended with 5"),
        (outcome(code=0, missing=(ZSH,)), "apt-get install -y zsh"),
    ],
)
def test_what_is_no_accident_is_red_at_once(left: dict[str, Any] | None, said: str):
    judgement = second_try.judge(left)
    assert said in judgement.red
    assert not judgement.again


@pytest.mark.parametrize(("second", "code", "last"), [(0, 0, "passed at the second try: 1"), (1, 1, "")])
def test_a_second_try_is_counted_with_its_first_error_and_decides(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    second: int,
    code: int,
    last: str,
):
    test = "tests/kube/test_a.py::test_b[x y]"
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        ran.append(command)
        left = outcome(code=0) if second == 0 else outcome(test)
        (tmp_path / "kube-second-try.json").write_text(json.dumps(left))

    monkeypatch.setattr(second_try.subprocess, "run", run)
    (tmp_path / "kube.json").write_text(json.dumps(outcome(test)))
    assert second_try.main(tmp_path, "kube") == code
    assert [command[-1] for command in ran] == [test]
    said = capsys.readouterr().out
    assert last in said
    assert ("kube: failed twice" in said) == bool(code)
    assert (f"  kube: {test}: assert 1" in said) == (not code)


def test_a_run_leaves_its_failures_and_says_what_it_did_not_prove(pytester: pytest.Pytester):
    pytester.makeini(INI)
    pytester.makepyfile(
        "import pytest\n"
        "def test_fails(): assert 1 == 2\n"
        f"def test_needs_zsh(): pytest.skip({ZSH!r})\n"
        "def test_elsewhere(): pytest.skip('only on a Mac')\n"
    )
    file = pytester.path / "outcome.json"
    run = pytester.inline_run(plugins=[Outcome(file)])
    assert run.ret == 1
    left = json.loads(file.read_text())
    assert left["exit"] == 1
    assert [(test.partition("::")[2], error) for test, error in left["failed"].items()] == [
        ("test_fails", "assert 1 == 2")
    ]
    assert left["not_proved"] == [f"NOT PROVED, 1 tests were left out: {ZSH}"]
    assert not left["worker_died"]


def test_a_worker_that_dies_is_told_from_a_test_that_fails(pytester: pytest.Pytester):
    pytester.makeini(INI)
    pytester.makepyfile("import os\ndef test_dies(): os._exit(3)\n")
    file = pytester.path / "outcome.json"
    pytester.inline_run("-n", "1", "-p", "xdist", plugins=[Outcome(file)])
    assert json.loads(file.read_text())["worker_died"]


def test_an_error_is_the_line_that_pytest_marks_and_what_needs_no_command_is_not_counted():
    assert first_error("def test():\n>   assert a\nE   assert 0\n\nx.py:3: AssertionError") == "assert 0"
    assert first_error("worker 'gw0' crashed") == "worker 'gw0' crashed"
    assert not_proved(["only on Linux", ZSH, ZSH]) == [f"NOT PROVED, 2 tests were left out: {ZSH}"]
