"""What a Mac tells of itself, and what is made of its silence."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock.base.programs import Ended
from paddock.node import mac_host
from paddock.node.mac_host import MacHost, has_session

AQUA = "gui/501 = {\n\tsession = Aqua\n}"
NONE = "Bad request.\nCould not find domain for user gui: 501"


@pytest.mark.parametrize(
    ("ended", "found"),
    [
        (Ended(0, AQUA.encode(), b""), True),
        (Ended(0, b"gui/501 = {\n\tsession = LoginWindow\n}", b""), False),
        (Ended(113, b"", NONE.encode()), False),
        (Ended(1, b"", b"Operation not permitted"), None),
        (Ended(1, b"", b"sudo: a password is required"), None),
    ],
)
def test_only_what_launchctl_says_is_an_answer(ended: Ended, found: bool | None):
    assert has_session(ended) is found


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MacHost:
    """A Mac whose launchctl answers root alone, whom sudo asks."""
    monkeypatch.setattr(mac_host, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "launchctl").write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    (tmp_path / "launchctl").chmod(0o755)
    return MacHost(tmp_path, egress=tmp_path / "egress")


def answers(folder: Path, text: str, status: int) -> None:
    program = folder / "sudo"
    program.write_text(
        f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\necho '{text if status == 0 else ''}'\nexit {status}\n"
    )
    program.chmod(0o755)


async def test_a_session_that_only_root_is_told_of_is_one(mac: MacHost, tmp_path: Path):
    answers(tmp_path, AQUA, 0)
    assert await mac.session_problem() == ""
    answers(tmp_path, NONE, 113)
    assert "has no Aqua session" in await mac.session_problem()


async def test_not_being_told_is_not_having_no_session(mac: MacHost, tmp_path: Path):
    answers(tmp_path, "sudo: a password is required", 1)
    with pytest.raises(OSError, match="does not tell"):
        await mac.session_problem()


async def test_rules_for_vms_that_are_open_or_forgotten_are_a_problem(mac: MacHost, tmp_path: Path):
    now = datetime.now(UTC)
    assert await mac.egress_problem(now) == "", "the fleet has none"
    (tmp_path / "egress").write_text("armed\n203.0.113.20 \n")
    assert await mac.egress_problem(now) == ""
    assert "are looked after by nobody" in await mac.egress_problem(now + timedelta(minutes=6))
    (tmp_path / "egress").write_text("open\n\n")
    assert "could not be loaded (last told " in await mac.egress_problem(now)


@pytest.mark.parametrize("word", ["On", "Off"])
async def test_a_disk_that_is_locked_at_the_start_loses_the_mac(mac: MacHost, tmp_path: Path, word: str):
    (tmp_path / "fdesetup").write_text(f"#!/bin/sh\necho 'FileVault is {word}.'\n")
    (tmp_path / "fdesetup").chmod(0o755)
    assert ("fdesetup disable" in await mac.filevault_problem()) == (word == "On")
