"""`make` installs once: `paddock up` may be running from the environment that the next command finds."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from unit.deploy.rendering import ROOT

PROJECT = """
[project]
name = "nothing"
version = "0"
requires-python = ">=3.11"
[project.optional-dependencies]
embedded = []
[dependency-groups]
dev = []
[tool.uv]
package = false
"""


def make(folder: Path, path: Path, target: str) -> None:
    environ = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    environ.pop("PYTHON", None)
    subprocess.run(["make", "-s", target], cwd=folder, env=environ, check=True, timeout=120)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project without dependencies under our Makefile: what `make` installs, it installs as in ours."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").write_text(PROJECT)
    subprocess.run(["make", "-s", ".tools/bin/uv"], cwd=ROOT, check=True)
    (folder / ".tools").symlink_to(ROOT / ".tools")
    subprocess.run([".tools/bin/uv", "lock", "--offline", "--quiet"], cwd=folder, check=True)
    return folder


@pytest.fixture
def shims(tmp_path: Path) -> Path:
    """A folder whose `python3` chooses an interpreter, as pyenv's does."""
    folder = tmp_path / "shims"
    folder.mkdir()
    for name in ("python", "python3"):
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nexec "{shutil.which("python3")}" "$@"\n')
        shim.chmod(0o755)
    return folder


def test_the_second_command_keeps_the_environment_of_the_first(checkout: Path, shims: Path):
    make(checkout, shims, ".venv/installed")
    kept = checkout / ".venv" / "in-use"
    kept.touch()
    make(checkout, shims, ".venv/installed-for-development")
    assert kept.exists()
    (checkout / "uv.lock").touch()
    make(checkout, shims, ".venv/installed")
    assert kept.exists()


def test_an_environment_whose_interpreter_is_gone_is_made_anew(checkout: Path, shims: Path):
    make(checkout, shims, ".venv/installed")
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(checkout / "nowhere")
    (checkout / "uv.lock").touch()
    make(checkout, shims, ".venv/installed")
    subprocess.run([python, "-c", ""], check=True)
