"""docs/reference says what the code says today."""

import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from docs.documents import ROOT
from starlette.routing import Route
from unit.deploy.exported import exported
from unit.deploy.test_values import VALUES, leaves

from paddock.cli.listeners import metrics_route, probe_routes
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.http import PATH as DISPATCH
from paddock.runners.http.accounts import accounts_routes
from paddock.runners.http.concerns import concerns_route
from paddock.runners.http.ended import ended_routes
from paddock.runners.http.history import history_route
from paddock.runners.http.internal import internal_routes
from paddock.runners.http.leaks import leaks_route
from paddock.runners.http.readonly import readonly_routes
from paddock.runners.http.rewind import rewind_route
from paddock.runners.http.why import why_routes
from paddock.runners.webhooks.receive import PATH as WEBHOOK

FOLDER = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT / "hack"))
import reference  # noqa: E402 # pyright: ignore[reportMissingImports]

PAGES: dict[str, Callable[[], str]] = reference.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_current(name: str):
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make reference`"


def test_no_page_is_left_over():
    assert {path.name for path in FOLDER.iterdir()} == {*PAGES, "exit-codes.md"}


def test_every_metric_is_listed():
    """By another reader of the source, which the alerts are held to."""
    stems = {
        re.sub(r"_(bucket|count|sum)$", "", name) for name in exported() if name.endswith(("_bucket", "_count", "_sum"))
    }
    whole = {name for name in exported() if re.sub(r"_(bucket|count|sum)$", "", name) not in stems}
    assert {metric.name for metric in reference.metrics()} == stems | whole
    assert all(metric.about for metric in reference.metrics())


def test_every_value_of_the_chart_is_listed():
    listed = {
        path for path, _, _ in reference.values_of((ROOT / "deploy" / "chart" / "values.yaml").read_text("utf-8"))
    }
    for path in (".".join(leaf) for leaf in leaves(VALUES)):
        assert any(path == each or each.startswith(f"{path}.") or path.startswith(f"{each}.") for each in listed), path


def test_every_route_of_dispatch_is_listed_and_no_other():
    nothing: Any = SimpleNamespace(overview=None)
    routes: list[Route] = [
        *internal_routes(nothing, nothing, nothing, nothing, DispatchSettings()).all,
        *readonly_routes(nothing, nothing, nothing),
        *why_routes(nothing),
        leaks_route(nothing),
        concerns_route(nothing),
        rewind_route(nothing, nothing),
        history_route(nothing, nothing),
        *ended_routes(nothing, nothing),
        *accounts_routes(nothing, nothing, nothing, DispatchSettings()),
        metrics_route(nothing),
        *probe_routes(nothing, nothing),
    ]
    found = {f"{method} {route.path}" for route in routes for method in (route.methods or set()) - {"HEAD"}}
    assert found | {f"POST {WEBHOOK}", f"POST {DISPATCH}"} == set(reference.ROUTES)


def test_the_exit_codes_of_the_page_are_those_of_the_help():
    from paddock.cli import main

    told = set(re.findall(r"^  (\d+) ", main.epilog or "", re.MULTILINE))
    page = (FOLDER / "exit-codes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE)) == told
