"""The Grafana dashboards: what they show exists, and they ask nobody but the data source."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from unit.deploy.exported import names_in, problems_with
from unit.deploy.rendering import ROOT

FILES = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "paddock.json").read_text())
ROWS = [
    "Overview",
    "Queue and latency",
    "Results",
    "Dispatch",
    "GitHub and callers",
    "Capacity",
    "Hosts and money",
    "Healing",
    "Control loops",
]
LOOKED_FOR = {
    "how many jobs come, start and end": (
        "paddock_jobs_enqueued_total",
        "paddock_jobs_started_total",
        "paddock_jobs_completed_total",
    ),
    "how long they wait and run": ("paddock_job_wait_seconds_bucket", "paddock_job_run_seconds_bucket"),
    "what waits although it need not": (
        "paddock_queue_unserved_jobs",
        "paddock_runner_pool_unused_places",
        "paddock_runner_pool_start_timeouts_total",
    ),
    "whether GitHub lets us ask, and tells us": (
        "paddock_github_budget_least_ratio",
        "paddock_github_budget_refused_installations",
        "paddock_scale_set_sources",
        "paddock_scale_set_oldest_assigned_seconds",
        "paddock_scale_set_silent_seconds",
    ),
    "who knocks at dispatch": ("paddock_dispatch_token_reviews_total",),
}
"""What an operator looks for on the board, and the metrics that answer it."""


def panels() -> Iterator[dict[str, Any]]:
    for path in FILES:
        yield from (panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row")


def targets() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel["targets"]]


def test_the_rows_are_there_in_the_order_of_a_look():
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == ROWS


@pytest.mark.parametrize(("title", "expression"), targets())
def test_every_metric_and_label_that_a_panel_shows_is_exported(title: str, expression: str):
    assert names_in(expression)
    assert problems_with(expression) == []


@pytest.mark.parametrize("question", LOOKED_FOR)
def test_the_board_answers_what_an_operator_looks_for(question: str):
    on_board = {name for _, expression in targets() for name in names_in(expression)}
    assert set(LOOKED_FOR[question]) - on_board == set()


def test_results_are_shown_by_conclusion_and_times_by_half_95_and_99_percent():
    shown = [expression for _, expression in targets()]
    assert any("by (conclusion)" in one and "paddock_jobs_completed_total" in one for one in shown)
    for name in ("paddock_job_wait_seconds_bucket", "paddock_job_run_seconds_bucket"):
        quantiles = [one.partition("(")[2].partition(",")[0] for one in shown if name in one]
        assert quantiles == ["0.5", "0.95", "0.99"]


def test_every_panel_says_what_it_shows_and_has_a_place_of_its_own():
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["title"]
        assert panel["description"]
        where = panel["gridPos"]
        cells = {(where["x"] + i, where["y"] + j) for i in range(where["w"]) for j in range(where["h"])}
        assert not cells & taken
        assert where["x"] + where["w"] <= 24
        taken |= cells
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(numbers) == len(set(numbers))


def test_every_question_goes_to_the_data_source_that_the_reader_chose():
    assert BOARD["templating"]["list"][0]["type"] == "datasource"
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels():
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])


def test_a_variable_asks_for_metrics_that_exist():
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            assert problems_with(variable["definition"]) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_dashboard_leads_nowhere_outside(path: Any):
    text = path.read_text()
    assert not re.search(r"https?://", text)
    assert json.loads(text)["links"] == []


def test_the_counts_of_hosts_and_pods_do_not_grow_with_the_replicas_that_count_them():
    """Each operator and each dispatch process shows the same hosts, pools and queue."""
    shared = re.compile(
        r"(?<!by \(pool\) \()\bsum(?: by \([^)]*\))? \((?:paddock_hosts|paddock_machine|paddock_runner_pool|paddock_queue)"
    )
    assert not [expression for _, expression in targets() if shared.search(expression)]
