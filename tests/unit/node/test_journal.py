"""The journal outlives the agent's versions, and counts the agent's lives."""

import errno
import json
from pathlib import Path

import pytest

from paddock.node.files import DiskFiles
from paddock.node.journal import Journal, Stage

_OLDER = {
    "uid": "u",
    "namespace": "default",
    "name": "p",
    "container": "runner",
    "image": "i",
    "vm": "pdk-pool-u",
    "stage": "ended",
    "accepted_at": "2026-01-01T12:00:00Z",
    "end": {"succeeded": True, "code": 0, "reason": "Completed", "finished_at": "2026-01-01T12:01:00Z"},
    "reported": True,
}
"""As an agent writes it that reports to Kubernetes itself."""


async def test_an_entry_of_an_agent_that_reported_by_itself_still_loads(tmp_path: Path) -> None:
    folder = tmp_path / "vms" / "u"
    folder.mkdir(parents=True)
    (folder / "pod.json").write_text(json.dumps(_OLDER))
    journal = Journal(DiskFiles(threads=False), tmp_path / "vms")
    await journal.load()
    entry = journal.get("u")
    assert entry is not None
    assert entry.end is not None
    assert (entry.stage, entry.end.reason) == (Stage.ENDED, "Completed")
    assert not journal.unreadable


async def test_each_start_is_another_life_in_the_same_folder(tmp_path: Path) -> None:
    journal = Journal(DiskFiles(threads=False), tmp_path / "vms")
    await journal.load()
    lives = [await journal.begin_life(word) for word in ("first", "second", "third")]
    assert [(each.folder, each.number) for each in lives] == [("first", 1), ("first", 2), ("first", 3)]
    await journal.load()
    assert not journal.entries()


async def test_a_life_is_counted_on_a_full_disk_with_what_is_kept_for_it(tmp_path: Path) -> None:
    class Full(DiskFiles):
        async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
            if path.name == "life.json" and ballast.exists():
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            await super().write(path, content, mode=mode)

    ballast = tmp_path / "vms" / ".ballast"
    journal = Journal(Full(threads=False), tmp_path / "vms")
    await journal.load()
    await journal.keep_ballast()
    assert ballast.exists()
    assert (await journal.begin_life("word")).number == 1
    assert not ballast.exists()


async def test_nobody_reports_a_life_that_is_not_journalled(tmp_path: Path) -> None:
    class Broken(DiskFiles):
        async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
            raise OSError(errno.EIO, "Input/output error", str(path))

    with pytest.raises(OSError, match="Input/output"):
        await Journal(Broken(threads=False), tmp_path / "vms").begin_life("word")
