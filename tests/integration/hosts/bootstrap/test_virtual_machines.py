"""What a host provides for virtual machines: it is so after a bootstrap, it is kept by updates, and it can be taken back."""

import dataclasses
import plistlib
import stat
from typing import Any

import pytest
from integration.hosts.bootstrap.rig import Rig

from paddock.hosts.bootstrap import Failed, FleetConfig, Ready, VirtualMachines
from paddock.simulator.mac.volumes import volumes

SHARING = "/Library/Preferences/SystemConfiguration/com.apple.InternetSharing.default.plist"
ROTATION = "/etc/newsyslog.d/paddock.conf"
SOFTNET = "/usr/local/lib/softnet/softnet"
VOLUME = "paddock-shares"


def fleet_with(rig: Rig, **changes: Any) -> FleetConfig:
    return dataclasses.replace(rig.fleet, virtual_machines=VirtualMachines(**changes))


def without(rig: Rig) -> FleetConfig:
    return dataclasses.replace(rig.fleet, virtual_machines=None)


def sharing(rig: Rig) -> dict[str, Any]:
    return plistlib.loads(rig.mac.read(SHARING))


def is_setuid(rig: Rig, path: str = SOFTNET) -> bool:
    return bool(rig.mac.disk.at(path).stat().st_mode & stat.S_ISUID)


def install_softnet(rig: Rig, path: str = SOFTNET) -> None:
    rig.mac.write(path, b"#!/bin/sh\n")
    rig.mac.disk.at(path).chmod(0o777)
    rig.mac.disk.own(path, rig.mac.username, "staff")
    rig.mac.disk.look()  # what we did is no script's doing


@pytest.fixture
async def live(rig: Rig) -> Rig:
    await rig.ready()
    await rig.mac.settled()
    rig.mac.effects.clear()
    return rig


@pytest.mark.slow
async def test_a_bootstrapped_host_has_short_leases_a_bounded_volume_and_rotated_logs(rig: Rig):
    await rig.ready()
    assert sharing(rig) == {"bootpd": {"DHCPLeaseTimeSecs": 600}}
    assert volumes(rig.mac) == {VOLUME: 1024 * 1000**2}
    assert rig.mac.disk.owner(f"/Volumes/{VOLUME}")[0] == rig.mac.username
    assert stat.S_IMODE(rig.mac.disk.at(f"/Volumes/{VOLUME}").stat().st_mode) == 0o700
    assert rig.mac.exists(f"/Volumes/{VOLUME}/.metadata_never_index")
    assert any(f"diskutil enableOwnership {VOLUME}" in str(effect) for effect in rig.mac.effects)
    assert rig.mac.read(ROTATION).decode().splitlines()[1] == "/var/log/tart-kubelet.log m1:wheel 644 5 10240 * N"


@pytest.mark.slow
async def test_an_update_with_nothing_new_touches_none_of_it(live: Rig):
    assert (await live.update()).changed_steps == ()
    assert live.mac.effects == []


@pytest.mark.slow
async def test_other_settings_of_internet_sharing_are_kept(rig: Rig):
    rig.mac.write(SHARING, plistlib.dumps({"nat": {"on": 1}, "bootpd": {"other": "kept", "DHCPLeaseTimeSecs": 86400}}))
    await rig.ready()
    assert sharing(rig) == {"nat": {"on": 1}, "bootpd": {"other": "kept", "DHCPLeaseTimeSecs": 600}}


@pytest.mark.slow
async def test_another_lease_time_arrives_by_an_update(live: Rig):
    updated = await live.update(fleet=fleet_with(live, dhcp_lease_seconds=900))
    assert updated.changed_steps == ("vm-network",)
    assert sharing(live)["bootpd"]["DHCPLeaseTimeSecs"] == 900


@pytest.mark.slow
async def test_a_fleet_that_no_longer_runs_machines_leaves_nothing_of_it_behind(live: Rig):
    updated = await live.update(fleet=without(live))
    assert set(updated.changed_steps) == {"vm-network", "vm-shares"}
    assert sharing(live) == {}
    assert volumes(live.mac) == {}
    assert not list(live.mac.disk.at("/usr/local/share/paddock/vm-network").iterdir())
    live.mac.effects.clear()
    assert (await live.update(fleet=without(live))).changed_steps == ()
    assert live.mac.effects == []


@pytest.mark.slow
async def test_what_was_so_before_us_is_not_undone(rig: Rig):
    rig.mac.write(SHARING, plistlib.dumps({"bootpd": {"DHCPLeaseTimeSecs": 1200}}))
    await rig.ready(fleet=without(rig))
    assert sharing(rig) == {"bootpd": {"DHCPLeaseTimeSecs": 1200}}


@pytest.mark.slow
async def test_a_volume_with_shares_on_it_is_kept_until_its_machines_are_gone(live: Rig):
    live.mac.write(f"/Volumes/{VOLUME}/uid/status", b"running")
    kept = await live.update(fleet=without(live))
    assert VOLUME in volumes(live.mac)
    assert any("stays as long as machines have shares" in note for note in kept.notes)
    live.mac.disk.at(f"/Volumes/{VOLUME}/uid/status").unlink()
    live.mac.disk.at(f"/Volumes/{VOLUME}/uid").rmdir()
    live.mac.disk.look()
    await live.update(fleet=without(live))
    assert volumes(live.mac) == {}


@pytest.mark.slow
async def test_another_quota_waits_for_the_next_install_and_says_so(live: Rig):
    updated = await live.update(fleet=fleet_with(live, shares_quota_mb=2048))
    assert updated.changed_steps == ()
    assert volumes(live.mac) == {VOLUME: 1024 * 1000**2}
    assert any("keeps its quota of 1024 MB" in note for note in updated.notes)


@pytest.mark.slow
async def test_another_name_makes_another_volume_and_removes_the_first(live: Rig):
    await live.update(fleet=fleet_with(live, shares_volume="shares-2"))
    assert list(volumes(live.mac)) == ["shares-2"]


@pytest.mark.slow
async def test_a_run_that_died_before_the_volume_was_made_is_made_good(rig: Rig):
    rig.mac.write(f"/usr/local/share/paddock/vm-shares/{VOLUME}", b"1024\n")
    await rig.ready()
    assert list(volumes(rig.mac)) == [VOLUME]


@pytest.mark.slow
async def test_softnet_runs_as_root_and_nobody_else_may_write_it(rig: Rig):
    install_softnet(rig)
    await rig.ready(fleet=fleet_with(rig, softnet=SOFTNET))
    assert is_setuid(rig)
    assert stat.S_IMODE(rig.mac.disk.at(SOFTNET).stat().st_mode) == 0o4755
    assert rig.mac.disk.owner(SOFTNET)[0] == "root"


@pytest.mark.slow
async def test_a_newer_softnet_gets_the_bit_again_and_a_fleet_without_it_takes_it_back(live: Rig):
    install_softnet(live)
    assert (await live.update(fleet=fleet_with(live, softnet=SOFTNET))).changed_steps == ("vm-network",)
    live.mac.disk.at(SOFTNET).unlink()
    install_softnet(live)
    assert (await live.update(fleet=fleet_with(live, softnet=SOFTNET))).changed_steps == ("vm-network",)
    assert is_setuid(live)
    assert (await live.update(fleet=fleet_with(live, softnet=SOFTNET))).changed_steps == ()
    assert (await live.update()).changed_steps == ("vm-network",)
    assert not is_setuid(live)


@pytest.mark.slow
async def test_a_softnet_that_is_not_there_is_the_fleets_mistake_and_named(live: Rig):
    outcome = await live.bootstrap().update(live.host(), fleet_with(live, softnet=SOFTNET), live.note)
    assert isinstance(outcome, Failed)
    assert outcome.step == "vm-network"
    assert SOFTNET in outcome.message
    assert "payload" in outcome.message


@pytest.mark.slow
async def test_a_host_without_a_console_session_says_that_no_machine_can_start(live: Rig):
    live.mac.session_user = None
    outcome = await live.bootstrap().update(live.host(), live.fleet, live.note)
    assert isinstance(outcome, Ready), "it is said, and the update goes on"
    assert any("no virtual machine can start" in note for note in outcome.notes)


@pytest.mark.slow
async def test_jobs_without_logs_need_no_rotation(live: Rig):
    tart, agent = live.fleet.payloads
    assert agent.job is not None
    silent = dataclasses.replace(agent, job=dataclasses.replace(agent.job, log=""))
    await live.update(fleet=dataclasses.replace(live.fleet, payloads=(tart, silent)))
    assert not live.mac.disk.at(ROTATION).exists()
