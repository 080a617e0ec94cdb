"""Every metric that the code exports, read from the source: its name as Prometheus knows it, its labels, its module."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parents[3] / "src" / "paddock"
_SUFFIXES: Final = {
    "Gauge": ("",),
    "GaugeMetricFamily": ("",),
    "LeaderGauge": ("",),
    "Counter": ("_total",),
    "CounterMetricFamily": ("_total",),
    "Histogram": ("_bucket", "_count", "_sum"),
    "HistogramMetricFamily": ("_bucket", "_count", "_sum"),
}
_NAME: Final = re.compile(r"\b(?:paddock|scaleway)_[a-z_]+")
_WITH_LABELS: Final = re.compile(r"\b((?:paddock|scaleway)_[a-z_]+)\s*\{([^}]*)\}")
_GROUPED: Final = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Metric:
    name: str
    labels: frozenset[str]
    module: str


@cache
def exported() -> dict[str, Metric]:
    """By name; histograms by each of their series."""
    return {metric.name: metric for path in sorted(SOURCE.rglob("*.py")) for metric in _in_module(path)}


def names_in(expression: str) -> set[str]:
    return set(_NAME.findall(expression))


def problems_with(expression: str) -> list[str]:
    """What an expression names that the code does not export; templates of Grafana are taken for values."""
    known = exported()
    found = [f"there is no metric {name}" for name in sorted(names_in(expression)) if name not in known]
    for name, matchers in _WITH_LABELS.findall(expression):
        used = re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers) if name in known else ()
        found += [f"{name} has no label {label}" for label in used if label not in known[name].labels]
    all_labels = {"le"} | {label for name in names_in(expression) & known.keys() for label in known[name].labels}
    for group in _GROUPED.findall(expression):
        found += [f"no metric of {expression} has {label}" for label in _split(group) if label not in all_labels]
    return found


def _split(group: str) -> list[str]:
    return [label.strip() for label in group.split(",") if label.strip()]


def _in_module(path: Path) -> Iterator[Metric]:
    text = path.read_text()
    if _NAME.search(text) is None:  # reading a module as a tree is dear
        return
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _SUFFIXES:
            continue
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        labels = given.get("labels") or given.get("labelnames") or (node.args[2] if len(node.args) > 2 else None)
        for name in _named(node.args[0] if node.args else None, path):
            for suffix in _SUFFIXES[node.func.id]:
                yield Metric(
                    name.removesuffix("_total") + suffix, frozenset(_texts(labels)), str(path.relative_to(SOURCE))
                )


def _named(first: ast.expr | None, path: Path) -> Iterator[str]:
    match first:
        case ast.Constant(value=str() as name) if _NAME.fullmatch(name):
            yield name
        case ast.JoinedStr(values=[ast.Constant(value=str() as stem), ast.FormattedValue()]):
            # A family of metrics: the keys of the module's tables are the ends of their names.
            for table in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict)):
                yield from (f"{stem}{key}" for key in _texts(ast.List(elts=[k for k in table.keys if k is not None])))
            for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
                if isinstance(call.func, ast.Name) and call.func.id == "_family" and call.args:
                    yield from (f"{stem}{key}" for key in _texts(ast.List(elts=[call.args[0]])))


def _texts(given: ast.expr | None) -> Iterator[str]:
    if isinstance(given, ast.List | ast.Tuple):
        for each in given.elts:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value
