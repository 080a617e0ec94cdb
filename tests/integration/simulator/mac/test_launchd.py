"""Jobs: loading, starting, what stops a program from running, and what really runs at a boot."""

import pytest

PLIST = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>{label}</string>
<key>ProgramArguments</key><array>{words}</array>
{more}
</dict></plist>
"""
AGENT = "/Library/LaunchDaemons/dev.agent.plist"
LOAD = f'sudo -n launchctl bootstrap system "${{ROOT:-}}{AGENT}"\n'


def plist(label, *words, more=""):
    return PLIST.format(label=label, words="".join(f"<string>{word}</string>" for word in words), more=more)


@pytest.fixture
def agent(mac):
    mac.write("/usr/local/bin/agent", b"\xcf\xfa\xed\xfe one", mode=0o755)
    mac.write(AGENT, plist("dev.agent", "/usr/local/bin/agent", "--flag", more="<key>KeepAlive</key><true/>"))


async def test_a_job_that_is_loaded_runs_and_is_shown(root, mac, agent):
    done = await root(LOAD + "sudo -n launchctl print system/dev.agent")
    assert "\tstate = running\n" in done.stdout
    assert f"\tpid = {mac.job('dev.agent').pid}\n" in done.stdout
    assert f"\tpath = {AGENT}\n" in done.stdout


async def test_loading_a_job_twice_is_an_input_output_error(root, agent):
    done = await root(LOAD + LOAD)
    assert done.exit_status == 5
    assert "Bootstrap failed: 5: Input/output error" in done.stderr


async def test_a_job_that_is_not_there_has_the_statuses_of_the_real_tool(root):
    assert (await root("sudo -n launchctl print system/dev.nothing")).exit_status == 113
    assert (await root("sudo -n launchctl kickstart -k system/dev.nothing")).exit_status == 113
    assert (await root("sudo -n launchctl bootout system/dev.nothing")).exit_status == 3


async def test_only_root_changes_the_system_domain(root, agent):
    assert (await root(LOAD.replace("sudo -n ", ""))).exit_status == 1


async def test_a_job_file_that_others_own_or_may_write_is_refused(root, mac, agent):
    mac.write(AGENT, mac.read(AGENT), mode=0o666)
    assert (await root(LOAD)).exit_status == 122
    mac.write(AGENT, mac.read(AGENT), owner=("m1", "staff"))
    assert (await root(LOAD)).exit_status == 122


async def test_a_kick_gives_a_new_process(root, mac, agent):
    await root(LOAD, check=True)
    first = mac.job("dev.agent").pid
    await root("sudo -n launchctl kickstart -k system/dev.agent", check=True)
    assert mac.job("dev.agent").pid not in {None, first}


async def test_a_disabled_job_is_not_loaded_until_it_is_enabled(root, agent):
    assert (await root("sudo -n launchctl disable system/dev.agent\n" + LOAD)).exit_status == 119
    assert (await root("sudo -n launchctl enable system/dev.agent\n" + LOAD)).exit_status == 0


async def test_a_job_whose_program_is_missing_does_not_run_and_says_why(root, mac, agent):
    await root('sudo -n rm "${ROOT:-}/usr/local/bin/agent"\n' + LOAD, check=True)
    assert (mac.job("dev.agent").pid, mac.job("dev.agent").reason) == (None, "no such file /usr/local/bin/agent")


async def test_a_program_that_is_overwritten_in_place_is_killed_until_it_is_signed(root, mac, agent):
    await root(LOAD, check=True)
    kick = "sudo -n launchctl kickstart -k system/dev.agent\n"
    overwrite = 'printf "\\317 two" | sudo -n tee "${ROOT:-}/usr/local/bin/agent" > /dev/null\n'
    await root(overwrite + kick, check=True)
    assert (mac.job("dev.agent").pid, mac.job("dev.agent").reason) == (None, "OS_REASON_CODESIGNING")
    await root('sudo -n codesign --force -s - "${ROOT:-}/usr/local/bin/agent"\n' + kick, check=True)
    assert mac.job("dev.agent").pid is not None


async def test_a_program_that_is_installed_as_a_new_file_runs(root, mac, agent):
    await root(LOAD, check=True)
    await root(
        'printf "\\317 two" > "$HOME/new"\n'
        'sudo -n install -m 0755 -o root -g wheel "$HOME/new" "${ROOT:-}/usr/local/bin/agent"\n'
        "sudo -n launchctl kickstart -k system/dev.agent\n",
        check=True,
    )
    assert mac.job("dev.agent").pid is not None


async def test_a_boot_loads_what_is_installed(root, mac, agent):
    mac.reboot()
    assert mac.job("dev.agent").state == "running"


async def test_a_boot_really_runs_what_runs_at_load(root, mac):
    mac.write("/etc/pf.anchors/ours", "pass in quick on lo0\n")
    mac.write(
        "/Library/LaunchDaemons/dev.pf.plist",
        plist(
            "dev.pf",
            "/sbin/pfctl",
            "-E",
            "-a",
            "ours",
            "-f",
            "/etc/pf.anchors/ours",
            more="<key>RunAtLoad</key><true/>",
        ),
    )
    mac.reboot()
    await mac.settled()
    assert mac.pf.enabled
    assert mac.pf.rules("ours") == ["pass in quick on lo0"]
    assert mac.job("dev.pf").exit_status == 0


async def test_a_job_at_intervals_runs_its_script_with_bash_as_root(root, mac):
    mac.write(
        "/usr/local/bin/watchdog",
        '#!/bin/bash\nid -un > "${ROOT:-}/var/log/watchdog"\nnc -z -G 3 127.0.0.1 22 || {\n'
        "  launchctl bootout system/com.openssh.sshd\n"
        '  launchctl bootstrap system "${ROOT:-}/System/Library/LaunchDaemons/ssh.plist"\n}\n',
        mode=0o755,
    )
    mac.write(
        "/Library/LaunchDaemons/dev.watchdog.plist",
        plist("dev.watchdog", "/usr/local/bin/watchdog", more="<key>StartInterval</key><integer>60</integer>"),
    )
    mac.reboot()
    mac.wedge_sshd("hang")
    mac.launchd.run_interval_jobs()
    await mac.settled()
    assert mac.read("/var/log/watchdog") == b"root\n"
    assert mac.sshd.mode == "up"
    assert mac.job("dev.watchdog").exit_status == 0


async def test_a_file_that_is_no_property_list_is_refused(root, mac):
    mac.write(AGENT, "not xml")
    assert (await root(LOAD)).exit_status == 5
    done = await root(f'plutil -lint "${{ROOT:-}}{AGENT}"')
    assert done.exit_status == 1
