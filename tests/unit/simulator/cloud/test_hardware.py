"""Orders, reboots, installs and deletions happen when their moment has come, and hooks hear of them."""

from datetime import timedelta

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient
from paddock.simulator.cloud import CloudBehaviour, Fault, FaultKind, Host, SimulatedCloud

ZONE = "fr-par-1"
KEY = "ssh-ed25519 AAAAC3Fleet"


class Diary:
    """What a simulated Mac would hear."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        self.entries: list[str] = []
        cloud.on_power.append(lambda _host, on: self.entries.append("up" if on else "dark"))
        cloud.on_reboot.append(lambda _host: self.entries.append("reboot"))
        cloud.on_reinstall.append(lambda host: self.entries.append(f"install {host.install}"))
        cloud.on_delete.append(lambda _host: self.entries.append("deleted"))


def test_an_order_is_ready_after_two_minutes_and_a_quarter(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.order("mine")
    assert (host.status, host.delivered) == ("starting", False)
    assert host.deletable_at == host.created_at
    clock.step(134)
    assert cloud.host(host.id).status == "starting"
    clock.step(1)
    assert (cloud.host(host.id).status, cloud.host(host.id).delivered) == ("ready", True)
    assert host.deletable_at == host.created_at + timedelta(days=1)
    assert host.updated_at == host.created_at + timedelta(seconds=135)


def test_an_order_of_another_image_takes_an_hour(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.order("mine", os_id=cloud.image_named("macos-tahoe-26.3").id)
    clock.step(3599)
    assert cloud.host(host.id).status == "starting"
    clock.step(1)
    assert cloud.host(host.id).status == "ready"


async def test_a_reboot_takes_106_seconds_and_revives_a_dark_mac(
    cloud: SimulatedCloud, clock: SteppedClock, client: ScalewayClient
):
    host, diary = cloud.add_host("mine"), Diary(cloud)
    cloud.set_power(host.id, on=False)
    await client.reboot(ZONE, host.id)
    clock.step(105)
    cloud.tick()
    assert diary.entries == ["dark", "reboot"]
    clock.step(1)
    cloud.tick()
    assert diary.entries == ["dark", "reboot", "up"]
    assert (host.install, host.boots) == (1, 2)


async def test_a_reinstall_brings_a_new_install_a_new_password_and_the_keys_of_today(
    cloud: SimulatedCloud, clock: SteppedClock, client: ScalewayClient
):
    host, diary = cloud.add_host("mine"), Diary(cloud)
    before = host.password
    assert host.authorized_keys == []
    await client.ensure_ssh_key("fleet", KEY)
    assert host.authorized_keys == [], "a key never reaches a Mac that is already installed"
    await client.reinstall(ZONE, host.id, os_id=None)
    clock.step(719)
    cloud.tick()
    assert (diary.entries, host.install) == (["dark"], 1)
    clock.step(361)
    cloud.tick()
    assert diary.entries == ["dark", "install 2", "up"]
    assert host.password != before
    assert host.authorized_keys == [KEY]


def test_nothing_needs_to_be_asked_for_history_to_happen_in_order(clock: SteppedClock):
    def life(step: float) -> list[tuple[str, str]]:
        clock = SteppedClock()
        cloud = SimulatedCloud(clock, seeded(3))
        seen: list[tuple[str, str]] = []
        cloud.on_power.append(lambda host, on: seen.append((host.name, f"{on} {host.updated_at}")))
        for index in range(5):
            cloud.order(f"host-{index}")
            clock.step(10)
        for _ in range(round(1000 / step)):
            clock.step(step)
            cloud.tick()
        return seen

    assert life(1) == life(1000)


def test_speed_divides_the_delays_of_hardware_and_not_the_billing_floor(clock: SteppedClock):
    cloud = SimulatedCloud(clock, seeded(1), speed=27)
    host = cloud.order("mine")
    clock.step(5)
    assert cloud.host(host.id).status == "ready"
    assert host.deletable_at == host.created_at + timedelta(days=1)


def test_a_failed_install_ends_in_error(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.order("mine")
    cloud.fail_install(host.id)
    clock.step(136)
    assert cloud.host(host.id).status == "error"


def test_next_change_says_when_to_look_again(cloud: SimulatedCloud, clock: SteppedClock):
    assert cloud.next_change() is None
    host = cloud.order("mine")
    assert cloud.next_change() == host.created_at + timedelta(seconds=135)


async def test_run_fires_hooks_while_nobody_asks(cloud: SimulatedCloud, clock: SteppedClock):
    class OverError(Exception):
        """Ends the run."""

    diary = Diary(cloud)
    cloud.order("mine")

    def stop(_host: Host, _on: bool) -> None:
        raise OverError

    cloud.on_power.append(stop)
    with pytest.raises(OverError):
        await cloud.run()
    assert diary.entries == ["up"]
    assert clock.monotonic() == pytest.approx(135)


def test_a_pool_has_realistic_ages_and_floors(cloud: SimulatedCloud, clock: SteppedClock):
    hosts = cloud.seed_pool(200, zone=ZONE, server_type="M4-S", prefix="tuist-pool-")
    assert all(host.name.startswith("tuist-pool-") and host.status == "ready" and host.delivered for host in hosts)
    assert all(host.deletable_at == host.created_at + timedelta(days=1) for host in hosts)
    below = [host for host in hosts if host.deletable_at > clock.now()]
    assert 0 < len(below) < 30
    assert len({host.ip for host in hosts}) == len({host.id for host in hosts}) == 200


def test_one_seed_makes_one_cloud():
    def names(seed: int) -> list[str]:
        return [host.name for host in SimulatedCloud(SteppedClock(), seeded(seed)).seed_pool(5)]

    assert names(1) == names(1)
    assert names(1) != names(2)


async def test_a_saved_cloud_goes_on_where_it_stopped(
    cloud: SimulatedCloud, clock: SteppedClock, client: ScalewayClient
):
    host = cloud.add_host("mine")
    pool = cloud.seed_pool(3)
    cloud.behaviour.floor_shape = "bare"
    await client.ensure_ssh_key("fleet", KEY)
    await client.reboot(ZONE, host.id)
    cloud.inject(Fault(kind=FaultKind.LATE, operations=("rename",), delay=60))
    with pytest.raises(Exception, match="broke"):
        await client.rename(ZONE, pool[0].id, "late")
    saved = cloud.to_json()
    clock.step(107)
    restored = SimulatedCloud.from_json(saved, clock, seeded("the cloud"))
    assert restored.host(host.id).status == "ready"
    assert restored.host(pool[0].id).name == "late"
    assert restored.behaviour.floor_shape == "bare"
    assert restored.settings().secret_key == cloud.settings().secret_key
    assert restored.order("another").id not in {h.id for h in (host, *pool)}, "the seed it was born with repeats no id"


def test_a_saved_cloud_can_wake_on_a_clock_that_starts_anew(cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.order("mine")
    clock.step(35)
    saved = cloud.to_json()
    later = SteppedClock(clock.now() + timedelta(days=400))
    restored = SimulatedCloud.from_json(saved, later, seeded(1), rebase=True)
    later.step(99)
    assert restored.host(host.id).status == "starting"
    later.step(1)
    assert restored.host(host.id).status == "ready"


def test_two_clouds_share_nothing(clock: SteppedClock):
    one, other = SimulatedCloud(clock, seeded(1)), SimulatedCloud(clock, seeded(1))
    one.retire_image("macos-tahoe-26.3")
    one.behaviour.order = 1
    one.seed_pool(1)
    assert not other.image_named("macos-tahoe-26.3").retired
    assert other.behaviour == CloudBehaviour()
    assert other.hosts() == []
