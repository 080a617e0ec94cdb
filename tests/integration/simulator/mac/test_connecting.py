"""Every way in which a login can fail, brought about on a real port."""

import asyncio

import pytest

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.ssh import (
    AsyncSsh,
    AuthRefused,
    BudgetedSsh,
    ConnectionLost,
    DialBudget,
    DialRules,
    Hanging,
    HostKeyChanged,
    KeyUnusable,
    Refused,
    Target,
    TimedOut,
    new_key_pair,
)

QUICK = 0.6


async def login(ssh, target, **options):
    async with ssh.connect(target, **options) as shell:
        return shell.host_key


async def test_the_host_key_of_the_connection_is_shown(ssh, mac, key):
    assert await login(ssh, mac.target(key.private)) == mac.host_key


async def test_the_host_key_is_shown_without_a_login(ssh, mac):
    target = mac.target(Secret(""))
    assert await ssh.host_key(target.address, target.port) == mac.host_key
    assert mac.sshd.logins == 0


async def test_a_pinned_host_key_is_accepted(ssh, mac, key):
    assert await login(ssh, mac.target(key.private, host_key=mac.host_key)) == mac.host_key


async def test_another_host_key_than_the_pinned_one_is_told_with_both(ssh, mac, key):
    with pytest.raises(HostKeyChanged) as caught:
        await login(ssh, mac.target(key.private, host_key="SHA256:other"))
    assert (caught.value.expected, caught.value.seen) == ("SHA256:other", mac.host_key)
    assert mac.sshd.logins == 0


async def test_a_key_the_host_does_not_know_is_refused(ssh, mac):
    with pytest.raises(AuthRefused):
        await login(ssh, mac.target(new_key_pair().private))


async def test_another_user_is_refused(ssh, mac, key):
    target = mac.target(key.private)
    with pytest.raises(AuthRefused):
        await login(ssh, Target(target.address, target.port, "admin", key.private))


async def test_keys_of_an_earlier_tenant_refuse_us(ssh, mac, key):
    mac.leave_stale_keys()
    with pytest.raises(AuthRefused):
        await login(ssh, mac.target(key.private))


async def test_a_host_without_the_project_key_refuses_us(ssh, mac, key):
    mac.forget_project_key()
    with pytest.raises(AuthRefused):
        await login(ssh, mac.target(key.private))


async def test_a_key_in_the_ordinary_file_lets_us_in_too(ssh, mac, key):
    mac.forget_project_key()
    mac.write("/Users/m1/.ssh/authorized_keys", f"# ours\n{key.public}\n", mode=0o600)
    assert await login(ssh, mac.target(key.private)) == mac.host_key


async def test_a_port_that_nobody_listens_on_is_refused(ssh, mac, key):
    mac.wedge_sshd("refuse")
    with pytest.raises(Refused):
        await login(ssh, mac.target(key.private), timeout=QUICK)


async def test_an_sshd_that_accepts_and_says_nothing_hangs(ssh, mac, key):
    mac.wedge_sshd("hang")
    with pytest.raises(Hanging):
        await login(ssh, mac.target(key.private), timeout=QUICK)


async def test_a_full_backlog_does_not_answer(ssh, mac, key):
    mac.wedge_sshd("timeout")
    with pytest.raises(TimedOut):
        await login(ssh, mac.target(key.private), timeout=QUICK)


async def test_a_dark_mac_does_not_answer(ssh, mac, key):
    mac.power_off()
    with pytest.raises(TimedOut):
        await login(ssh, mac.target(key.private), timeout=QUICK)


@pytest.mark.parametrize("mode", ["hang", "refuse", "timeout"])
async def test_asking_for_the_host_key_tells_the_same_failures(ssh, mac, mode):
    mac.wedge_sshd(mode)
    target = mac.target(Secret(""))
    expected = {"hang": Hanging, "refuse": Refused, "timeout": TimedOut}[mode]
    with pytest.raises(expected):
        await ssh.host_key(target.address, target.port, timeout=QUICK)


@pytest.mark.parametrize("mode", ["hang", "refuse", "timeout"])
async def test_a_reboot_unwedges_sshd(ssh, mac, key, mode):
    mac.wedge_sshd(mode)
    mac.reboot()
    assert await login(ssh, mac.target(key.private)) == mac.host_key


async def test_a_server_that_hangs_up_at_once_is_a_lost_connection(key):
    async def hang_up(_reader, writer):
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionLost):
        await login(AsyncSsh(), Target("127.0.0.1", port, "m1", key.private), timeout=5)
    server.close()


async def test_a_server_that_speaks_something_else_is_a_lost_connection(key):
    async def answer(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 50)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ConnectionLost):
        await login(AsyncSsh(), Target("127.0.0.1", port, "m1", key.private), timeout=5)
    server.close()


async def test_a_private_key_that_is_none_is_told_without_showing_it(ssh, mac):
    with pytest.raises(KeyUnusable) as caught:
        await login(ssh, mac.target(Secret("planted-secret-text")))
    assert "planted" not in str(caught.value)


async def test_more_logins_at_once_than_sshd_starts_are_dropped(mac, key):
    mac.wedge_sshd("hang")
    raw = [await asyncio.open_connection("127.0.0.1", mac.sshd.port) for _ in range(3)]
    mac.wedge_sshd("up")
    silent = [await asyncio.open_connection("127.0.0.1", mac.sshd.port) for _ in range(10)]
    await asyncio.sleep(0.1)
    with pytest.raises(ConnectionLost):
        await login(AsyncSsh(), mac.target(key.private), timeout=5)
    for _, writer in [*raw, *silent]:
        writer.close()
    assert mac.sshd.peak_startups == 10


async def test_many_tasks_with_one_budget_never_fill_the_backlog(mac, key):
    budget = DialBudget(SystemClock(), seeded(1), DialRules(apart=0.0, parallel=4))
    ssh = BudgetedSsh(AsyncSsh(), budget)
    await asyncio.gather(*(login(ssh, mac.target(key.private)) for _ in range(15)))
    assert mac.sshd.peak_startups == 1
    assert mac.sshd.logins == 15
