"""The agent reaches the outside through its link alone."""

import ast
from pathlib import Path

import paddock.node

_ROOM = Path(paddock.node.__file__).parent
_SOURCE = _ROOM.parent.parent


def _imports(module: str) -> set[str]:
    """The modules of ours that a module imports, also inside functions."""
    path = _SOURCE / (module.replace(".", "/") + ".py")
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paddock"):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.startswith("paddock")}
    return found


def _closure(*modules: str) -> set[str]:
    known, new = set[str](), set(modules)
    while new:
        known |= new
        new = {each for module in new for each in _imports(module)} - known
    return known


def test_the_agent_knows_nothing_of_kubernetes() -> None:
    assert not {each for each in _closure("paddock.node.agent") if each.startswith("paddock.kube")}


def test_what_the_gateway_will_write_is_made_of_messages_alone() -> None:
    shared = {"paddock.node.names"}
    for module in ("pod_shape", "pod_object", "node_object"):
        ours = {each for each in _imports(f"paddock.node.{module}") if each.startswith("paddock.node.")}
        assert ours <= shared, module
