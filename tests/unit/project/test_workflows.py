"""The workflows of GitHub, by their text: none can run where these tests run."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.deploy.rendering import ROOT

sys.path.insert(0, str(ROOT / "hack"))
import pins  # pyright: ignore[reportMissingImports]

ACTIONS = tomllib.loads((ROOT / "src" / "paddock" / "pins.toml").read_text(encoding="utf-8"))["actions"]
FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
EACH = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
TARGETS.add(".venv/installed-for-development")


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def unknown_targets(script: str) -> set[str]:
    """The targets of `make` in a script that the Makefile does not have."""
    named = {word for line in re.findall(r"^\s*make\s+(.+)$", script, re.MULTILINE) for word in line.split()}
    return {word for word in named if "=" not in word} - TARGETS


def pinned(uses: str) -> bool:
    return re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", uses) is not None


def test_every_suite_has_its_workflow():
    assert {"check", "test", "slow", "kube", "browser", "macos", "release"} == {path.stem for path in WORKFLOWS}


@EACH
def test_every_step_either_runs_something_or_uses_a_pinned_action(path: Path):
    assert steps(path)
    for step in steps(path):
        assert ("run" in step) != ("uses" in step), step
        assert pinned(step.get("uses", "a/b@" + "0" * 40)), step


@EACH
def test_every_action_is_the_commit_of_the_file_of_pins(path: Path):
    """`make pins` writes them."""
    text = path.read_text(encoding="utf-8")
    assert pins.pinned(text, ACTIONS) == text


def test_no_action_is_pinned_that_nobody_uses():
    used = {step["uses"].partition("@")[0] for path in WORKFLOWS for step in steps(path) if "uses" in step}
    assert set(ACTIONS) == used
    assert all(
        re.fullmatch(r"[0-9a-f]{40}", each["commit"]) and each["version"].startswith("v") for each in ACTIONS.values()
    )


@EACH
def test_what_a_workflow_installs_from_an_index_of_packages_has_its_sum(path: Path):
    """Packages of Debian are signed by it, and what `make` installs is in the lock file."""
    installed = [line for step in steps(path) for line in step.get("run", "").splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "dist/*.whl" in line for line in installed), installed


def test_the_workflows_themselves_and_the_locked_packages_are_looked_at():
    said = {path.stem: " ".join(step.get("run", "") for step in steps(path)) for path in WORKFLOWS}
    assert "zizmor --offline" in said["check"]
    assert "pip-audit --disable-pip --require-hashes -r locked.txt" in said["slow"]


@EACH
def test_every_make_target_that_is_named_exists(path: Path):
    assert [
        unknown_targets(step["run"]) for step in steps(path) if "run" in step and unknown_targets(step["run"])
    ] == []


@EACH
def test_a_workflow_may_read_and_a_job_may_write_only_what_its_steps_need(path: Path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        written = {what for what, right in job.get("permissions", {}).items() if right != "read"}
        used = " ".join(str(step) for step in job["steps"])
        needed = {
            "contents": "gh release create" in used,
            "packages": "docker login" in used or "helm registry login" in used,
            "attestations": "actions/attest-" in used,
            "id-token": "actions/attest-" in used or "pypi-publish" in used,
        }
        assert written == {what for what, wanted in needed.items() if wanted}, name


@EACH
def test_no_credential_stays_in_the_checkout_and_no_job_runs_for_ever(path: Path):
    for job in read(path)["jobs"].values():
        assert job["timeout-minutes"] <= 180
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@EACH
def test_nothing_that_a_stranger_writes_is_put_into_a_script(path: Path):
    """Names of branches and titles are text of whoever opens a pull request; they reach a script by the environment only."""
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []
    assert "pull_request_target" not in path.read_text(encoding="utf-8")


def test_tests_run_on_the_oldest_python_that_we_serve_and_on_a_newer_one():
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    matrix = read(FOLDER / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert matrix[0] == oldest
    assert len(matrix) > 1


def test_dependency_updates_look_into_every_folder_that_has_a_go_module_or_a_lock_of_npm():
    updates = {one["package-ecosystem"]: one for one in read(FOLDER / "dependabot.yml")["updates"]}
    assert set(updates) == {"uv", "pip", "github-actions", "docker", "gomod", "npm"}
    modules = {f"/{path.parent.relative_to(ROOT)}" for path in (ROOT / "hack").rglob("go.mod")}
    assert set(updates["gomod"]["directories"]) == modules
    locks = [f"/{path.parent.relative_to(ROOT)}" for path in (ROOT / "hack").rglob("package-lock.json")]
    assert [updates["npm"]["directory"]] == locks


def test_what_npm_installs_has_its_integrity_and_names_no_registry():
    for path in (ROOT / "hack").rglob("package-lock.json"):
        wanted = {name: one for name, one in json.loads(path.read_text())["packages"].items() if name}
        assert wanted
        for one in wanted.values():
            assert one["integrity"].startswith("sha512-")
            assert "resolved" not in one


def test_a_bug_report_asks_for_the_doctor_and_for_versions():
    fields = {one.get("id"): one for one in read(FOLDER / "ISSUE_TEMPLATE" / "bug.yml")["body"]}
    assert "paddock doctor" in fields["doctor"]["attributes"]["label"]
    assert "paddock --version" in fields["versions"]["attributes"]["description"]
    assert all(fields[name]["validations"]["required"] for name in ("happened", "doctor", "versions"))


@pytest.mark.parametrize("name", ["feature.yml", "config.yml"])
def test_the_other_forms_are_valid_yaml(name: str):
    assert read(FOLDER / "ISSUE_TEMPLATE" / name)


def test_the_hooks_of_a_commit_use_the_locked_tools():
    config = read(ROOT / ".pre-commit-config.yaml")
    entries = {hook["id"]: hook["entry"] for repo in config["repos"] for hook in repo["hooks"]}
    assert set(entries) == {"ruff-format", "ruff-check", "lint-imports"}
    assert all(entry.startswith(".venv/bin/") for entry in entries.values())


# The checks themselves can fail.


def test_a_target_that_does_not_exist_is_found():
    assert unknown_targets("make check\nmake tset WORKERS=0\n") == {"tset"}


@pytest.mark.parametrize(
    "uses",
    ["actions/checkout@v4", "actions/checkout@v4.2.2", "actions/checkout@main", "actions/checkout", "./local@v1.0.0x"],
)
def test_an_action_that_is_not_pinned_is_found(uses: str):
    assert not pinned(uses)
