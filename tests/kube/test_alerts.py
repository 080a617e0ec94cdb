"""The alerts, run by the real promtool. It is built with Go as the control plane is; that it cannot be built is a failure."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "alerts"


@pytest.fixture(scope="module")
def promtool(pytestconfig: pytest.Config) -> Path:
    # The first build takes minutes: let its progress and its complaints reach the terminal.
    capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        built = subprocess.run(
            [sys.executable, str(ROOT / "hack" / "promtool" / "build.py")],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert built.returncode == 0, "promtool could not be built; the message is above"
    return Path(built.stdout.strip())


def run(promtool: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([promtool, *arguments], cwd=ALERTS, capture_output=True, text=True, timeout=360, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_rules_are_well_formed(promtool: Path):
    status, said = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", "paddock.rules.yaml")
    assert status == 0, said


def test_the_rules_fire_when_they_should_and_at_no_other_time(promtool: Path):
    status, said = run(promtool, "test", "rules", "paddock.tests.yaml")
    assert status == 0, said


def test_a_rule_that_is_blunted_is_noticed(promtool: Path, tmp_path: Path):
    """The tests bite: a rule that can no longer fire makes them fail."""
    blunt = (ALERTS / "paddock.rules.yaml").read_text().replace("paddock_queue_oldest_dispatchable_seconds) > 600", "paddock_queue_oldest_dispatchable_seconds) > 6000")  # fmt: skip
    (tmp_path / "paddock.rules.yaml").write_text(blunt)
    (tmp_path / "paddock.tests.yaml").write_text((ALERTS / "paddock.tests.yaml").read_text())
    status, said = run(promtool, "test", "rules", str(tmp_path / "paddock.tests.yaml"))
    assert status != 0
    assert "PaddockJobsWaitTooLong" in said


def test_every_expression_of_the_dashboards_can_be_read(promtool: Path, tmp_path: Path):
    boards = [json.loads(path.read_text()) for path in (ROOT / "deploy" / "grafana").glob("*.json")]
    asked = [target["expr"] for board in boards for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [{"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "asked.yaml").write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    status, said = run(promtool, "check", "rules", "--lint=none", str(tmp_path / "asked.yaml"))
    assert status == 0, said
    assert f"{len(asked)} rules found" in said
