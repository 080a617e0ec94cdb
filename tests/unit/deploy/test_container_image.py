"""The container image, by its text: no container can be built where these tests run."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from unit.deploy.rendering import ROOT, of_kind

from paddock.hosts.bootstrap.agent_bundle import DEFAULT_BUNDLE
from paddock.web import runbooks

TEXT = (ROOT / "Dockerfile").read_text()
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
STAGES = [index for index, line in enumerate(LINES) if line.startswith("FROM ")]
LAST = LINES[STAGES[-1] :]
REQUIREMENTS = ROOT / "hack" / "requirements"


def test_every_base_is_pinned_by_a_tag_that_names_a_version():
    for index in STAGES:
        image = LINES[index].split()[1]
        assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+\$\{BASE_DIGEST\}", image), image


def test_tools_of_the_build_stay_in_the_build():
    assert len(STAGES) == 2
    assert not any("uv " in line or "pip " in line or line.startswith("RUN") for line in LAST)
    assert [line for line in LAST if line.startswith("COPY")] == ["COPY --from=build /opt/paddock /opt/paddock"]


def test_the_dependencies_are_the_locked_ones_without_those_of_development():
    synced = [line for line in LINES if "uv sync" in line]
    assert synced
    assert all("--frozen" in line and "--no-dev" in line for line in synced)


def test_the_image_and_the_checkout_build_with_one_uv_by_its_sums():
    assert "pip install --no-cache-dir --require-hashes -r hack/requirements/uv.txt" in TEXT
    assert "--require-hashes -r hack/requirements/uv.txt" in (ROOT / "Makefile").read_text()
    assert len(re.findall(r"^uv==(\S+)", (REQUIREMENTS / "uv.txt").read_text(), re.MULTILINE)) == 1


def test_the_build_backend_is_one_exact_version():
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert re.fullmatch(r"hatchling==\d+\.\d+\.\d+", backend)
    # Wherever something of ours is built that others get, with the sum of the backend and of what it needs.
    assert f"{backend} \\\n    --hash=sha256:" in (REQUIREMENTS / "build.txt").read_text()
    for text in (TEXT, (ROOT / "Makefile").read_text()):
        built = [line for line in text.replace("\\\n", " ").splitlines() if re.search(r"uv build|\$\(UV\) build", line)]
        assert built
        assert all("--build-constraints hack/requirements/build.txt --require-hashes" in line for line in built)


@pytest.mark.parametrize(
    ("asked", "built", "status"),
    [("pinned", True, 0), ("pinned", False, 1), ("none", False, 0), ("", False, 1), ("no", False, 1)],
)
def test_an_image_without_the_agents_bundle_is_a_failed_build_unless_its_argument_asks_for_it(
    tmp_path: Path, asked: str, built: bool, status: int
) -> None:
    """The image's own command, with a builder of bundles that succeeds or does not."""
    assert "ARG AGENT_BUNDLE=pinned" in LINES
    (command,) = [line.removeprefix("RUN ") for line in LINES if "agent_bundle build" in line]
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\nexit {int(not built)}\n')
    python.chmod(0o755)
    script = command.replace("/opt/paddock/share", str(tmp_path / "share"))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "AGENT_BUNDLE": asked}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert (tmp_path / "asked").exists() == (asked == "pinned")
    if asked == "pinned":
        words = (tmp_path / "asked").read_text().split()
        assert words[-1].rpartition("/")[2] == DEFAULT_BUNDLE.name
        assert "--interpreter" not in words  # the pinned one


def test_it_runs_as_nobody_and_as_the_user_that_the_chart_names():
    (user,) = [line.split()[1] for line in LAST if line.startswith("USER ")]
    (deployment,) = of_kind("Deployment")
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] > 0


def test_the_command_is_started_without_a_shell():
    assert 'ENTRYPOINT ["paddock"]' in LAST
    assert all(line.startswith(("ENTRYPOINT [", "CMD [")) for line in LAST if line.startswith(("ENTRYPOINT", "CMD")))


def test_no_secret_is_asked_for_and_none_can_slip_in():
    assert not re.search(r"(?i)secret|token|password|api[_-]?key", TEXT)
    # They name the base by its digest, and whether there is a bundle for Macs.
    assert [line.split("=")[0] for line in LINES if line.startswith(("ARG", "ADD"))] == [
        "ARG BASE_DIGEST",
        "ARG AGENT_BUNDLE",
    ]
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        source.removeprefix("./")
        for line in LINES
        if line.startswith("COPY") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == allowed
    assert not any(fnmatch(name, pattern) for name in (".env", ".git", ".paddock") for pattern in allowed)


def test_everything_that_the_build_copies_exists():
    for line in LINES:
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / source).exists() for source in line.split()[1:-1])


def test_the_runbooks_are_where_the_web_page_looks_for_them():
    """The wheel takes them along, so they must be there when the image builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["docs/runbooks"] == str(runbooks._FOLDERS[0].relative_to(ROOT / "src"))
    text = (ROOT / "Dockerfile").read_text()
    assert text.index("COPY docs/runbooks ./docs/runbooks") < text.index("uv build")
