"""A backup of one machine, as docs/backup.md says: copy the folder, lose it, put the copy in its place."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from acceptance.instance import HOSTS, MACHINES, eventually, running


@pytest.mark.slow
def test_a_folder_that_was_lost_and_restored_has_every_mac_again(tmp_path: Path) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    with running(data, "--hosts", "3", "--jobs", "0") as first:
        machines = first.all_bound(3)
        uids = {machine["metadata"]["uid"] for machine in first.items(MACHINES)}
        assert first.interrupt() == 0
        eventually("no process is left", lambda: not first.left_over(), within=30.0)
    subprocess.run(["cp", "-a", str(data), str(backup)], check=True)
    shutil.rmtree(data)
    subprocess.run(["cp", "-a", str(backup), str(data)], check=True)
    with running(data, "--hosts", "3", "--jobs", "0") as second:
        assert second.all_bound(3) == machines
        assert {machine["metadata"]["uid"] for machine in second.items(MACHINES)} == uids
        assert len(second.items(HOSTS)) == 3
        eventually("every Mac is owned", lambda: set(second.states().values()) == {"owned"}, within=60)
        assert second.interrupt() == 0
