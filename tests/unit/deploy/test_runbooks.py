"""The runbooks: no alert, reason or page without its counterpart, and no command that does not exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from unit.deploy.reasons import reasons
from unit.deploy.rendering import ROOT
from unit.deploy.test_alerts import ALERTS

from paddock.cli import main

FOLDER = ROOT / "docs" / "runbooks"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem not in ("README", "conditions"))
OF_HALF = {"hosts": ("Machines", "Hosts", "Fleets", "Clusters", "Remediations"), "runners": ("Runner pools",)}


def named_by_explanations() -> Iterator[str]:
    """Every page that `paddock why` can name: the values of `runbook=` in the source."""
    for path in (*(ROOT / "src" / "paddock").rglob("why*.py"), *(ROOT / "src" / "paddock").rglob("explain*.py")):
        module = ast.parse(path.read_text())
        tables = {
            target.id: node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict)
        }
        for node in ast.walk(module):
            if isinstance(node, ast.keyword) and node.arg == "runbook":
                used = [node.value, *(tables[n.id] for n in ast.walk(node.value) if isinstance(n, ast.Name) and n.id in tables)]  # fmt: skip
                for each in used:
                    values = each.values if isinstance(each, ast.Dict) else [each]
                    for value in values:
                        yield from _pages_in(value)


def _pages_in(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _pages_in(body)
            yield from _pages_in(orelse)
        case ast.Call(func=ast.Attribute(attr="get"), args=[_, otherwise]):
            yield from _pages_in(otherwise)
        case _:
            pytest.fail(f"cannot tell which page {ast.unparse(value)} is")


def test_every_page_that_an_explanation_names_exists():
    named = set(named_by_explanations()) - {""}
    assert {"PaddockStrandedHosts", "PaddockJobsWaitTooLong", "PaddockNoAvailableHost", "conditions"} <= named
    assert not [name for name in named if not (FOLDER / f"{name}.md").is_file()]


def test_every_page_belongs_to_an_alert():
    told = {rule["annotations"]["runbook_url"].removeprefix("RUNBOOKS/") for rule in ALERTS.values()}
    assert {page.name for page in PAGES} == told


@pytest.mark.parametrize("name", [name for name in ALERTS if not name.endswith("Absent") and name != "PaddockNoLeader"])
def test_every_alert_but_the_twins_has_a_page_of_its_own(name: str):
    assert (FOLDER / f"{name}.md").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_has_the_four_parts_in_order(page: Path):
    text = page.read_text()
    assert text.startswith(f"# {page.stem}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert "```console" in text.split("## Diagnosis")[1], "the diagnosis has commands to copy"


@pytest.mark.parametrize("half", OF_HALF)
def test_every_reason_of_a_condition_has_a_row_and_every_row_a_reason(half: str):
    text = (FOLDER / "conditions.md").read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    rows = [row for title in OF_HALF[half] for row in re.findall(r"^\| `(\w+)` \|", sections[title], re.MULTILINE)]
    assert len(rows) == len(set(rows))
    assert set(rows) == reasons(half)


def test_every_link_leads_somewhere():
    for page in FOLDER.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).resolve().is_file(), f"{page.name}: {target}"


def commands() -> Iterator[tuple[str, str]]:
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text()
        blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        lines = [line.strip() for block in blocks for line in block.splitlines()]
        inline = [each for each in re.findall(r"`(paddock [^`\n]+)`", text) if "…" not in each]
        yield from ((page.name, line) for line in (*lines, *inline) if line.startswith("paddock "))


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())), ids=str)
def test_every_command_is_one_that_exists_and_takes_these_arguments(page: str, line: str):
    """The line is read as the shell and the command would read it; it is not run."""
    _, name, *given = shlex.split(line, comments=True)
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"{page}: there is no command `paddock {name}`"
    if given or "`" not in line:
        try:
            command.make_context(name, given)
        except click.MissingParameter as missing:
            # In running text a command may be named without what it is about.
            assert not given, f"{page}: {line}: {missing}"  # noqa: PT017 - the message is the point


def test_every_page_that_the_web_page_or_a_command_names_exists():
    source = [path.read_text() for path in sorted((ROOT / "src" / "paddock").rglob("*.py"))]
    named = {name for text in source for name in re.findall(r'runbook="(\w+)"', text)}
    assert named
    assert not [name for name in named if not (FOLDER / f"{name}.md").is_file()]
