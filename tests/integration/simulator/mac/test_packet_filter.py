"""pf as the incidents showed it: persistent tables, busy loads, scopes, and what each kind of flush leaves."""

import pytest

ANCHOR_FILE = """\
# VM egress rules
table <vm_sources> { 192.168.64.0/22 }
table <blocked_dst> { 10.0.0.0/8, 172.16.0.0/12, 169.254.0.0/16 }
block drop out quick from <vm_sources> to <blocked_dst>
"""
LOAD = 'sudo -n pfctl -q -a tuist.runners -f "${ROOT:-}/etc/pf.anchors/tuist.runners"'
KILL_IN_ANCHOR = "for t in vm_sources blocked_dst; do sudo -n pfctl -q -a tuist.runners -t $t -T kill; done\n"
KILL_IN_MAIN = "for t in vm_sources blocked_dst; do sudo -n pfctl -q -t $t -T kill; done\n"


@pytest.fixture(autouse=True)
def anchor_file(mac):
    mac.write("/etc/pf.anchors/tuist.runners", ANCHOR_FILE)


async def test_a_fresh_mac_loads_an_anchor_and_shows_it(root, mac):
    done = await root(f"{LOAD} && sudo -n pfctl -q -a tuist.runners -sr && sudo -n pfctl -q -a tuist.runners -s Tables")
    assert done.stdout == "block drop out quick from <vm_sources> to <blocked_dst>\nblocked_dst\nvm_sources\n"
    assert mac.pf.tables("tuist.runners")["vm_sources"].addresses == ["192.168.64.0/22"]


async def test_loading_the_same_anchor_again_works_while_nothing_persists(root):
    assert (await root(f"{LOAD} && {LOAD}")).exit_status == 0


@pytest.mark.parametrize("scope", ["anchor", "main", "both"])
async def test_a_table_that_persists_in_any_scope_makes_the_load_busy(root, mac, scope):
    mac.persist_tables(scope)
    done = await root(LOAD)
    assert done.exit_status == 1
    assert done.stderr.splitlines() == [
        "/etc/pf.anchors/tuist.runners:2: cannot define table vm_sources: Resource busy",
        "/etc/pf.anchors/tuist.runners:3: cannot define table blocked_dst: Resource busy",
        "pfctl: Syntax error in config file: pf rules not loaded",
    ]
    assert mac.pf.rules("tuist.runners") == []


@pytest.mark.parametrize(
    ("scope", "kills", "status"),
    [
        ("anchor", KILL_IN_ANCHOR, 0),
        ("anchor", KILL_IN_MAIN, 1),
        ("main", KILL_IN_ANCHOR, 1),
        ("main", KILL_IN_MAIN, 0),
        ("both", KILL_IN_ANCHOR, 1),
        ("both", KILL_IN_MAIN, 1),
        ("both", KILL_IN_ANCHOR + KILL_IN_MAIN, 0),
    ],
)
async def test_only_a_kill_in_the_scope_where_the_table_lives_removes_it(root, mac, scope, kills, status):
    mac.persist_tables(scope)
    assert (await root(kills + LOAD)).exit_status == status


@pytest.mark.parametrize("what", ["all", "Tables", "rules"])
async def test_no_flush_removes_a_persistent_table(root, mac, what):
    mac.persist_tables("both")
    done = await root(f"sudo -n pfctl -q -a tuist.runners -F {what}; sudo -n pfctl -q -F {what}; {LOAD}")
    assert done.exit_status == 1
    assert "Resource busy" in done.stderr


async def test_a_flush_of_tables_empties_them(root, mac):
    mac.persist_tables("main")
    await root("sudo -n pfctl -F Tables", check=True)
    assert mac.pf.tables("")["vm_sources"].addresses == []


async def test_an_empty_anchor_takes_away_rules_and_the_tables_that_do_not_persist(root, mac):
    await root(f"{LOAD}\nsudo -n pfctl -q -a tuist.runners -f /dev/null", check=True)
    assert mac.pf.rules("tuist.runners") == []
    assert mac.pf.tables("tuist.runners") == {}


async def test_killing_a_table_that_is_not_there_is_no_error(root):
    assert (await root("sudo -n pfctl -t nothing -T kill")).exit_status == 0


async def test_a_dry_run_finds_mistakes_and_changes_nothing(root, mac):
    mac.persist_tables("both")
    before = mac.pf.tables("").copy()
    assert (await root(f"{LOAD} -n")).exit_status == 0
    mac.write("/etc/pf.anchors/tuist.runners", "table <x> { not-an-address }\nfrobnicate all\n")
    done = await root(f"{LOAD} -n")
    assert done.exit_status == 1
    assert "tuist.runners:1: no IP address found for not-an-address" in done.stderr
    assert "tuist.runners:2: syntax error" in done.stderr
    assert mac.pf.tables("") == before
    assert not any("pfctl" in effect.command for effect in mac.effects)


async def test_loading_all_of_pf_conf_on_a_live_host_is_busy_and_keeps_the_rules(root, mac):
    conf = mac.read("/etc/pf.conf").decode()
    mac.write(
        "/etc/pf.conf",
        f'{conf}anchor "tuist.runners"\nload anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"\n',
    )
    await root(f"sudo -n pfctl -E\n{LOAD}", check=True)
    done = await root('sudo -n pfctl -f "${ROOT:-}/etc/pf.conf"')
    assert done.exit_status == 1
    assert "Resource busy" in done.stderr
    assert mac.pf.rules("tuist.runners")


async def test_an_anchor_that_is_loaded_twice_spoils_the_whole_file(root, mac):
    conf = mac.read("/etc/pf.conf").decode()
    block = 'anchor "tuist.runners"\nload anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"\n'
    mac.write("/etc/pf.conf", conf + block + block)
    mac.reboot()
    assert mac.pf.translations("") == []


async def test_a_reboot_loads_pf_conf_and_forgets_everything_else(root, mac):
    mac.persist_tables("both")
    conf = mac.read("/etc/pf.conf").decode()
    mac.write(
        "/etc/pf.conf",
        f'{conf}anchor "tuist.runners"\nload anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"\n',
    )
    mac.reboot()
    assert not mac.pf.enabled
    assert mac.pf.rules("tuist.runners") == ["block drop out quick from <vm_sources> to <blocked_dst>"]
    assert not mac.pf.tables("tuist.runners")["vm_sources"].persist
    assert 'nat-anchor "com.apple/*"' in mac.pf.translations("")
    assert mac.pf.tables("") == {}


async def test_rules_out_of_order_are_refused(root, mac):
    mac.write("/etc/pf.conf", 'anchor "a"\nnat-anchor "com.apple/*"\n')
    done = await root('sudo -n pfctl -nf "${ROOT:-}/etc/pf.conf"')
    assert "Rules must be in order" in done.stderr


async def test_enabling_is_counted_by_tokens(root, mac):
    done = await root("sudo -n pfctl -E; sudo -n pfctl -s info; sudo -n pfctl -e")
    assert "Status: Enabled" in done.stdout
    assert "Token :" in done.stderr
    assert done.exit_status == 1
    assert "pf already enabled" in done.stderr


async def test_only_root_may_touch_the_filter(root):
    done = await root("pfctl -s info")
    assert (done.exit_status, done.stderr) == (1, "pfctl: /dev/pf: Permission denied\n")


async def test_rules_may_come_from_standard_input(root, mac):
    await root("echo 'pass in quick on lo0' | sudo -n pfctl -q -a com.apple/tuist.sshguard -f -", check=True)
    assert mac.pf.rules("com.apple/tuist.sshguard") == ["pass in quick on lo0"]


async def test_tables_are_shown_tested_and_changed(root, mac):
    await root(LOAD, check=True)
    done = await root(
        "t='sudo -n pfctl -q -a tuist.runners -t blocked_dst -T'\n$t add 192.0.2.0/24; $t delete 10.0.0.0/8; $t show; $t test 172.16.3.4"
    )
    assert done.stdout == "   172.16.0.0/12\n   169.254.0.0/16\n   192.0.2.0/24\n"
    assert done.exit_status == 0
