"""Preparing one host by hand, through the command that a person types."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from integration.hosts.bootstrap.rig import Rig
from unit.hosts.made import SERVER_ID, later, machine

from paddock.base.secrets import Password
from paddock.cli import main
from paddock.clients.scaleway import Credentials
from paddock.hosts.bootstrap import FailureKind, Ready
from paddock.hosts.bootstrap.credentials import HostLogins
from paddock.hosts.bootstrap.prepare import Preparation, prepare_host, recovery
from paddock.kube.client import Client
from paddock.simulator.mac.login import decoded


async def typed(rig: Rig, folder: Path, *more: str, password: str) -> Result:
    """The command in a thread of its own, because it brings its own event loop; the Mac answers from ours."""
    key = folder / "key"
    key.write_text(rig.key.private.reveal())
    key.chmod(0o600)
    target = rig.mac.target(rig.key.private)
    words = ["prepare-host", target.address, "--port", str(target.port), "--fleet", "runners", "--key", str(key)]
    return await asyncio.to_thread(CliRunner().invoke, main, [*words, *more], f"{password}\n")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--password-stdin"], id="from standard input"),
        pytest.param([], id="asked for", marks=pytest.mark.slow),
    ],
)
async def test_a_host_is_prepared_with_one_use_of_the_password(rig: Rig, tmp_path: Path, options: list[str]):
    result = await typed(rig, tmp_path, *options, password=rig.mac.password)
    assert result.exit_code == 0, result.output
    assert rig.mac.password not in result.output
    assert rig.mac.host_key in result.output
    assert rig.mac.exists("/etc/sudoers.d/m1-nopasswd")
    assert decoded(rig.mac.read("/etc/kcpassword")) == rig.mac.password
    assert rig.mac.session == "Aqua"
    assert not rig.mac.exists("/usr/local/bin/tart-kubelet"), "and nothing else is done to it"
    assert not any(rig.mac.password in line for line in [*rig.lines(), *rig.mac.commands])


async def test_a_refused_key_stops_it_with_the_way_to_recovery(rig: Rig, tmp_path: Path):
    rig.mac.leave_stale_keys()
    result = await typed(rig, tmp_path, "--password-stdin", password=rig.mac.password)
    assert result.exit_code == 1
    for word in ("VNC", "scw_authorized_keys", "reinstall", "runners"):
        assert word in result.output
    assert rig.mac.wrong_passwords.get("m1", 0) == 0


async def test_a_wrong_password_is_used_once_however_often_the_command_is_typed(rig: Rig, tmp_path: Path):
    for _ in range(3):
        result = await typed(rig, tmp_path, "--password-stdin", password="wrong")
        assert result.exit_code == 1
        assert "tried once" in result.output
        assert "Traceback" not in result.output
    assert rig.mac.wrong_passwords["m1"] == 1


@pytest.mark.parametrize("password", ["", "<sealed>"])
async def test_a_password_that_cannot_be_one_is_refused_before_anything_is_dialled(
    rig: Rig, tmp_path: Path, password: str
):
    result = await typed(rig, tmp_path, "--password-stdin", password=password)
    assert result.exit_code == 2
    assert "give the password that the user of the Mac has now" in result.output
    assert rig.mac.commands == []


async def test_options_that_do_not_go_together_are_explained(rig: Rig, tmp_path: Path):
    result = await typed(rig, tmp_path, "--machine", "mac-1", password="x")
    assert result.exit_code == 2
    assert "--kubeconfig" in result.output


MACHINE = machine("mac-1", server_id=SERVER_ID, bound_at=later())


def preparation(rig: Rig, password: str) -> Preparation:
    target = rig.mac.target(rig.key.private)
    return Preparation(
        address=target.address,
        port=target.port,
        key=rig.key.private,
        password=Password(password),
        fleet="runners",
        machine=MACHINE,
        host_key=rig.mac.host_key,
    )


@pytest.mark.slow
async def test_the_fleet_is_told_the_password_and_finds_nothing_left_to_change(rig: Rig, client: Client):
    logins = HostLogins(client)
    outcome = await prepare_host(rig.bootstrap(), preparation(rig, rig.mac.password), logins)
    assert isinstance(outcome, Ready)
    stored = await logins.read(MACHINE)
    assert stored is not None
    assert stored == Credentials("m1", Password(rig.mac.password))
    # The full bootstrap that follows finds nothing to change in what was prepared.
    ready = await rig.ready(rig.host(password=stored.password, host_key=rig.mac.host_key))
    assert not {"passwordless-sudo", "auto-login"} & set(ready.changed_steps)


async def test_the_fleet_is_not_told_a_password_that_macos_refused(rig: Rig, client: Client):
    logins = HostLogins(client)
    wanted = preparation(rig, "wrong")
    outcome = await prepare_host(rig.bootstrap(), wanted, logins)
    assert not isinstance(outcome, Ready)
    assert outcome.kind is FailureKind.PASSWORD_REFUSED
    assert "restart the host" in recovery(outcome, wanted)
    assert await logins.read(MACHINE) is None


async def test_a_mac_that_shows_another_key_than_the_pinned_one_gets_no_password(rig: Rig, client: Client):
    wanted = preparation(rig, rig.mac.password)
    rig.mac.reinstall(keys=[rig.key.public])
    outcome = await prepare_host(rig.bootstrap(), wanted, HostLogins(client))
    assert not isinstance(outcome, Ready)
    assert outcome.kind is FailureKind.HOST_KEY_CHANGED
    assert rig.mac.commands == []
    assert await HostLogins(client).read(MACHINE) is None
