"""Every command in every document is one that exists and takes these arguments."""

import re
from pathlib import Path

import click
import pytest
import yaml
from docs.documents import ROOT, Typed, commands_in, documents, in_backticks, typed
from unit.deploy.rendering import objects

from docs import tools

ALL = [line for path in documents() for line in typed(path)]
INLINE = sorted(
    {
        (path, text)
        for path in documents()
        for text in in_backticks(path)
        if text.startswith(("paddock ", "make ", "kubectl ")) and "…" not in text and "COMMAND" not in text
    }
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools.files_of(tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("line", ALL, ids=str)
def test_every_line_of_a_console_block_can_be_typed(line: Typed):
    for words in commands_in(line.line):
        try:
            tools.check(words)
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.parametrize(("path", "text"), INLINE, ids=str)
def test_every_command_in_running_text_exists(path: Path, text: str):
    """In running text a command may be named without what it is about."""
    for words in commands_in(text):
        try:
            tools.check(words)
        except click.MissingParameter as missing:
            assert len(words) == 2, f"{path.relative_to(ROOT)}: {text}: {missing}"  # noqa: PT017 - as above
        except click.ClickException as error:
            pytest.fail(f"{path.relative_to(ROOT)}: {text}: {error.format_message()}")


def test_the_blocks_are_found_at_all():
    assert len(ALL) > 100
    assert {"paddock", "make", "kubectl", "helm"} <= {words[0] for line in ALL for words in commands_in(line.line)}


@pytest.mark.parametrize(
    "line",
    [
        "paddock wy job 1",
        "paddock detach",
        "paddock get hosts --colour",
        "make frobnicate",
        'make run RUN_ARGS="--hosts many"',
        "kubectl get samm --frobnicate",
        "kubectl get frobs",
        "ssh m1@ADDRESS /usr/local/bin/paddock-node-agent check --frobnicate",
        "ssh m1@ADDRESS /usr/local/bin/paddock-node-agent frobnicate",
        "ssh m1@ADDRESS rm -rf /",
        "docker build --build-arg FROB=1 .",
        "helm install macs deploy/chart -n paddock --set frob=1",
        "frobnicate",
    ],
)
def test_a_mistake_is_found(line: str):
    (words,) = commands_in(line)
    with pytest.raises((AssertionError, click.ClickException, RuntimeError, ValueError)):
        tools.check(words)


def test_the_objects_that_the_installation_names_are_those_of_the_chart():
    """`macs` is the release of docs/install.md."""
    values = yaml.safe_load((ROOT / "docs" / "examples" / "values.yaml").read_text(encoding="utf-8"))
    made = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in objects(values, "macs")}
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:deployment|service)/macs-\w+)", text))
    named |= {f"macfleet/{name}" for name in re.findall(r"\bmacfleet (macs-\w+)", text)}
    assert len(named) == 4
    assert named <= made
