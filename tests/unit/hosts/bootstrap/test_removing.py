"""What a step may remove from a Mac: a file that it names, and never the disk."""

import subprocess
from importlib import resources
from pathlib import Path

import pytest

PRELUDE = (resources.files("paddock.hosts.bootstrap") / "scripts" / "prelude.sh").read_text()


def absent(root: Path, path: str) -> "subprocess.CompletedProcess[str]":
    # Without sudo: who runs the tests may not have it, and the folder is theirs.
    script = f'{PRELUDE}\nas_root() {{ "$@"; }}\nabsent "$1"\n'
    return subprocess.run(
        ["bash", "-c", script, "bash", path], env={"ROOT": str(root)}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "tool").write_text("x")
    return tmp_path


def test_what_is_named_is_removed_and_said(root: Path) -> None:
    done = absent(root, "/opt/tool")
    assert (done.returncode, done.stdout) == (0, "changed removed /opt/tool\n")
    assert not (root / "opt" / "tool").exists()


@pytest.mark.parametrize("path", ["", "/", "/opt", "/opt/", "opt/tool"])
def test_an_empty_path_and_the_top_of_the_disk_are_refused(root: Path, path: str) -> None:
    done = absent(root, path)
    assert done.returncode == 70
    assert f"refused to remove '{path}'" in done.stderr
    assert (root / "opt" / "tool").exists()
