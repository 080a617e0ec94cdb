"""docs/security.md: every promise names a test that is there."""

import ast
import re
from functools import cache

import pytest
from docs.documents import ROOT

PAGE = ROOT / "docs" / "security.md"
THREATS = PAGE.read_text(encoding="utf-8").partition("## Threats")[2].partition("\n## ")[0]
ROWS = [line for line in THREATS.splitlines() if line.startswith("| ")][1:]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_threat_names_what_is_done_and_a_test_that_exists(row: str):
    threat, done, shown = (cell.strip() for cell in row.strip("|").split(" | "))
    assert threat
    assert done
    named = re.findall(r"`(tests/[^`:]+\.py)(?:::(\w+))?`", shown)
    assert named, f"{threat}: no test is named"
    for path, test in named:
        found = names_in(path)
        assert found, f"{threat}: {path} holds no test"
        assert not test or test in found, f"{threat}: there is no {test} in {path}"


def test_every_attacker_of_the_suite_is_on_the_page():
    suites = {file.name for file in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert suites == {
        "test_hostile_connections.py",
        "test_hostile_job.py",
        "test_hostile_mac.py",
        "test_hostile_stranger.py",
        "test_hostile_tenant.py",
        "test_hostile_webhook_sender.py",
        "test_lying_mac.py",
        "test_stolen_dispatch.py",
        "test_stolen_kubeconfig.py",
    }
    page = PAGE.read_text(encoding="utf-8")
    assert not [name for name in suites if f"tests/attacks/{name}" not in page]
