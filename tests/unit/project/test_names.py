"""Names that the cluster shows stand in one place, so that two rooms never disagree about one."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import paddock
from paddock.base import names

_ROOT = Path(paddock.__file__).parent
_ELSEWHERE = {"node/pods.py"}
"""Still writes two names of its own."""


def _written() -> Iterator[tuple[str, str]]:
    """Each name that is written out in a module, and the module; what stands in docstrings and sentences is none."""
    for path in sorted(_ROOT.rglob("*.py")):
        module = path.relative_to(_ROOT).as_posix()
        if module in _ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("tuist.dev"):
                name = node.value.removesuffix("/v1alpha1")
                if " " not in name and "=" not in name:
                    yield name, module


def test_a_name_that_several_rooms_use_stands_in_base_alone():
    places: dict[str, set[str]] = defaultdict(set)
    for name, module in _written():
        places[name].add(module)
    shared = {getattr(names, each) for each in names.__all__} - {names.TART}
    assert shared <= set(places)
    assert {name: sorted(places[name] - {"base/names.py"}) for name in shared if len(places[name]) > 1} == {
        names.PADDOCK_GROUP: ["cli/init.py"]  # the apiVersion of a file for people
    }
    rooms = {name: {module.split("/")[0] for module in modules} for name, modules in places.items()}
    assert {name for name, where in rooms.items() if len(where) > 1} == {names.PADDOCK_GROUP}
