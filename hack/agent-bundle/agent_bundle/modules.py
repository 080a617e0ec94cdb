"""Which of our modules the agent needs: those that its command imports, directly or not, and nothing else of the tree."""

import ast
from pathlib import Path

__all__ = ["needed_files"]


def needed_files(source: Path, entry: str) -> list[Path]:
    """The files below `source` that `entry` needs: imports at the top and inside functions, and what lies beside them
    (scripts, templates). Raises FileNotFoundError if there is no such entry.
    """
    if _file(source, entry) is None:
        raise FileNotFoundError(f"{source} has no module {entry}")
    waiting, seen = [entry], set[str]()
    while waiting:
        name = waiting.pop()
        file = _file(source, name)
        if name in seen or file is None:
            continue
        seen.add(name)
        parent = name.rpartition(".")[0]
        waiting += [parent, *_imports(file, name)]
    modules = {file for name in seen if (file := _file(source, name)) is not None}
    beside = {
        other
        for file in modules
        if file.name == "__init__.py"
        for other in file.parent.iterdir()
        if other.is_file() and other.suffix not in (".py", ".pyc")
    }
    return sorted(modules | beside)


def _file(source: Path, name: str) -> Path | None:
    if not name:
        return None
    path = source.joinpath(*name.split("."))
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


def _imports(file: Path, name: str) -> list[str]:
    root = name.partition(".")[0]
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [each for each in found if each.partition(".")[0] == root]
