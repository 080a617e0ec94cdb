"""What is made once a run is made once: a fixture that a second conftest imports is another fixture, with a server of its own."""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def fixtures_of_a_run(module: Path) -> set[str]:
    """The names of the fixtures with the scope of a session that this module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                scopes = (
                    [word.value for word in mark.keywords if word.arg == "scope"] if isinstance(mark, ast.Call) else []
                )
                if any(isinstance(scope, ast.Constant) and scope.value == "session" for scope in scopes):
                    found.add(node.name)
    return found


def imported(module: Path) -> set[tuple[str, str]]:
    """From which module this one imports which name."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    return {(one.module or "", name.name) for one in nodes if isinstance(one, ast.ImportFrom) for name in one.names}


def test_no_fixture_of_a_whole_run_is_imported_where_it_would_be_made_again() -> None:
    modules = {".".join(one.relative_to(TESTS).with_suffix("").parts): one for one in TESTS.rglob("*.py")}
    once = {(name, fixture) for name, module in modules.items() for fixture in fixtures_of_a_run(module)}
    assert ("conftest", "server") in once
    again = {name: imported(module) & once for name, module in modules.items()}
    assert {name: found for name, found in again.items() if found} == {}
