"""Every reason that a condition of ours can have, read from the source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock.hosts.absence import SERVER_GONE
from paddock.hosts.bootstrap.errors import FailureKind
from paddock.hosts.breaker import HALTED
from paddock.hosts.first_contact import EXPIRED
from paddock.hosts.fleet import INVALID_TEMPLATE
from paddock.hosts.orphans import VerdictReason

SOURCE: Final = Path(__file__).resolve().parents[3] / "src" / "paddock"
GIVEN_AT: Final = {
    # What writes a condition: where its reason is among the arguments.
    "Condition": 2,
    "condition": 3,
    "ready": 2,
    "hostless": 1,
    "forget_host": 2,
    "let_go": 1,
    "_blocked": 1,
    "_tell": 1,
    "troubled": 1,
    "_condition": 1,
    "_unknown": 1,
    # Values that carry one to a condition.
    "LetGo": 0,
    "BadInput": 0,
    "OverLimit": 0,
    "Admission": 1,
    "Decision": 1,
    "BootstrapFailed": 3,
    "NotWanted": 0,
    "Standing": 1,
}
_REASON: Final = re.compile(r"[A-Z][A-Za-z]+")


def reasons(half: str) -> set[str]:
    """The reasons of a subsystem: `hosts` or `runners`."""
    found = {reason for path in sorted((SOURCE / half).rglob("*.py")) for reason in _in_module(path)}
    if half == "hosts":
        # Written as they are where neither a reboot nor a wipe of the host could help.
        found |= {str(kind) for kind in FailureKind if not kind.blames_host}
        found |= {str(reason) for reason in VerdictReason}
        found |= {HALTED, EXPIRED, INVALID_TEMPLATE, SERVER_GONE}
    return found


def _in_module(path: Path) -> Iterator[str]:
    for function in _functions(ast.parse(path.read_text())):
        named = _named(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                given = _given(node)
                if given is not None:
                    yield from _literals(given, named)
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                yield from _in_verdict(node.value)


def _functions(module: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _named(function: ast.AST) -> dict[str, ast.expr]:
    """What the names of a function stand for, where they are written once and plainly."""
    return {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _given(call: ast.Call) -> ast.expr | None:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name not in GIVEN_AT:
        return None
    for keyword in call.keywords:
        if keyword.arg == "reason":
            return keyword.value
    return call.args[GIVEN_AT[name]] if len(call.args) > GIVEN_AT[name] else None


def _literals(given: ast.expr, named: dict[str, ast.expr]) -> Iterator[str]:
    match given:
        case ast.Constant(value=str() as text):
            if _REASON.fullmatch(text):
                yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from _literals(body, named)
            yield from _literals(orelse, named)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _literals(value, named)
        case ast.Name(id=name) if name in named:
            yield from _literals(named[name], {})


def _in_verdict(given: ast.Tuple) -> Iterator[str]:
    """`return "False", "Draining", …`: status, reason, message."""
    match given.elts:
        case [ast.Constant(value="True" | "False" | "Unknown"), ast.Constant(value=str() as reason), _]:
            yield reason
