"""What commands print: no terminal obeys the name of a job."""

import json
import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

import paddock.cli
from paddock.cli.output import Column, as_json, as_yaml, confirmed, listed, say

HOSTILE = "build\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\nnext"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def _printed(*texts: str) -> str:
    @click.command()
    def command() -> None:
        for text in texts:
            say(text)
            say(text, err=True)
        confirmed([HOSTILE], "really?", yes=True, afterwards=[HOSTILE])

    return CliRunner().invoke(command, color=True).output


def test_a_terminal_obeys_nothing_that_was_printed() -> None:
    printed = _printed(HOSTILE)
    assert "build" in printed
    assert "gnp.exe" in printed
    assert not OBEYED.search(printed)


@pytest.mark.parametrize("form", ["table", "wide", "name", "json", "yaml"])
def test_no_form_of_a_list_holds_what_a_terminal_obeys(form: str) -> None:
    columns: list[Column[str]] = [Column("NAME", lambda item: item), Column("STATE", lambda _: "ready")]
    text = listed(
        [HOSTILE, "plain"], form, columns, name=str, plain=lambda item: {"name": item}, nothing="none", kind="Thing"
    )
    assert not OBEYED.search(_printed(text))


def test_a_table_stays_a_table_whatever_a_name_holds() -> None:
    columns: list[Column[str]] = [Column("NAME", lambda item: item), Column("STATE", lambda _: "ready")]
    lines = listed([HOSTILE, "plain"], "table", columns, name=str, plain=str, nothing="none", kind="Thing").splitlines()
    assert len(lines) == 3
    assert len({line.index("  ready") for line in lines[1:]} | {len(line) for line in lines[1:]}) == 2


def test_programs_get_every_character_of_a_hostile_name() -> None:
    assert json.loads(as_json({"name": HOSTILE})) == {"name": HOSTILE}
    assert not OBEYED.search(as_json({"name": HOSTILE}))
    assert yaml.safe_load(as_yaml({"name": "h\x1b[2J"})) == {"name": "h\x1b[2J"}


def test_names_in_other_scripts_are_shown_as_they_are() -> None:
    assert "schön 東京 ✓" in _printed("schön 東京 ✓")
    assert "schön" in as_json({"name": "schön"})


def test_every_command_prints_through_the_one_function_that_cleans() -> None:
    folder = Path(paddock.cli.__file__).parent
    raw = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*.py")
        if re.search(r"\bclick\.s?echo\b|\bprint\(", file.read_text(encoding="utf-8"))
    }
    assert raw == {"output.py", "completion.py"}  # the shell's script is our own text
