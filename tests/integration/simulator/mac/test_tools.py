"""The smaller stand-ins, with the flags that differ between a Mac and other machines."""

import hashlib


async def test_a_mac_says_that_it_is_one(root):
    done = await root("uname -sm; sw_vers -productVersion; id -u; whoami; sudo -n id -u; sysctl -n hw.memsize")
    assert done.stdout == "Darwin arm64\n26.3\n501\nm1\n0\n25769803776\n"


async def test_settings_are_written_read_and_deleted(root, mac):
    path = '"${ROOT:-}/Library/Preferences/com.example"'
    done = await root(
        f"sudo -n defaults write {path} delay -int 0\nsudo -n defaults write {path} name -string 'a b'\n"
        f"sudo -n defaults write {path} flag -bool true\n"
        f"defaults read {path} delay; defaults read {path} name; defaults read {path} flag; defaults read-type {path} delay\n"
        f"sudo -n defaults delete {path} delay\ndefaults read {path} delay"
    )
    assert done.stdout == "0\na b\n1\nType is integer\n"
    assert "does not exist" in done.stderr
    assert done.exit_status == 1
    assert mac.exists("/Library/Preferences/com.example.plist")


async def test_names_and_power_settings_last_beyond_a_reboot(root, mac):
    await root("sudo -n scutil --set HostName mini-7\nsudo -n pmset -a sleep 0 displaysleep 0", check=True)
    mac.reboot()
    assert (mac.hostname, mac.disk.power["sleep"], mac.disk.power["displaysleep"]) == ("mini-7", "0", "0")
    assert mac.disk.power["disksleep"] == "10"


async def test_names_that_bonjour_refuses_are_refused(root):
    done = await root("sudo -n scutil --set LocalHostName mini.local")
    assert done.exit_status == 1


async def test_owners_are_remembered_and_shown(root, mac):
    done = await root(
        'sudo -n install -d -m 0750 -o m1 -g staff "${ROOT:-}/etc/agent"\necho 1 > "$HOME/f"\n'
        'sudo -n install -m 0600 -o m1 -g staff "$HOME/f" "${ROOT:-}/etc/agent/config"\n'
        'sudo -n chown root:wheel "${ROOT:-}/etc/agent/config"\n'
        'stat -f \'%Lp %Su %Sg %z\' "${ROOT:-}/etc/agent/config" "${ROOT:-}/etc/agent"'
    )
    assert done.stdout.splitlines()[0] == "600 root wheel 2"
    assert done.stdout.splitlines()[1].startswith("750 m1 staff")
    assert mac.owner("/etc/agent/config") == ("root", "wheel")


async def test_a_user_cannot_give_files_away(root):
    assert (await root('echo 1 > "$HOME/f"; chown root "$HOME/f"')).exit_status == 1


async def test_checksums_are_computed_and_checked(root, mac):
    mac.write("/usr/local/tool", b"payload")
    digest = hashlib.sha256(b"payload").hexdigest()
    done = await root(
        'shasum -a 256 < "${ROOT:-}/usr/local/tool"\nprintf "%s  %s\\n" "$1" "${ROOT:-}/usr/local/tool" | shasum -a 256 -c -s -\n'
        'printf "%s  %s\\n" "bad$1" "${ROOT:-}/usr/local/tool" | shasum -a 256 -c',
        digest,
    )
    assert done.stdout.startswith(f"{digest}  -\n")
    assert "FAILED" in done.stdout
    assert done.exit_status == 1


async def test_sed_edits_in_place_as_on_a_mac_and_in_no_other_way(root, mac):
    assert (await root('echo a > "$HOME/f"; sed -i "" -e s/a/b/ "$HOME/f"; cat "$HOME/f"')).stdout == "b\n"
    assert (await root('sed -i.bak s/b/c/ "$HOME/f"')).exit_status == 1
    assert (await root('sed -i s/b/c/ "$HOME/f"')).exit_status == 1


async def test_base64_decodes_with_either_letter_and_breaks_no_lines(root):
    done = await root("head -c 90 /dev/zero | base64 | wc -l | tr -d ' '; echo aGk= | base64 -D; echo aGk= | base64 -d")
    assert done.stdout == "1\nhihi"


async def test_downloads_are_what_the_test_put_there(root, mac):
    mac.downloads["https://downloads.example/agent"] = b"binary"
    done = await root('curl -fsSL -o "$HOME/agent" https://downloads.example/agent && cat "$HOME/agent"')
    assert done.stdout == "binary"
    assert (await root("curl -fsS https://downloads.example/other")).exit_status == 22
    assert (await root("curl -fsS https://elsewhere.example/x")).exit_status == 6


async def test_property_lists_are_linted_and_read(root, mac):
    mac.write(
        "/tmp/x.plist",
        '<plist version="1.0"><dict><key>A</key><dict><key>B</key><integer>4</integer></dict></dict></plist>',
    )
    done = await root('plutil -lint "${ROOT:-}/tmp/x.plist"; plutil -extract A.B raw -o - "${ROOT:-}/tmp/x.plist"')
    assert done.stdout.splitlines()[1] == "4"
    assert (await root('plutil -extract A.C raw "${ROOT:-}/tmp/x.plist"')).exit_status == 1


async def test_a_wrong_password_given_to_the_directory_counts_as_well(root, mac):
    assert (await root("dscl . -authonly m1 wrong")).exit_status == 1
    assert mac.wrong_passwords == {"m1": 1}
    assert (await root("dscl . -read /Users/m1 UniqueID")).stdout == "UniqueID: 501\n"


async def test_sleep_takes_the_time_of_the_mac(root, mac):
    before = mac.simulated_seconds
    await root("sleep 20", check=True)
    assert mac.simulated_seconds - before >= 20


async def test_looking_changes_nothing(root, mac):
    await root(
        "pmset -g; launchctl print system/com.apple.loginwindow; sudo -n pfctl -sr; scutil --get HostName; dscl . -list /Users;"
        'defaults read "${ROOT:-}/Library/Preferences/com.apple.loginwindow"; f="$(mktemp)"; echo x > "$f"; rm "$f"; sudo -n true'
    )
    assert mac.effects == []


async def test_a_file_that_is_written_again_with_the_same_content_is_an_effect(root, mac):
    write = 'echo same | sudo -n tee "${ROOT:-}/etc/same" > /dev/null'
    await root(write, check=True)
    mac.effects.clear()
    await root(write, check=True)
    assert [str(effect) for effect in mac.effects] == ["root: written /etc/same"]


async def test_a_mode_that_changes_is_an_effect_and_one_that_stays_is_none(root, mac):
    await root('sudo -n chmod 0600 "${ROOT:-}/etc/hosts"', check=True)
    assert [str(effect) for effect in mac.effects] == ["root: mode /etc/hosts"]
    mac.effects.clear()
    await root('sudo -n chmod 0600 "${ROOT:-}/etc/hosts"', check=True)
    assert mac.effects == []


async def test_an_owner_goes_with_a_file_that_is_moved(root, mac):
    await root(
        'sudo -n install -m 0600 -o m1 -g staff /dev/null "${ROOT:-}/etc/secret.new"\n'
        'sudo -n mv -f "${ROOT:-}/etc/secret.new" "${ROOT:-}/etc/secret"',
        check=True,
    )
    assert mac.owner("/etc/secret") == ("m1", "staff")


async def test_a_grant_that_is_moved_into_place_still_belongs_to_the_one_who_wrote_it(root, mac):
    done = await root(
        'file="$(mktemp)"; echo "m1 ALL=(ALL) NOPASSWD: ALL" > "$file"; chmod 0440 "$file"\n'
        'sudo -n mv "$file" "${ROOT:-}/etc/sudoers.d/other"\nsudo -n true'
    )
    assert done.exit_status == 1
    assert "sudo: /etc/sudoers.d/other is owned by uid 501, should be 0" in done.stderr


async def test_what_root_makes_belongs_to_root_even_at_home(root, mac):
    await root('sudo -n touch "$HOME/of-root"; touch "$HOME/of-mine"', check=True)
    assert mac.owner("/Users/m1/of-root")[0] == "root"
    assert mac.owner("/Users/m1/of-mine")[0] == "m1"


async def test_a_tool_may_be_handed_megabytes_on_its_standard_input(root):
    done = await root("head -c 3000000 /dev/zero | shasum -a 256")
    assert done.stdout == hashlib.sha256(bytes(3000000)).hexdigest() + "  -\n"


async def test_processes_are_found_and_signalled_by_numbers_that_no_real_process_has(root, mac):
    first = mac.job("com.apple.WindowServer").pid
    done = await root(f"pgrep WindowServer; sudo -n kill -0 {first} && sudo -n kill {first}; kill {first}")
    assert done.stdout == f"{first}\n"
    assert done.exit_status == 1
    assert mac.job("com.apple.WindowServer").pid is None
    assert first >= 5_000_000
