"""`paddock node-agent take-key`: what an operator gives a Mac over SSH, and what the Mac answers."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.cli.node_agent import command
from paddock.clients.gateway.mac_key import digits_of
from paddock.node.key_file import KeyFile
from paddock.node.keys import Keys
from paddock.node.mac_host import MacHost

FIRST, SECOND = "a" * 43, "b" * 43


@pytest.fixture(autouse=True)
def _this_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    async def machine_id(_: MacHost) -> str:
        return "platform-1"

    monkeypatch.setattr(MacHost, "machine_id", machine_id)


def given(folder: Path, line: str | bytes, *more: str) -> Result:
    # With the flags of the agent's own job: what is not needed for this does no harm.
    flags = ["--node-name=mac-1", "--kubeconfig=/etc/paddock/kubeconfig", f"--data={folder / 'data'}"]
    return CliRunner().invoke(command, [*flags, "take-key", *more], input=line)


def answer(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def test_a_key_is_taken_and_the_answer_names_the_mac_and_no_key(tmp_path: Path) -> None:
    result = given(tmp_path, f"1 {FIRST}\n")
    assert answer(result) == {"took": True, "number": 1, "proven": "", "machine_id": "platform-1"}
    assert FIRST not in result.output
    assert KeyFile.of_agent(tmp_path / "data").read() == Keys(1, FIRST)
    assert stat.S_IMODE((tmp_path / "data/keys.json").stat().st_mode) == 0o600


def test_the_answer_says_which_key_the_gateway_answered_before(tmp_path: Path) -> None:
    given(tmp_path, f"1 {FIRST}\n")
    KeyFile.of_agent(tmp_path / "data").answered(FIRST)
    assert answer(given(tmp_path, f"2 {SECOND}\n"))["proven"] == digits_of(FIRST)
    assert KeyFile.of_agent(tmp_path / "data").read() == Keys(2, SECOND, FIRST)


@pytest.mark.parametrize("number", [1, 2])
def test_a_lower_or_equal_number_is_refused_and_says_which_is_the_highest(tmp_path: Path, number: int) -> None:
    given(tmp_path, f"2 {FIRST}\n")
    said = answer(given(tmp_path, f"{number} {SECOND}\n"))
    assert (said["took"], said["number"]) == (False, 2)
    assert KeyFile.of_agent(tmp_path / "data").read() == Keys(2, FIRST)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        FIRST,
        f"one {FIRST}",
        f"0 {FIRST}",
        f"-1 {FIRST}",
        "1 marked-short",
        f"1 {FIRST}!",
        f"1  {FIRST}",
        f"{'9' * 400} {FIRST}",
        "1 " + "c" * 600,
        b"\xff\xfe 1",
    ],
)
def test_what_is_no_key_is_refused_in_one_sentence_that_repeats_nothing_of_it(
    tmp_path: Path, line: str | bytes
) -> None:
    result = given(tmp_path, line)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "paddock: standard input holds no key: expected one line `NUMBER KEY`, and the number at least 1\n"
    )
    assert not (tmp_path / "data").exists()


def test_asked_without_a_key_it_says_what_it_holds_and_takes_none(tmp_path: Path) -> None:
    given(tmp_path, f"3 {FIRST}\n")
    assert answer(given(tmp_path, f"4 {SECOND}\n", "--ask")) == {
        "took": False,
        "number": 3,
        "proven": "",
        "machine_id": "platform-1",
    }
    assert KeyFile.of_agent(tmp_path / "data").read() == Keys(3, FIRST)


def test_a_mac_that_does_not_say_which_it_is_takes_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(_: MacHost) -> str:
        raise OSError("ioreg failed")

    monkeypatch.setattr(MacHost, "machine_id", silent)
    result = given(tmp_path, f"1 {FIRST}\n")
    assert (result.exit_code, result.stderr) == (1, "paddock: ioreg failed\n")
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    result = given(tmp_path, f"1 {FIRST}\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("paddock: ")
    assert result.stderr.count("\n") == 1
    assert FIRST not in result.output
