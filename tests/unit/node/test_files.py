"""Files are whole or not there; what a guest lays in our way is not followed, waited for or read without end."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.base.readable import selected
from paddock.base.secrets import Secret
from paddock.node.files import DiskFiles
from paddock.node.lock import AlreadyRunningError, agent_lock
from paddock.node.logs import RotatingLog
from paddock.node.shares import Guest, Shares, environment, readable_tail

FILES = DiskFiles()


async def test_links_fifos_and_folders_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("link", "fifo", "folder", "missing"):
        assert await FILES.read(tmp_path / name, 100) is None, name
        assert await FILES.tail(tmp_path / name, 100) is None, name


async def test_a_log_of_ten_gigabytes_costs_four_kilobytes(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(10 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"the end\n")
    tail = await FILES.tail(tmp_path / "log", 4096)
    assert tail is not None
    assert len(tail) == 4096
    assert readable_tail(tail) == "the end\n"


async def test_a_write_replaces_a_link_and_does_not_follow_it(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "job").symlink_to(tmp_path / "victim")
    await FILES.write(tmp_path / "job", b"config")
    assert (tmp_path / "victim").read_text() == "untouched"
    assert (tmp_path / "job").read_bytes() == b"config"
    assert (tmp_path / "job").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"job", "victim"}, "a draft was left"


async def test_a_removed_folder_takes_nothing_behind_a_link_with_it(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "link").symlink_to(tmp_path / "kept")
    await FILES.remove(tmp_path / "share")
    await FILES.remove(tmp_path / "share")
    assert (tmp_path / "kept" / "file").exists()


async def test_only_words_that_we_know_are_believed(tmp_path: Path) -> None:
    shares = Shares(FILES, tmp_path)
    await shares.prepare({"A": "b"}, b"#!/bin/sh\n", anew=True)
    assert await shares.guest() == Guest()
    for name, text in (("state", "owned"), ("rc", "256"), ("mark", "12 dancing")):
        (shares.status / name).write_text(text)
    assert await shares.guest() == Guest()
    for name, text in (("state", "job\n"), ("rc", "143\n"), ("mark", "12 running\n")):
        (shares.status / name).write_text(text)
    assert await shares.guest() == Guest(state="job", rc=143, mark="12 running")


async def test_a_guest_of_another_user_number_can_use_both_shares_and_nobody_else_on_the_host_reaches_them(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "runner.tar.gz"
    archive.write_bytes(b"runner")
    archive.chmod(0o644)
    journal, before = tmp_path / "vms", os.umask(0o077)
    try:
        await FILES.make_folder(journal)
        shares = Shares(FILES, journal / "uid", journal / "elsewhere")
        await shares.prepare({"A": "b"}, b"#!/bin/sh\n", archive, anew=True)
        await shares.hand_over(Secret("config"))
        await shares.ask_to_halt()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in shares.env.iterdir()}
    assert modes == {"guest.sh": 0o755, **dict.fromkeys(("env", "job", "stop", "runner.tar.gz"), 0o644)}
    assert shares.status.stat().st_mode & 0o777 == 0o777
    assert shares.env.stat().st_mode & 0o777 == 0o755
    assert journal.stat().st_mode & 0o777 == 0o700


async def test_a_runner_archive_that_belongs_to_root_is_shared_without_touching_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "runner.tar.gz"
    archive.write_bytes(b"runner")
    archive.chmod(0o444)
    touched: list[Path] = []
    monkeypatch.setattr(Path, "chmod", lambda self, mode: touched.append(self))
    await FILES.copy(archive, tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_ino == archive.stat().st_ino
    assert touched == []


def test_values_survive_the_shell_whatever_they_hold(tmp_path: Path) -> None:
    import subprocess

    value = 'it\'s $HOME `id` "x" \\ \n two lines'
    (tmp_path / "env").write_text(environment({"VALUE": value, "bad-name": "x"}))
    shown = subprocess.run(
        ["sh", "-c", f'. {tmp_path}/env && printf %s "$VALUE"'], capture_output=True, check=True, text=True
    )
    assert shown.stdout == value


def test_a_second_agent_on_one_mac_stands_down_and_says_what_to_do(tmp_path: Path) -> None:
    with agent_lock(tmp_path), pytest.raises(AlreadyRunningError, match="stop it first"), agent_lock(tmp_path):
        pass
    with agent_lock(tmp_path):
        pass


def test_the_agents_own_log_does_not_grow_without_end(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "agent.log", largest=1000)
    for number in range(1000):
        log.write(f"line {number}\n")
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.log",
        "agent.log.1",
        "agent.log.2",
        "agent.log.3",
    ]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    assert "line 999" in (tmp_path / "agent.log").read_text()


def test_a_log_is_shown_as_kubectl_asks_for_it() -> None:
    assert selected("a\nb\nc\n", tail_lines=2) == "b\nc\n"
    assert selected("a\nb\nc\n", tail_lines=0) == ""
    assert selected("añb", limit_bytes=2) == "a"


@pytest.fixture
def _few_descriptors() -> Iterator[None]:
    """As few open files as launchd gives to whoever asks for no more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("_few_descriptors")
async def test_a_share_is_removed_however_deep_a_job_made_it(tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    here = os.open(share, os.O_RDONLY)
    for _ in range(3000):  # longer than any path may be
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.mkdir("folder", dir_fd=here)
        below = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    for number in range(20):
        (share / "wide" / str(number) / "deeper").mkdir(parents=True)
    await FILES.remove(share)
    assert list(tmp_path.iterdir()) == []


async def test_folders_that_a_job_closed_are_removed_and_what_a_link_in_them_names_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    closed = tmp_path / "share" / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "link").symlink_to(tmp_path / "kept")
    (closed / "file").write_text("x")
    for folder in (closed, closed.parent, closed.parent.parent):
        folder.chmod(0)
    await FILES.remove(tmp_path / "share")
    assert not (tmp_path / "share").exists()
    assert (tmp_path / "kept" / "file").read_text() == "x"
