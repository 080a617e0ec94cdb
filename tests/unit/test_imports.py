"""The graph of imports, read from the source: what a function or a type checker imports counts as well."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import paddock

_ROOT = Path(paddock.__file__).parent


def _modules(root: Path) -> dict[str, Path]:
    """Every module of the package by its name."""
    found: dict[str, Path] = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the package that one names, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # The stand-in for tart runs outside of the package as well, so its modules name each other relatively.
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            inside = [f"{source}.{alias.name}" for alias in node.names]
            names = [name if name in known else source for name in inside]
        else:
            continue
        yield from (name for name in names if name in known and name != module)


def _graph(root: Path) -> dict[str, set[str]]:
    known = _modules(root)
    return {module: set(_imports(module, path, known)) for module, path in known.items()}


def _cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Some way from a module back to itself; empty where there is none."""
    done: set[str] = set()
    for first in graph:
        way: list[str] = []
        open_: list[tuple[str, bool]] = [(first, False)]
        while open_:
            module, leaving = open_.pop()
            if leaving:
                way.pop()
                done.add(module)
            elif module in way:
                return [*way[way.index(module) :], module]
            elif module not in done:
                way.append(module)
                open_.append((module, True))
                open_.extend((imported, False) for imported in sorted(graph[module]))
    return []


def _written(folder: Path, **sources: str) -> Path:
    root = folder / "house"
    root.mkdir()
    for name, source in {"__init__": "", **sources}.items():
        (root / f"{name}.py").write_text(source)
    return root


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = _graph(_ROOT)
    assert _cycle(graph) == []
    # The whole package was read.
    assert "paddock.hosts.operator" in graph["paddock.simulator.fleet_world"]
    assert "paddock.hosts.release" in graph["paddock.hosts.controllers.host"]


def test_an_import_inside_a_function_closes_a_cycle(tmp_path: Path) -> None:
    root = _written(tmp_path, a="from house import b", b="def late():\n    from house.c import x", c="import house.a")
    assert set(_cycle(_graph(root))) == {"house.a", "house.b", "house.c"}


def test_an_import_for_the_type_checker_closes_a_cycle(tmp_path: Path) -> None:
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.a import A"
    root = _written(tmp_path, a="from house.b import B", b=guarded)
    assert set(_cycle(_graph(root))) == {"house.a", "house.b"}


def test_two_ways_to_one_module_are_no_cycle(tmp_path: Path) -> None:
    root = _written(tmp_path, a="from house import b, c", b="from house import d", c="from house import d", d="")
    assert _cycle(_graph(root)) == []
