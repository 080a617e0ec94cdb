"""kcpassword: the encoding, what a right one does, and how a wrong one is sealed."""

import pytest

from paddock.simulator.mac import Pace
from paddock.simulator.mac.login import decoded, encoded

# What ends a loginwindow takes a moment, and so does its new start.
KICK = "sudo -n killall loginwindow\nsleep 10\n"
WANT = 'sudo -n defaults write "${ROOT:-}/Library/Preferences/com.apple.loginwindow" autoLoginUser m1\n'


@pytest.mark.parametrize(
    ("password", "vector"),
    [
        ("a", "1c895223d2bcddeaa3b91f"),
        ("password", "0de82150a5d3af8ea3b91f"),
        ("elevenchars", "18e53755b7d2be82c2cb6c7d895223d2bcddeaa3b91f"),
    ],
)
def test_the_encoding_pads_to_eleven_and_always_by_one_at_least(password, vector):
    assert encoded(password).hex() == vector
    assert decoded(bytes.fromhex(vector)) == password


async def put(mac, password):
    mac.write("/etc/kcpassword", encoded(password), mode=0o600)


async def test_a_fresh_mac_has_no_graphical_session(root, mac):
    done = await root("launchctl print gui/501")
    assert done.exit_status == 113
    assert mac.session is None


async def test_the_right_password_gives_an_aqua_session_when_loginwindow_is_kicked(root, mac):
    await put(mac, mac.password)
    done = await root(WANT + KICK + "launchctl print gui/501 | grep session")
    assert done.stdout.strip() == "session = Aqua"
    assert mac.session == "Aqua"
    assert mac.read("/etc/kcpassword") == encoded(mac.password)


@pytest.mark.parametrize("display", [False, True])
async def test_a_boot_logs_in_only_where_there_is_a_display(root, mac, display):
    mac.display = display
    await put(mac, mac.password)
    await root(WANT + KICK, check=True)
    assert mac.session == "Aqua"
    mac.reboot()
    assert mac.session == ("Aqua" if display else None)


async def test_each_login_makes_another_session(root, mac):
    await put(mac, mac.password)
    await root(WANT + KICK, check=True)
    show = "launchctl print gui/501 | grep -e creator -e handle"
    before = (await root(show, check=True)).stdout
    assert "creator = loginwindow[" in before
    mac.pace = Pace(speed=5.0)
    assert (await root(f"sudo -n killall loginwindow; {show}", check=True)).stdout == before, "it goes a moment later"
    after = await root(f"sleep 10; {show}", check=True)
    assert "creator = loginwindow[" in after.stdout
    assert after.stdout != before


async def test_launchd_kills_no_critical_process_of_the_system(root, mac):
    kick = "sudo -n launchctl kickstart -k system/com.apple.loginwindow"
    await put(mac, mac.password)
    refused = await root(WANT + kick)
    assert refused.exit_status == 1
    assert "1: Operation not permitted" in refused.stderr
    assert mac.session is None
    mac.product_version = "14.3"
    await root(kick, check=True)
    assert mac.session == "Aqua"


async def test_a_wrong_password_is_replaced_by_the_sealed_marker_without_a_word(root, mac):
    await put(mac, "wrong")
    done = await root(WANT + KICK)
    assert (done.exit_status, done.stderr) == (0, "")
    assert decoded(mac.read("/etc/kcpassword")).startswith("<sealed>")
    assert mac.session is None
    assert mac.wrong_passwords == {}


async def test_a_wrong_password_is_sealed_at_a_boot_too(root, mac):
    mac.display = True
    await put(mac, "wrong")
    await root(WANT, check=True)
    mac.reboot()
    assert decoded(mac.read("/etc/kcpassword")) == "<sealed>"


async def test_a_sealed_password_is_healed_by_the_right_one(root, mac):
    mac.seal_password()
    await root(WANT + KICK, check=True)
    assert mac.session is None
    await put(mac, mac.password)
    await root(KICK, check=True)
    assert mac.session == "Aqua"


async def test_without_a_wanted_user_nothing_is_tried(root, mac):
    await put(mac, "wrong")
    await root(KICK, check=True)
    assert mac.read("/etc/kcpassword") == encoded("wrong")


async def test_a_hang_up_leaves_loginwindow_dead_until_it_is_started(root, mac):
    await put(mac, mac.password)
    await root(WANT + KICK, check=True)
    await root("sudo -n killall -HUP loginwindow\nsleep 10\n", check=True)
    assert mac.session is None
    job = mac.job("com.apple.loginwindow")
    assert job is not None
    assert job.pid is None
    assert (await root("sudo -n killall loginwindow")).exit_status == 1
    await root("sudo -n launchctl kickstart system/com.apple.loginwindow", check=True)
    assert mac.session == "Aqua"


async def test_a_kick_ends_what_ran_in_the_session(root, mac):
    await put(mac, mac.password)
    await root(WANT + KICK, check=True)
    mac.write("/Users/m1/Library/LaunchAgents/agent.plist", AGENT)
    await root('launchctl bootstrap gui/501 "$HOME/Library/LaunchAgents/agent.plist"', check=True)
    assert mac.job("dev.agent", "gui/501") is not None
    mac.effects.clear()
    await root(KICK, check=True)
    assert mac.job("dev.agent", "gui/501") is None
    assert [str(effect) for effect in mac.effects] == ["root: killall loginwindow"]


AGENT = """<?xml version="1.0" encoding="UTF-8"?>
<plist version="1.0"><dict>
<key>Label</key><string>dev.agent</string>
<key>ProgramArguments</key><array><string>/bin/sleep</string><string>60</string></array>
<key>KeepAlive</key><true/>
</dict></plist>
"""
