"""What a reboot clears, what only a reinstall clears, and Macs behind a simulated cloud."""

import asyncio

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.clients.ssh import AuthRefused, HostKeyChanged, Target, TimedOut, new_key_pair
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import BREAKAGES, Fleet, Pace, SimulatedMac


async def test_a_reboot_keeps_files_and_the_host_key_and_clears_the_rest(mac, key):
    mac.write("/usr/local/bin/tool", b"tool", mode=0o755)
    mac.persist_tables("both")
    mac.lock_account()
    mac.wedge_sshd("hang")
    host_key = mac.host_key
    mac.reboot()
    assert mac.read("/usr/local/bin/tool") == b"tool"
    assert mac.host_key == host_key
    assert (mac.locked, mac.sshd.mode, mac.pf.tables("")) == (False, "up", {})


async def test_a_reinstall_clears_the_disk_and_gives_a_new_host_key_and_password(mac, key):
    mac.write("/etc/sudoers.d/m1-nopasswd", "m1 ALL=(ALL) NOPASSWD: ALL\n", mode=0o440)
    mac.write("/Users/m1/.ssh/authorized_keys", "ssh-ed25519 AAAA earlier\n")
    mac.leave_stale_keys()
    host_key, password = mac.host_key, mac.password
    mac.reinstall()
    assert not mac.exists("/etc/sudoers.d/m1-nopasswd")
    assert mac.read("/Users/m1/.ssh/authorized_keys") == b""
    assert mac.host_key != host_key
    assert mac.password != password
    async with mac.ssh().connect(mac.target(key.private)) as shell:
        assert shell.host_key == mac.host_key


async def test_a_breakage_has_the_chosen_probability():
    counts = []
    for number in range(200):
        mac = SimulatedMac(name=f"m{number}", rng=seeded(number))
        counts.append(mac.break_with(0.3, ["hang", "refuse"]))
    broken = [kind for kind in counts if kind is not None]
    assert 35 <= len(broken) <= 85
    assert set(broken) == {"hang", "refuse"}


@pytest.mark.parametrize("kind", BREAKAGES)
async def test_every_breakage_is_gone_after_a_reinstall(mac, key, kind):
    assert mac.break_with(1.0, [kind]) == kind
    mac.reinstall(keys=[key.public])
    assert mac.broken is None
    assert not mac.locked
    async with mac.ssh().connect(mac.target(key.private)) as shell:
        assert (await shell.run("true", timeout=10)).exit_status == 0


# Behind a cloud


@pytest.fixture
def clock():
    return SteppedClock()


@pytest.fixture
def cloud(clock):
    return SimulatedCloud(clock, seeded(7))


@pytest.fixture
async def fleet(cloud, clock):
    fleet = Fleet(cloud, clock=clock, rng=seeded(8), pace=Pace(speed=1000.0))
    yield fleet
    await fleet.stop()


def target(host, key, host_key=None):
    return Target(host.ip, 22, host.ssh_username, key.private, host_key)


@pytest.mark.parametrize("wire", [True, False])
async def test_a_mac_is_reached_by_the_public_address_of_its_host(cloud, fleet, key, wire):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[key.public])
    async with fleet.ssh(wire=wire).connect(target(host, key)) as shell:
        done = await shell.run("ipconfig getifaddr en0; echo $HOME", timeout=10)
    assert done.stdout.splitlines()[0] == host.ip
    assert fleet.mac(host.id).password == host.password


@pytest.mark.parametrize("wire", [True, False])
async def test_an_address_that_nobody_has_does_not_answer(fleet, key, wire):
    with pytest.raises(TimedOut):
        async with fleet.ssh(wire=wire).connect(Target("198.18.9.9", 22, "m1", key.private), timeout=1):
            pass


async def test_a_reinstall_in_the_cloud_is_a_wipe_with_a_new_key_and_the_keys_of_that_moment(cloud, clock, fleet, key):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[key.public])
    mac = fleet.mac(host.id)
    mac.write("/usr/local/dirt", b"dirt")
    ssh, old = fleet.ssh(), mac.host_key
    host.next_authorized_keys = []
    cloud._hardware.start_reinstall(host, clock.now(), host.image, kext=False)
    with pytest.raises(TimedOut):
        await ssh.host_key(host.ip, 22, timeout=1)
    assert not cloud.health_of(host).ssh_port_up
    clock.step(3600)
    cloud.tick()
    assert await ssh.host_key(host.ip, 22) == mac.host_key != old
    assert not mac.exists("/usr/local/dirt")
    assert mac.password == cloud.host(host.id).password
    with pytest.raises(HostKeyChanged):
        async with ssh.connect(target(host, key, old)):
            pass
    with pytest.raises(AuthRefused):  # the project has no keys registered
        async with ssh.connect(target(host, key)):
            pass
    assert cloud.health_of(host).ssh_port_up


async def test_a_reboot_in_the_cloud_clears_what_is_volatile(cloud, clock, fleet, key):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[key.public])
    mac = fleet.mac(host.id)
    mac.lock_account()
    mac.wedge_sshd("hang")
    assert not cloud.health_of(host).ssh_port_up
    old = mac.host_key
    cloud._hardware.start_reboot(host, clock.now())
    assert fleet.at(host.ip) is None
    clock.step(600)
    cloud.tick()
    assert (mac.locked, mac.boots) == (False, 2)
    assert await fleet.ssh().host_key(host.ip, 22) == old


async def test_a_host_that_is_deleted_answers_no_more(cloud, fleet, key):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[key.public])
    fleet.mac(host.id)
    cloud.delete_host(host.id)
    assert fleet.at(host.ip) is None


async def test_a_fleet_may_be_partly_broken_and_each_install_draws_again(cloud, clock, key):
    fleet = Fleet(cloud, clock=clock, rng=seeded(3), broken=1.0, kinds=["locked"])
    host = cloud.add_host("tuist-pool-1")
    mac = fleet.mac(host.id)
    assert mac.locked
    mac.reboot()
    assert not fleet.mac(host.id).locked
    await fleet.stop()


async def test_the_disks_of_a_fleet_outlive_the_process(cloud, clock, key, tmp_path):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[key.public])
    first = Fleet(cloud, clock=clock, rng=seeded(3), folder=tmp_path)
    async with first.ssh().connect(target(host, key)) as shell:
        seen = shell.host_key
        await shell.run('echo kept > "$HOME/file"', timeout=10)
    await first.stop()
    second = Fleet(cloud, clock=clock, rng=seeded(4), folder=tmp_path)
    async with second.ssh().connect(target(host, key, seen)) as shell:
        assert (await shell.run('cat "$HOME/file"', timeout=10)).stdout == "kept\n"
    assert second.mac(host.id).password == host.password
    await second.stop()


@pytest.mark.slow
async def test_a_hundred_macs_fit_in_one_process(cloud, fleet, key):
    hosts = [cloud.add_host(f"tuist-pool-{number}", authorized_keys=[key.public]) for number in range(100)]
    ssh, limit = fleet.ssh(), asyncio.Semaphore(8)

    async def greet(host):
        async with limit, ssh.connect(target(host, key)) as shell:
            return (await shell.run("ipconfig getifaddr en0", timeout=60)).stdout.strip(), shell.host_key

    answers = await asyncio.gather(*(greet(host) for host in hosts))
    assert [address for address, _ in answers] == [host.ip for host in hosts]
    assert len({host_key for _, host_key in answers}) == 100


async def test_another_key_is_not_let_in_by_any_of_them(cloud, fleet):
    host = cloud.add_host("tuist-pool-1", authorized_keys=[new_key_pair().public])
    with pytest.raises(AuthRefused):
        async with fleet.ssh().connect(target(host, new_key_pair())):
            pass
