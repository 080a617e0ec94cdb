"""What the shell sees: quick help with the exit codes, completion, progress for people only."""

import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner
from doubles.clocks import SteppedClock
from unit.cli.scene import Scene

from paddock.base.logs import get_logger
from paddock.cli import main, progress
from paddock.cli.exit_codes import FAILED, JUDGING, MEANINGS, judged
from paddock.cli.kinds import ALL_KINDS, kinds

HEAVY = ("asyncio", "httpx2", "msgspec", "yaml", "starlette", "psycopg", "asyncssh", "paddock.kube", "paddock.hosts")


def test_a_command_that_only_reads_loads_what_it_reads_with_and_no_more():
    """Half of the CPU of `paddock status` was the database's driver, the logger, and GitHub's and Scaleway's clients."""
    unused = ("psycopg", "psycopg_pool", "structlog", "cryptography", "starlette", "jwt", "asyncssh")
    parts = "paddock.views.health, paddock.views.leadership, paddock.hosts.why, paddock.kube.client, paddock.cli.status"
    look = f"import sys, {parts}; print([n for n in {unused!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_imports_nothing_heavy():
    look = f"import sys; from paddock.cli import main; main(['--help'], standalone_mode=False); print([n for n in {HEAVY!r} if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"


def test_help_names_the_exit_codes_and_so_does_the_reference():
    said = CliRunner().invoke(main, ["--help"]).output
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md").read_text()
    for code in MEANINGS:
        assert re.search(rf"^ +{code} ", said, re.MULTILINE), code
        assert re.search(rf"^\| {code} ", reference, re.MULTILINE), code


def typed(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that people type, by its words."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from typed(command, *words, name)
        else:
            yield " ".join((*words, name)), command


def test_the_commands_that_judge_are_those_whose_help_and_page_say_so():
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md").read_text()
    assert dict(re.findall(r"^\| `([a-z -]+)` \| (.+) \|$", reference, re.MULTILINE)) == JUDGING
    saying = {name for name, command in typed(main) if re.search(r"[Ee]xits\s+with\s+3", command.help or "")}
    assert saying == set(JUDGING)
    assert (judged(needs_a_person=True), judged(needs_a_person=False)) == (3, 0)


@pytest.mark.parametrize("command", main.list_commands(None))  # type: ignore[arg-type]
def test_every_command_explains_itself(command: str):
    outcome = CliRunner().invoke(main, [command, "--help"])
    assert outcome.exit_code == 0
    assert len(outcome.output.splitlines()) > 4


def test_the_kinds_that_help_names_are_those_that_can_be_listed():
    assert tuple(kind.name for kind in kinds()) == ALL_KINDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell: str):
    outcome = CliRunner().invoke(main, ["completion", shell])
    assert outcome.exit_code == 0
    assert "_PADDOCK_COMPLETE" in outcome.output


def completed(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    outcome = CliRunner().invoke(main, [], env={"_PADDOCK_COMPLETE": "bash_complete"}, prog_name="paddock")
    return [item.partition(",")[2] for item in outcome.output.split()]


def test_commands_kinds_and_names_are_completed(looked_at: Scene, monkeypatch: pytest.MonkeyPatch):
    assert completed("paddock des", monkeypatch) == ["describe"]
    assert completed("paddock get ho", monkeypatch) == ["hosts"]
    monkeypatch.setenv("KUBECONFIG", str(looked_at.cluster.kubeconfig))
    assert completed("paddock why machine blue-", monkeypatch) == ["blue-1", "blue-2"]
    assert completed("paddock release b", monkeypatch) == ["blue-1", "blue-2"]


def test_completion_is_silent_where_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert completed("paddock why machine b", monkeypatch) == []


def test_without_any_cluster_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(main, ["status"])
    assert outcome.exit_code == FAILED
    assert "in the folder of a `paddock up` that runs, or give --kubeconfig FILE" in outcome.output


def test_a_cluster_that_is_away_comes_with_what_to_look_at(looked_at: Scene, tmp_path: Path):
    text = re.sub(r"(server: https://127.0.0.1:)\d+", r"\g<1>1", looked_at.cluster.kubeconfig.read_text())
    (tmp_path / "away").write_text(text)
    outcome = CliRunner().invoke(main, ["get", "hosts", "--kubeconfig", str(tmp_path / "away")])
    assert outcome.exit_code == FAILED
    assert "did not answer" in outcome.output
    assert "`paddock doctor` looks closer" in outcome.output


class _Terminal:
    def __init__(self, *, person: bool) -> None:
        self.person, self.written = person, ""

    def isatty(self) -> bool:
        return self.person

    def write(self, text: str) -> None:
        self.written += text

    def flush(self) -> None:
        """Nothing is kept back."""


async def _slow(monkeypatch: pytest.MonkeyPatch, *, person: bool, what: str = "asking the cluster") -> str:
    import asyncio

    terminal, clock = _Terminal(person=person), SteppedClock()
    monkeypatch.setattr(sys, "stderr", terminal)
    async with progress.showing(what, clock):
        for _ in range(10):
            await asyncio.sleep(0)
    return terminal.written


async def test_what_takes_long_says_so_to_a_person_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch):
    written = await _slow(monkeypatch, person=True)
    assert "asking the cluster… 1 s" in written
    assert written.endswith("\r\033[K")


async def test_a_terminal_obeys_nothing_of_what_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    written = await _slow(monkeypatch, person=True, what="machine m-1: \x1b[2Jsaid\nby a Mac")
    assert "machine m-1: [2Jsaid by a Mac… 1 s" in written
    assert "\n" not in written


async def test_a_pipe_sees_no_progress(monkeypatch: pytest.MonkeyPatch):
    assert await _slow(monkeypatch, person=False) == ""


@pytest.mark.parametrize(
    "words", [("status",), ("top",), ("tree",), ("leaks",), ("why", "machine", "blue-1"), ("get", "jobs")]
)
def test_a_cluster_that_is_away_is_one_line_and_no_traceback(
    looked_at: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture, words: tuple[str, ...]
):
    text = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", looked_at.cluster.kubeconfig.read_text())
    (tmp_path / "away").write_text(text)
    outcome = CliRunner().invoke(main, [*words, "--kubeconfig", str(tmp_path / "away")])
    gc.collect()  # asyncio complains of an error that nobody fetched when the task is thrown away
    assert outcome.exit_code == 1
    assert outcome.output.count("\n") == 1
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize(
    "server", ["http://[::1", "localhost:8080", "http://localhost:99999", "http://", "http://a\nb"]
)
def test_a_server_that_is_no_url_is_an_error_of_its_flag(looked_at: Scene, server: str):
    words = ["status", "--kubeconfig", str(looked_at.cluster.kubeconfig), "--server", server]
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == 2, outcome.output
    assert "Invalid value for '--server'" in outcome.output
    assert "http://127.0.0.1:8080" in outcome.output


@pytest.mark.parametrize("name", ["a\nb", "a b", "a?b#c", "%2e", ".", "..", "a/b", "\udcff\udcfe"])
@pytest.mark.parametrize(
    "words",
    [
        ("why", "pod"),
        ("logs",),
        ("describe", "pod"),
        ("describe", "fleet"),
        ("drain", "--yes"),
        ("undrain", "--yes"),
        ("why", "fleet"),
    ],
)
def test_whatever_name_is_typed_nobody_has_it(looked_at: Scene, words: tuple[str, ...], name: str):
    outcome = looked_at.type(*words, name)
    # `a/b` is how a kind and a name are typed, too: then the kind is what is wrong.
    assert outcome.exit_code == 1 + (words == ("logs",) and name == "a/b"), (outcome.output, outcome.exception)
    assert isinstance(outcome.exception, SystemExit)
    assert outcome.output
    assert "cordon Node" not in outcome.output  # no plan for what nobody has


def test_a_name_that_is_not_utf_8_reaches_dispatch_as_its_bytes(looked_at: Scene):
    assert looked_at.type("why", "pod", "a\udcff").exit_code == 1
    assert "why/pod/a%FF" in looked_at.ledger.asked


def test_a_job_goes_by_the_digits_of_github_alone(looked_at: Scene):
    outcome = looked_at.type("why", "job", "²")
    assert outcome.exit_code == 1
    assert "is not a job: give its number at GitHub" in outcome.output


def test_a_mistyped_command_is_answered_with_the_nearest():
    outcome = CliRunner().invoke(main, ["stauts"])
    assert outcome.exit_code == 2
    assert "Did you mean status?" in outcome.output
    assert "Did you mean" not in CliRunner().invoke(main, ["xyzzy"]).output


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("get", "machnes"), "machines"), (("why", "machne", "x"), "machine"), (("why", "pol/x"), "pool")],
)
def test_a_mistyped_kind_is_answered_with_the_nearest(typed: tuple[str, ...], meant: str):
    outcome = CliRunner().invoke(main, typed)
    assert outcome.exit_code == 2
    assert f"Did you mean {meant}" in outcome.output


def test_a_command_logs_beside_its_answer_and_of_trouble_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a network each read that was repeated was a line of its own, in the midst of the answer."""

    @click.command("speak")
    def speak() -> None:
        log = get_logger("scaleway")
        log.debug("read_repeated", failures=1)
        log.info("something went on")
        log.warning("something is wrong")
        click.echo("the answer")

    with patch.object(main, "get_command", lambda *_: speak):
        main(["speak"], standalone_mode=False)
    out, err = capfd.readouterr()
    assert out == "the answer\n"
    assert "something is wrong" in err
    assert len(err.splitlines()) == 1
