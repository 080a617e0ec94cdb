"""The build script gives complete binaries or says what to install; it never half succeeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kube.controlplane import BUILD_SCRIPT


def provide(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
    return subprocess.run(
        [sys.executable, str(BUILD_SCRIPT)], env=kept | environment, capture_output=True, text=True, check=False
    )


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_given_assets_are_used_without_go(tmp_path: Path) -> None:
    for name in ("kube-apiserver", "etcd"):
        program(tmp_path / name, "exit 0")
    given = provide(KUBEBUILDER_ASSETS=str(tmp_path), PATH="")
    assert (given.returncode, given.stdout) == (0, f"{tmp_path}\n")


def test_given_assets_that_lack_a_program_are_refused_by_its_name(tmp_path: Path) -> None:
    program(tmp_path / "etcd", "exit 0")
    given = provide(KUBEBUILDER_ASSETS=str(tmp_path))
    assert (given.returncode, given.stdout) == (1, "")
    assert "no executable kube-apiserver" in given.stderr


def test_a_missing_go_is_named_with_the_version_to_install(tmp_path: Path) -> None:
    given = provide(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (given.returncode, given.stdout) == (1, "")
    assert "Install Go 1.26" in given.stderr


@pytest.mark.parametrize(
    "go",
    [
        "echo go1.22.1",
        'echo "go: go.mod requires go >= 1.26.0 (running go 1.22.1; GOTOOLCHAIN=local)" >&2; exit 1',
    ],
)
def test_a_go_that_is_too_old_is_named_with_the_version_to_install(tmp_path: Path, go: str) -> None:
    program(tmp_path / "go", go)
    given = provide(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (given.returncode, given.stdout) == (1, "")
    assert "1.22.1" in given.stderr
    assert "Install Go 1.26" in given.stderr


def test_modules_that_cannot_be_fetched_are_blamed_on_the_network_and_leave_nothing(tmp_path: Path) -> None:
    program(tmp_path / "go", '[ "$1" = env ] && echo go1.26.8 && exit; echo "dial tcp: i/o timeout" >&2; exit 1')
    cache = tmp_path / "cache"
    given = provide(PATH=str(tmp_path), XDG_CACHE_HOME=str(cache))
    assert (given.returncode, given.stdout) == (1, "")
    assert "dial tcp: i/o timeout" in given.stderr
    assert "GOPROXY" in given.stderr
    assert [path.suffix for path in (cache / "paddock" / "kube").iterdir()] == [".lock"]
