"""`paddock up` that cannot start: one sentence with its remedy, the documented exit code, and never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from acceptance.instance import PADDOCK

pytestmark = pytest.mark.slow


def refused(*words: str, **environment: str) -> str:
    """What is said by a start that must fail, which is one line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCW_", "PADDOCK_"))}
    ended = subprocess.run(
        [str(PADDOCK), "up", *words],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Paddock is up" not in ended.stdout
    [line] = ended.stderr.strip().splitlines()
    assert line.startswith("paddock: ")
    return line


def simulated(data: Path, *words: str) -> str:
    return refused("--simulate", "--hosts", "1", "--data", str(data), "--port", "0", "--kube-port", "0", *words)


def test_no_credentials(tmp_path: Path):
    told = refused("--data", str(tmp_path / "data"))
    assert "SCW_SECRET_KEY" in told
    assert "--simulate" in told
    assert not (tmp_path / "data").exists(), "nothing was begun"


def test_a_port_that_is_taken(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = simulated(tmp_path / "data", "--kube-port", str(port))
    assert f"127.0.0.1:{port}" in told
    assert told.endswith("choose another port with --kube-port")


def test_a_data_folder_of_another_version(tmp_path: Path):
    old = tmp_path / "data" / "postgres" / "data"
    old.mkdir(parents=True)
    (old / "PG_VERSION").write_text("9\n")
    told = simulated(tmp_path / "data")
    assert "written by Postgres 9" in told
    assert "install Postgres 9, or move the data folder away" in told


@pytest.mark.parametrize("dsn", ["postgresql://u:swordfish@127.0.0.1:1/x", "u swordfish"])
def test_a_wrong_dsn(tmp_path: Path, dsn: str):
    told = simulated(tmp_path / "data", "--dsn", dsn)
    assert "--dsn" in told or "the DSN is none: write postgresql://" in told
    assert "swordfish" not in told


def test_a_data_folder_that_is_a_file(tmp_path: Path):
    (tmp_path / "data").write_text("")
    ended = subprocess.run(
        [str(PADDOCK), "up", "--simulate", "--data", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "--data" in ended.stderr
