"""Every metric that the code exports, read from the source: its name, type, labels, help and module."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent / "src" / "paddock"


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    labels: tuple[str, ...]
    about: str
    module: str


_KINDS: Final = {
    "Gauge": "gauge",
    "GaugeMetricFamily": "gauge",
    "LeaderGauge": "gauge",
    "Counter": "counter",
    "CounterMetricFamily": "counter",
    "Histogram": "histogram",
    "HistogramMetricFamily": "histogram",
}


def metrics() -> list[Metric]:
    """Every metric that the code exports, read from the source."""
    found = [metric for path in sorted(SOURCE.rglob("*.py")) for metric in _metrics_in(path)]
    return sorted(found, key=lambda metric: metric.name)


def _metrics_in(path: Path) -> Iterator[Metric]:
    text = path.read_text(encoding="utf-8")
    if "paddock_" not in text and "scaleway_" not in text:  # reading a module as a tree is dear
        return
    module = ast.parse(text)
    where = str(path.relative_to(SOURCE))
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        if not isinstance(call.func, ast.Name) or call.func.id not in _KINDS or not call.args:
            continue
        kind, given = _KINDS[call.func.id], {keyword.arg: keyword.value for keyword in call.keywords}
        labels = _texts(given.get("labels") or given.get("labelnames") or (call.args[2:3] or [None])[0])
        match call.args[0]:
            case ast.Constant(value=str() as name) if re.match(r"(paddock|scaleway)_", name):
                yield _metric(name, kind, labels, _text(call.args[1]), where)
            case ast.JoinedStr(values=[ast.Constant(value=str() as stem), ast.FormattedValue()]):
                for end, about in _family(module):
                    yield _metric(f"{stem}{end}", kind, labels, about, where)


def _metric(name: str, kind: str, labels: Sequence[str], about: str, module: str) -> Metric:
    return Metric(
        name.removesuffix("_total") + ("_total" if kind == "counter" else ""), kind, tuple(labels), about, module
    )


def _family(module: ast.Module) -> Iterator[tuple[str, str]]:
    """The ends of the names of a family with their help: rows of tables `{end: (help, …)}`, and calls `_family(end, help)`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and _text(key) and isinstance(value, ast.Tuple):
                    yield _text(key), _text(value.elts[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_family":
            named = [(_text(node.args[0]), _text(node.args[1]))]
            yield from (each for each in named if each[0])


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _texts(node: ast.expr | None) -> list[str]:
    return [_text(each) for each in node.elts] if isinstance(node, ast.List | ast.Tuple) else []
