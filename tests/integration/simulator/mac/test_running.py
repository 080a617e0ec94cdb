"""Scripts in a real bash: input, output, time limits, and where secrets must never appear."""

import asyncio
import os
from pathlib import Path

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh import AsyncSsh, CommandFailed, CommandTimedOut, ConnectionLost, SshLimits

PLANTED = "planted-s3cret-value"


async def test_a_script_gets_arguments_secrets_and_an_upload(shell):
    done = await shell.run(
        'IFS= read -r word\nprintf "%s %s %s " "$1" "$2" "${#word}"\nwc -c | tr -d " "',
        arguments=("one two", "it's"),
        secrets=(Secret("twelve chars"),),
        upload=b"x" * 300_000,
        timeout=10,
    )
    assert done.stdout == "one two it's 12 300000\n"
    assert done.exit_status == 0


async def test_a_status_other_than_zero_is_an_answer(shell):
    done = await shell.run("echo sorry >&2\nexit 9", timeout=10)
    assert (done.exit_status, done.stderr) == (9, "sorry\n")
    with pytest.raises(CommandFailed, match="the step ended with exit status 9: sorry"):
        done.check("the step")


async def test_a_command_that_is_killed_has_the_status_of_its_signal(shell):
    assert (await shell.run("kill -9 $$", timeout=10)).exit_status == 137


async def test_a_command_that_takes_too_long_is_told_with_what_it_said(shell):
    with pytest.raises(CommandTimedOut, match=r"within 0.5 s: still here"):
        await shell.run("echo still here >&2\nexec tail -f /dev/null", timeout=0.5)


async def test_a_command_that_took_too_long_does_not_run_on(shell, mac):
    with pytest.raises(CommandTimedOut):
        await shell.run('echo $$ > "$HOME/pid"\nexec tail -f /dev/null', timeout=0.5)
    pid = int(mac.read("/Users/m1/pid"))
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or not mac.running:
            return
        await asyncio.sleep(0.05)
    pytest.fail("the command is still there")


async def test_the_shell_is_usable_after_a_command_that_took_too_long(shell):
    with pytest.raises(CommandTimedOut):
        await shell.run("exec tail -f /dev/null", timeout=0.3)
    assert (await shell.run("echo again", timeout=10)).stdout == "again\n"


async def test_a_reboot_under_a_command_loses_the_connection(shell, mac):
    running = asyncio.create_task(shell.run("exec tail -f /dev/null", timeout=10))
    while not mac.running:
        await asyncio.sleep(0.01)
    mac.reboot()
    with pytest.raises(ConnectionLost):
        await running
    with pytest.raises(ConnectionLost):
        await shell.run("true", timeout=10)


async def test_a_script_that_reboots_the_mac_loses_the_connection(shell, mac):
    mac.write("/etc/sudoers.d/m1", "m1 ALL=(ALL) NOPASSWD: ALL\n", mode=0o440)
    with pytest.raises(ConnectionLost):
        await shell.run("sudo -n shutdown -r now", timeout=10)
    assert mac.boots == 2


async def test_several_commands_run_at_the_same_time_over_one_connection(shell):
    results = await asyncio.gather(*(shell.run('echo "$1"', arguments=(str(n),), timeout=20) for n in range(8)))
    assert [done.stdout for done in results] == [f"{n}\n" for n in range(8)]


async def test_a_runaway_output_is_cut(mac, key):
    ssh = AsyncSsh(limits=SshLimits(stdout=1000, stderr=1000))
    async with ssh.connect(mac.target(key.private)) as shell:
        done = await shell.run("head -c 3000000 /dev/zero | tr '\\0' a\nseq 100000 >&2", timeout=20)
    assert done.truncated
    assert done.stdout == "a" * 1000
    assert done.stderr.endswith("100000\n")
    assert len(done.stderr) == 1000


async def test_a_command_that_does_not_read_its_input_ends_all_the_same(shell):
    done = await shell.run("exit 0", upload=b"x" * 2_000_000, timeout=10)
    assert done.exit_status == 0


async def test_the_script_does_not_depend_on_the_login_shell(shell):
    done = await shell.run(
        'echo "${BASH_VERSION:+bash}"\n[[ a == a ]] && words=(one two) && echo "${#words[@]}"', timeout=10
    )
    assert done.stdout == "bash\n2\n"


async def test_nothing_of_our_own_environment_reaches_the_mac(shell, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED)
    done = await shell.run("env", timeout=10)
    assert PLANTED not in done.stdout


async def test_a_secret_is_in_no_process_argument_while_the_script_runs(ssh, mac, key):
    """Every process of the machine is looked at while a script that holds the secret is running."""
    async with ssh.connect(mac.target(key.private)) as shell:
        running = asyncio.create_task(
            shell.run(
                'IFS= read -r secret\necho ready > "$HOME/ready"\nwhile [ ! -e "$HOME/go" ]; do :; done\nprintf %s "${#secret}"',
                arguments=("visible-argument",),
                secrets=(Secret(PLANTED),),
                upload=Secret("uploaded-" + PLANTED),
                timeout=20,
            )
        )
        while not mac.exists("/Users/m1/ready"):
            await asyncio.sleep(0.02)
        seen = _arguments_and_environments(os.getpid())
        mac.disk.at("/Users/m1/go").write_text("")
        assert (await running).stdout == str(len(PLANTED))
    assert "visible-argument" in seen
    assert PLANTED not in seen
    assert not any(PLANTED in command for command in mac.commands)


def _arguments_and_environments(ourselves: int) -> str:
    texts = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != ourselves:
            for name in ("cmdline", "environ"):
                try:
                    texts.append((process / name).read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:
                    continue
    return "\n".join(texts)


async def test_a_secret_that_the_script_prints_is_hidden_in_outputs_and_errors(shell):
    done = await shell.run(
        'IFS= read -r secret\necho "out $secret"\necho "err $secret" >&2\nexit 1',
        secrets=(Secret(PLANTED),),
        timeout=10,
    )
    assert (done.stdout, done.stderr) == ("out ***\n", "err ***\n")
    with pytest.raises(CommandFailed) as failed:
        done.check("step")
    assert PLANTED not in str(failed.value)
    with pytest.raises(CommandTimedOut) as late:
        await shell.run(
            'IFS= read -r secret\necho "err $secret" >&2\nexec tail -f /dev/null',
            secrets=(Secret(PLANTED),),
            timeout=0.5,
        )
    assert PLANTED not in f"{late.value} {late.value!r} {late.value.__cause__!r}"


async def test_a_time_limit_that_ends_before_the_process_has_begun_ends_the_command_all_the_same(shell):
    async with asyncio.timeout(20):
        for limit in (0.0001, 0.001, 0.003):
            with pytest.raises(CommandTimedOut):
                await shell.run("exec tail -f /dev/null", timeout=limit)
