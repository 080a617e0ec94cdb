"""A backup of one machine, as docs/backup.md says: copy the folder, lose it, put the copy in its place."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from acceptance.instance import HOSTS, MACHINES, eventually, running

pytestmark = pytest.mark.slow


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every account may enter, unlike pytest's own: root's Postgres keeps its data elsewhere otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-restore-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_folder_that_was_lost_and_restored_has_every_mac_again(reachable: Path) -> None:
    data, backup = reachable / "data", reachable / "backup"
    with running(data, "--hosts", "3", "--jobs", "0") as first:
        machines = first.all_bound(3, ready=True)
        uids = {machine["metadata"]["uid"] for machine in first.items(MACHINES)}
        assert first.interrupt() == 0
        eventually("no process is left", lambda: not first.left_over(), within=30.0)
    assert not (data / "postgres" / "elsewhere").exists(), "the database is in the folder"
    subprocess.run(["cp", "-a", str(data), str(backup)], check=True)
    shutil.rmtree(data)
    subprocess.run(["cp", "-a", str(backup), str(data)], check=True)
    with running(data, "--hosts", "3", "--jobs", "0") as second:
        assert second.all_bound(3) == machines
        assert {machine["metadata"]["uid"] for machine in second.items(MACHINES)} == uids
        assert len(second.items(HOSTS)) == 3
        eventually("every Mac is owned", lambda: set(second.states().values()) == {"owned"}, within=60, every=1.0)
        assert second.interrupt() == 0
