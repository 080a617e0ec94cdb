"""Becoming root: sudoers files, passwords on standard input, and the lock-out."""

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh import CommandTimedOut

GRANT = "m1 ALL=(ALL) NOPASSWD: ALL\n"


async def test_without_a_grant_sudo_asks_for_a_password_and_counts_nothing(direct, mac):
    done = await direct.run("sudo -n true", timeout=10)
    assert (done.exit_status, done.stderr) == (1, "sudo: a password is required\n")
    assert mac.wrong_passwords == {}


async def test_the_right_password_on_standard_input_gives_root_and_leaves_the_rest_for_the_command(direct, mac):
    done = await direct.run(
        'sudo -S -p "" bash -c "id -un; cat"', upload=f"{mac.password}\nthe rest\n".encode(), timeout=10
    )
    assert done.stdout == "root\nthe rest\n"


async def test_a_password_is_no_ticket_for_the_next_command(direct, mac):
    done = await direct.run('sudo -S -p "" true && sudo -n true', upload=f"{mac.password}\n".encode(), timeout=10)
    assert done.exit_status == 1


async def test_a_wrong_password_takes_the_next_line_for_another_try(direct, mac):
    done = await direct.run('sudo -S -p "" true', upload=b"wrong\nsudoers line\n", timeout=10)
    assert done.exit_status == 1
    assert "Sorry, try again." in done.stderr
    assert mac.wrong_passwords == {"m1": 2}


async def test_an_input_without_a_newline_is_no_password(direct, mac):
    done = await direct.run('sudo -S -p "" true', upload=mac.password.encode(), timeout=10)
    assert done.exit_status == 1
    assert "no password was provided" in done.stderr
    assert mac.wrong_passwords == {}


async def test_five_wrong_passwords_lock_the_account_until_a_reboot(mac, key):
    async def attempt(password):
        async with mac.ssh().connect(mac.target(key.private)) as shell:
            done = await shell.run(
                'IFS= read -r word; printf "%s\\n" "$word" | sudo -S -p "" true',
                secrets=(Secret(password),),
                timeout=10,
            )
            return done.exit_status

    assert await attempt(mac.password) == 0
    for _ in range(5):
        assert await attempt("<sealed>") == 1
    assert mac.locked
    assert await attempt(mac.password) == 1
    mac.reboot()
    assert await attempt(mac.password) == 0


async def test_a_locked_account_with_a_grant_still_works_without_a_password(direct, mac):
    mac.lock_account()
    mac.write("/etc/sudoers.d/m1-nopasswd", GRANT, mode=0o440)
    assert (await direct.run("sudo -n id -un", timeout=10)).stdout == "root\n"


async def test_a_grant_in_a_file_with_a_dot_in_its_name_is_passed_over(direct, mac):
    mac.write("/etc/sudoers.d/m1.nopasswd", GRANT, mode=0o440)
    assert (await direct.run("sudo -n true", timeout=10)).exit_status == 1


async def test_a_sudoers_file_with_an_error_breaks_sudo_altogether(direct, mac):
    mac.write("/etc/sudoers.d/m1-nopasswd", GRANT, mode=0o440)
    mac.write("/etc/sudoers.d/other", "m1 ALL=(ALL NOPASSWD ALL\n", mode=0o440)
    done = await direct.run("sudo -n true", timeout=10)
    assert done.exit_status == 1
    assert "parse error in /etc/sudoers.d/other" in done.stderr


async def test_a_grant_that_others_may_write_or_own_is_refused(direct, mac):
    mac.write("/etc/sudoers.d/m1-nopasswd", GRANT, mode=0o666)
    assert "is world writable" in (await direct.run("sudo -n true", timeout=10)).stderr
    mac.write("/etc/sudoers.d/m1-nopasswd", GRANT, mode=0o440, owner=("m1", "staff"))
    assert "is owned by uid 501" in (await direct.run("sudo -n true", timeout=10)).stderr


@pytest.mark.parametrize(
    ("text", "status"), [(GRANT, 0), ("m1 ALL=(ALL NOPASSWD\n", 1), (GRANT.rstrip("\n"), 1), ("# only a comment\n", 0)]
)
async def test_visudo_finds_the_mistakes_that_sudo_would_stumble_over(direct, text, status):
    done = await direct.run(
        'file="$(mktemp)"; cat > "$file"; visudo -cf "$file"; status=$?; rm "$file"; exit $status',
        upload=text.encode(),
        timeout=10,
    )
    assert done.exit_status == status


async def test_sudo_passes_on_status_and_input_and_knows_its_commands(root):
    assert (await root("sudo -n bash -c 'exit 5'")).exit_status == 5
    assert (await root("echo data | sudo -n cat")).stdout == "data\n"
    done = await root("sudo -n cd /tmp")
    assert (done.exit_status, done.stderr) == (1, "sudo: cd: command not found\n")
    assert (await root("sudo -n -u m1 id -un")).stdout == "m1\n"


async def test_a_file_of_root_that_is_written_without_sudo_fails_the_script(root, mac):
    done = await root('echo 1 > "${ROOT:-}/etc/paddock.conf"')
    assert done.exit_status == 1
    assert "bash: /etc/paddock.conf: Permission denied" in done.stderr
    assert mac.violations == ["m1 created /etc/paddock.conf without sudo"]


async def test_a_redirection_in_front_of_sudo_is_not_done_by_root(root, mac):
    done = await root('sudo -n echo 1 > "${ROOT:-}/etc/paddock.conf"')
    assert done.exit_status == 1
    assert mac.violations


async def test_a_file_that_root_writes_and_files_at_home_are_fine(root, mac):
    done = await root(
        'echo 1 | sudo -n tee "${ROOT:-}/etc/paddock.conf" > /dev/null\necho 2 > "$HOME/notes"\ncat "${ROOT:-}/etc/paddock.conf"'
    )
    assert (done.exit_status, done.stdout, mac.violations) == (0, "1\n", [])
    assert [str(effect) for effect in mac.effects] == ["root: created /etc/paddock.conf", "m1: created /Users/m1/notes"]


async def test_what_a_killed_command_wrote_as_root_is_nobody_elses_fault(root, mac, direct):
    with pytest.raises(CommandTimedOut):
        await direct.run(
            """sudo -n bash -c 'echo 1 > "${ROOT:-}/etc/half"; exec tail -f /dev/null' < /dev/null""", timeout=0.5
        )
    assert (await root("sudo -n true")).exit_status == 0
    assert mac.violations == []
    assert [str(effect) for effect in mac.effects] == ["root: created /etc/half"]
