"""`paddock config check`: what a process would start with here, from where, and what is wrong, by field."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from paddock.cli import main


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID", "PADDOCK_GITHUB_APP_ID", "PADDOCK_DSN"):
        monkeypatch.delenv(name, raising=False)


def check(*words: str) -> tuple[int, dict[str, Any]]:
    outcome = CliRunner().invoke(main, ["config", "check", *words, "-o", "json"])
    return outcome.exit_code, {value["field"]: value for value in json.loads(outcome.output)["items"]}


def test_each_setting_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADDOCK_DSN", "postgresql://paddock@db/paddock")
    _, found = check("dispatch", "--hold", "12")
    assert (found["--hold"]["value"], found["--hold"]["source"]) == ("12.0", "flag")
    assert (found["--dsn"]["value"], found["--dsn"]["source"]) == ("postgresql://paddock@db/paddock", "env")
    assert found["--runners-namespace"]["source"] == "default"


@pytest.mark.parametrize("dsn", ["postgresql://paddock:geheim@db/paddock", "host=db password=geheim user=paddock"])
def test_no_secret_is_ever_shown(monkeypatch: pytest.MonkeyPatch, dsn: str):
    monkeypatch.setenv("PADDOCK_DSN", dsn)
    monkeypatch.setenv("PADDOCK_GITHUB_APP_ID", "7")
    monkeypatch.setenv("PADDOCK_GITHUB_WEBHOOK_SECRET", "geheim")
    monkeypatch.setenv("SCW_SECRET_KEY", "geheim")
    outcome = CliRunner().invoke(main, ["config", "check", "-o", "wide"])
    assert "geheim" not in outcome.output
    assert "••••••" in outcome.output


def test_one_bad_setting_hides_no_other():
    code, found = check("operator", "--bootstrap-reboot-after", "x", "--default-adopt-pool-prefix", "Bad Prefix")
    assert code == 3
    assert "not a valid integer" in found["--bootstrap-reboot-after"]["problem"]
    assert "must be lower-case" in found["--default-adopt-pool-prefix"]["problem"]
    assert "SCW_DEFAULT_PROJECT_ID" in found["SCW_SECRET_KEY"]["problem"]


def test_a_missing_database_says_how_to_name_it():
    _, found = check("dispatch")
    assert found["--dsn"]["problem"] == "it is not set: give it or set PADDOCK_DSN"


def test_a_fleet_file_with_a_mistake_is_named(tmp_path: Path):
    file = tmp_path / "fleet.yaml"
    file.write_text("nonsense: true\n")
    _, found = check("--fleet-config", str(file))
    assert "nonsense" in found["--fleet-config"]["problem"]


def test_everything_in_order_exits_with_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text("{}\n")
    monkeypatch.setenv("SCW_SECRET_KEY", "geheim")
    monkeypatch.setenv("SCW_DEFAULT_PROJECT_ID", "11111111-1111-4111-8111-111111111111")
    code, found = check("operator", "--fleet-config", str(fleet))
    assert code == 0, found


def test_a_flag_that_the_process_does_not_take_is_refused():
    outcome = CliRunner().invoke(main, ["config", "check", "dispatch", "--watch-filter", "blue"])
    assert outcome.exit_code == 2
    assert "--watch-filter" in outcome.output
