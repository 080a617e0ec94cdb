"""The steps of a reinstall in place: asked for under the machine's own name, seen to begin, seen to end."""

from datetime import timedelta
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, machine, server

from paddock.clients.scaleway import Gone, Unknown
from paddock.hosts.api import MachineStatus, Reinstall
from paddock.hosts.reinstall import (
    ASK_AT_MOST,
    AskForReinstall,
    GiveHostBack,
    HostIsNew,
    InstallBegan,
    ProveAgain,
    WaitForInstall,
    reinstall_step,
)

SETTLE = timedelta(minutes=1)
Wipe = Literal["", "requested", "started"]


def step(wipe: Wipe = "", status: str = "ready", *, name: str = "m-1", minutes: float = 0, asked: int = 1) -> Any:
    """The step for a server that shows this, so many minutes after the cloud was asked last."""
    work = Reinstall(since=NOW, wipe=wipe, asked=asked if wipe else 0, asked_at=NOW if wipe else None)
    one = replace(machine("m-1"), status=MachineStatus(server_id="s", reinstall=work))
    return reinstall_step(one, server(name, status=status), NOW + timedelta(minutes=minutes), SETTLE)


def test_a_machine_without_a_record_has_no_step():
    assert reinstall_step(machine("m-1"), server("m-1"), NOW, SETTLE) is None


@pytest.mark.parametrize(
    ("wipe", "status", "expected"),
    [
        ("", "ready", AskForReinstall),
        ("", "error", AskForReinstall),
        ("", "rebooting", WaitForInstall),
        ("", "reinstalling", InstallBegan),
        ("requested", "reinstalling", InstallBegan),
        ("requested", "ready", WaitForInstall),
        ("started", "reinstalling", WaitForInstall),
        ("started", "starting", WaitForInstall),
        ("started", "ready", HostIsNew),
        ("started", "error", WaitForInstall),
    ],
)
def test_the_disk_counts_as_new_only_after_the_cloud_was_seen_installing(wipe: Wipe, status: str, expected: type):
    assert isinstance(step(wipe, status, minutes=1), expected)


def test_a_new_disk_is_not_used_while_a_late_request_could_wipe_it_again():
    assert isinstance(step("started", minutes=0.9), WaitForInstall)
    assert isinstance(step("started", minutes=1), HostIsNew)


@pytest.mark.parametrize("wipe", ["", "requested", "started"])
@pytest.mark.parametrize("status", ["ready", "reinstalling", "error"])
def test_nothing_is_done_under_a_name_that_is_not_the_machines(wipe: Wipe, status: str):
    found = step(wipe, status, name="rival-1", minutes=60)
    assert isinstance(found, ProveAgain)
    assert "rival-1" in found.message


def test_a_server_that_nobody_can_show_is_waited_for():
    one = replace(machine("m-1"), status=MachineStatus(reinstall=Reinstall()))
    assert isinstance(reinstall_step(one, Unknown("the cloud does not answer"), NOW, SETTLE), WaitForInstall)
    assert isinstance(reinstall_step(one, Gone("the list does not hold it"), NOW, SETTLE), WaitForInstall)


def test_what_the_cloud_lost_is_asked_for_again_with_a_pause_and_a_cap():
    assert isinstance(step("requested", minutes=1.9), WaitForInstall)
    assert step("requested", minutes=2) == AskForReinstall(again=True)
    assert isinstance(step("started", "error", minutes=9), WaitForInstall)
    assert step("started", "error", minutes=10) == AskForReinstall(again=True)
    for wipe, status in (("requested", "ready"), ("started", "error")):
        found = step(wipe, status, minutes=60, asked=ASK_AT_MOST)  # pyright: ignore[reportArgumentType]
        assert isinstance(found, GiveHostBack)
        assert f"after {ASK_AT_MOST} requests" in found.message
