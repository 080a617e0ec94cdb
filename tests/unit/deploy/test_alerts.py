"""The alerts: what they name exists, each has its page and its Absent alert, and each is tested."""

import re
from typing import Any

import pytest
import yaml
from unit.deploy.exported import exported, names_in, problems_with
from unit.deploy.rendering import ROOT

FOLDER = ROOT / "deploy" / "alerts"
RUNBOOKS = ROOT / "docs" / "runbooks"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "paddock.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]  # fmt: skip
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in RULES}
TESTS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "paddock.tests.yaml").read_text())["tests"]


def is_twin(name: str) -> bool:
    return name.endswith("Absent")


def test_no_two_alerts_have_the_same_name():
    assert len(ALERTS) == len(RULES)


@pytest.mark.parametrize("name", ALERTS)
def test_every_metric_and_label_that_an_alert_names_is_exported(name: str):
    assert problems_with(ALERTS[name]["expr"]) == []


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(name: str):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    told = rule["annotations"]
    assert all(told[key].strip() for key in ("summary", "description", "runbook_url"))
    page = re.fullmatch(r"RUNBOOKS/(\w+\.md)", told["runbook_url"])
    assert page is not None
    assert (RUNBOOKS / page[1]).is_file()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_s_text_uses_only_labels_that_it_has(name: str):
    rule = ALERTS[name]
    kept = {label.strip() for group in re.findall(r"by \(([^)]*)\)", rule["expr"])[:1] for label in group.split(",")}
    used = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    assert used <= kept


@pytest.mark.parametrize("name", [name for name in ALERTS if not is_twin(name)])
def test_whoever_exports_an_alert_s_metrics_is_missed_when_it_falls_silent(name: str):
    """A metric that is exported only once something happened cannot be missed; another one of its module stands for it."""
    missed = {
        exported()[metric].module
        for simulated, rule in ALERTS.items()
        if is_twin(simulated)
        for metric in names_in(rule["expr"])
    }  # fmt: skip
    assert {exported()[metric].module for metric in names_in(ALERTS[name]["expr"])} <= missed


@pytest.mark.parametrize("name", [name for name in ALERTS if is_twin(name)])
def test_every_twin_misses_something_and_belongs_to_an_alert(name: str):
    assert ALERTS[name]["expr"].startswith("absent(")
    assert name.removesuffix("Absent") in ALERTS


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_seen_to_fire_and_seen_not_to(name: str):
    assert set(outcomes(name)) == {True, False}


def outcomes(name: str) -> list[bool]:
    """For each test that is about an alert: whether it has to fire in it."""
    found: list[bool] = []
    for test in TESTS:
        found += [bool(each["exp_alerts"]) for each in test.get("alert_rule_test", ()) if each["alertname"] == name]
        for each in test.get("promql_expr_test", ()):
            about = re.search(r'alertname=~?"([^"]*)"', each["expr"])
            if about is None or name in about[1].split("|"):
                found.append(any(f'alertname="{name}"' in sample["labels"] for sample in each["exp_samples"]))
    return found
