"""The stand-in for `tart` behaves as Tart was seen to: its codes, its locks, its odd answers."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from integration.tart.conftest import IMAGE, TartHome, wait_until


def test_list_and_get_answer_as_tart_does(tart: TartHome):
    tart.world(images={IMAGE: {"digest": "sha256:" + "a" * 64, "size": 72.66}})
    assert tart("pull", IMAGE).returncode == 0
    assert tart("clone", IMAGE, "golden").returncode == 0
    local = tart.json("list", "--source", "local")
    assert [entry["Name"] for entry in local] == ["golden"]
    assert local[0] == {
        "Source": "local",
        "Name": "golden",
        "Disk": 50,
        "Size": 72,
        "Accessed": local[0]["Accessed"],
        "Running": False,
        "State": "stopped",
    }
    oci = tart.json("list", "--source", "oci")
    digest = "registry.example/team/macos-base@sha256:" + "a" * 64
    assert sorted(entry["Name"] for entry in oci) == sorted([IMAGE, digest])
    assert {entry["Source"] for entry in oci} == {"OCI"}
    shown = tart.json("get", "golden")
    assert shown["Size"] == "72.660", "a string, as in Tart"
    assert (shown["CPU"], shown["Memory"], shown["State"]) == (4, 8192, "stopped")
    assert "Name" not in shown
    assert tart("fqn", IMAGE).stdout.strip() == digest


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 64),
        (["fly"], 64),
        (["get"], 64),
        (["get", "nobody", "--colour"], 64),
        (["clone", "only-one"], 64),
        (["prune"], 64),
        (["pull", "no-host"], 64),
        (["exec", "nobody"], 64),
        (["get", "nobody"], 2),
        (["run", "nobody"], 2),
        (["stop", "nobody"], 2),
        (["delete", "nobody"], 2),
        (["set", "nobody", "--cpu", "2"], 2),
        (["clone", "nobody", "copy"], 2),
        (["exec", "nobody", "true"], 2),
        (["ip", "../../etc"], 2),
        (["--version"], 0),
    ],
)
def test_exit_codes(tart: TartHome, arguments: list[str], code: int):
    done = tart(*arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert code == 0 or done.stderr


def test_what_needs_a_running_vm_ends_with_2_on_a_stopped_one(tart: TartHome):
    tart("clone", IMAGE, "vm-1")
    assert tart("stop", "vm-1").returncode == 2
    assert tart("exec", "vm-1", "true").returncode == 2


def test_a_running_vm_is_not_deleted_and_not_run_again_and_may_be_changed_and_replaced(tart: TartHome):
    running = tart.up("vm-1")
    deleted = tart("delete", "vm-1")
    assert (deleted.returncode, deleted.stderr) == (1, 'VM "vm-1" is running\n')
    assert tart.run("vm-1").wait(timeout=60) == 2, "already runs"
    assert tart("set", "vm-1", "--cpu", "2").returncode == 0
    assert tart.json("get", "vm-1")["State"] == "running", "the lock is held as before"
    assert tart("clone", IMAGE, "vm-1").returncode == 0
    assert tart.json("get", "vm-1")["State"] == "stopped", "the folder is another one"
    assert running.poll() is None, "and the VM runs on without it"


def test_a_second_run_of_one_folder_is_never_reached_through_the_socket_of_the_first(tart: TartHome):
    tart.up("vm-1")
    assert tart("stop", "vm-1").returncode == 0
    tart.run("vm-1")
    wait_until(lambda: tart.json("get", "vm-1")["Running"], "it runs")
    again = tart("exec", "vm-1", "true")
    assert again.returncode == 1
    assert "control socket" in again.stderr


def test_a_running_vm_holds_the_lock_and_is_seen_in_the_process_table(tart: TartHome):
    running = tart.up("vm-1")
    with (tart.home / "vms" / "vm-1" / "config.json").open("r+") as config, pytest.raises(OSError, match="temporarily"):
        fcntl.lockf(config, fcntl.LOCK_EX | fcntl.LOCK_NB)
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(running.pid)], capture_output=True, text=True, check=True
    )
    assert "tart run vm-1 " in shown.stdout
    assert tart.json("get", "vm-1")["State"] == "running"
    tart.world(wrong_state=True)
    assert tart.json("get", "vm-1")["State"] == "stopped", "as was seen on Macs"


def test_a_third_vm_is_refused_and_leaked_slots_count(tart: TartHome):
    tart.up("vm-1")
    tart.up("vm-2")
    tart("clone", IMAGE, "vm-3")
    third = tart.run("vm-3")
    assert third.wait(timeout=60) == 1
    assert third.stderr is not None
    assert "exceeds the system limit" in third.stderr.read()
    assert tart("stop", "vm-1").returncode == 0
    tart.world(leaked_slots=1)
    assert tart.run("vm-3").wait(timeout=60) == 1
    tart.world()
    tart.up("vm-3")


def test_a_kernel_that_leaks_counts_vms_that_have_halted(tart: TartHome):
    tart.world(leaks_seats=True)
    for name in ("vm-1", "vm-2"):
        running = tart.up(name)
        tart("exec", name, "sudo", "-n", "shutdown", "-h", "now")
        assert running.wait(timeout=60) == 0
    tart("clone", IMAGE, "vm-3")
    assert tart.run("vm-3").wait(timeout=60) == 1


def test_of_many_that_start_together_two_run(tart: TartHome):
    names = [f"vm-{n}" for n in range(4)]
    for name in names:
        tart("clone", IMAGE, name)
    runs = [tart.run(name) for name in names]
    wait_until(lambda: sum(run.poll() is not None for run in runs) == 2, "two are refused")
    assert (
        sorted(entry["State"] for entry in tart.json("list", "--source", "local")) == ["running"] * 2 + ["stopped"] * 2
    )


def test_without_a_session_no_vm_starts(tart: TartHome):
    tart("clone", IMAGE, "vm-1")
    tart.world(session=False)
    run = tart.run("vm-1")
    assert run.wait(timeout=60) == 1
    assert run.stderr is not None
    assert "VZErrorDomain Code=-9" in run.stderr.read()


def test_halt_stop_and_crash_all_end_with_0(tart: TartHome):
    halted = tart.up("vm-1")
    assert tart("exec", "vm-1", "sudo", "-n", "shutdown", "-h", "now").returncode in {0, 137}
    assert halted.wait(timeout=60) == 0
    stopped = tart.up("vm-1")
    assert tart("stop", "vm-1", "--timeout", "5").returncode == 0
    assert stopped.wait(timeout=60) == 0
    tart.world(dies_after=0.3)
    crashed = tart.run("vm-1")
    assert crashed.wait(timeout=60) == 0
    assert crashed.stdout is not None
    assert "due to error" in crashed.stdout.read()


def test_a_guest_that_ignores_the_power_button_is_killed_after_the_timeout(tart: TartHome):
    running = tart.up("vm-1")
    tart.world(ignores_stop=True)
    running.send_signal(signal.SIGINT)  # the world is read at the start: this one obeys
    assert running.wait(timeout=60) == 0
    stubborn = tart.up("vm-1")
    began = time.monotonic()
    assert tart("stop", "vm-1", "--timeout", "1").returncode == 0
    assert time.monotonic() - began >= 1
    assert stubborn.wait(timeout=60) == -signal.SIGKILL


def test_the_guests_processes_die_with_it_however_it_dies(tart: TartHome):
    for end in (lambda run: run.kill(), lambda run: run.send_signal(signal.SIGINT)):
        running = tart.up("vm-1")
        started = tart("exec", "vm-1", "/bin/bash", "-c", "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!")
        pid = int(started.stdout)
        assert Path(f"/proc/{pid}").exists()
        end(running)
        running.wait(timeout=60)
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "the process is gone")


def test_exec_passes_output_and_code_and_sees_the_guest_alone(tart: TartHome):
    tart.environment["HOST_SECRET"] = "of the host"
    tart.up("vm-1")
    done = tart("exec", "vm-1", "sh", "-c", 'echo out; echo err >&2; echo "${HOST_SECRET:-none} $USER"; exit 42')
    assert (done.returncode, done.stdout, done.stderr) == (42, "out\nnone admin\n", "err\n")
    login = tart("exec", "vm-1", "/bin/zsh", "-lc", "command -v sudo; sysctl -n kern.bootsessionuuid; pwd")
    assert str(tart.home / "vms" / "vm-1" / "disk") in login.stdout.splitlines()[0], "the guest's own sudo"
    assert len(login.stdout.splitlines()[1]) == 36
    assert login.stdout.splitlines()[2].endswith("/Users/admin")


def test_the_guest_agent_answers_after_the_boot_and_only_where_there_is_one(tart: TartHome):
    tart("clone", IMAGE, "vm-1")
    tart("clone", IMAGE, "vm-2")
    tart.world(boot_seconds=3600)
    tart.run("vm-1")
    wait_until(lambda: tart.json("get", "vm-1")["Running"], "it runs")
    early = tart("exec", "vm-1", "true")
    assert early.returncode == 1
    assert "Guest Agent" in early.stderr
    assert tart("ip", "vm-1", "--resolver", "agent").returncode == 1
    tart.world(boot_seconds=0.5)
    tart.run("vm-2")
    wait_until(lambda: tart.json("get", "vm-2")["Running"], "it runs")
    assert tart("ip", "vm-2", "--wait", "30", "--resolver", "agent").returncode == 0
    assert tart("exec", "vm-2", "true").returncode == 0


def test_ip_answers_for_dead_vms_too(tart: TartHome):
    tart("clone", IMAGE, "vm-1")
    assert tart("ip", "vm-1").returncode == 1
    running = tart.up("vm-1")
    address = tart("ip", "vm-1").stdout
    assert address.startswith("192.168.64.")
    tart("stop", "vm-1")
    running.wait(timeout=60)
    assert tart("ip", "vm-1").stdout == address
    assert tart("ip", "vm-1", "--resolver", "arp").returncode == 1


def test_clone_replaces_pulls_and_gives_a_mac_that_nobody_has(tart: TartHome):
    def config(name: str) -> str:
        return (tart.home / "vms" / name / "config.json").read_text()

    tart("clone", IMAGE, "golden")
    tart("clone", "golden", "vm-1")
    assert config("golden") != config("vm-1"), "the MAC is another one"
    tart("set", "vm-1", "--cpu", "2", "--memory", "4096", "--disk-size", "60")
    assert (tart.json("get", "vm-1")["CPU"], tart.json("get", "vm-1")["Disk"]) == (2, 60)
    assert tart("set", "vm-1", "--disk-size", "20").returncode == 1, "disks only grow"
    before = config("vm-1")
    tart("set", "vm-1", "--random-mac", "--random-serial")
    assert config("vm-1") != before
    tart("clone", "golden", "vm-1")
    assert tart.json("get", "vm-1")["CPU"] == 4, "replaced"
    assert tart("delete", "vm-1", "golden").returncode == 0
    assert tart.json("list", "--source", "local") == []


@pytest.mark.parametrize("fault", ["unauthorized", "missing", "reset"])
def test_a_pull_that_fails_leaves_nothing(tart: TartHome, fault: str):
    tart.world(images={IMAGE: {"fault": fault}})
    assert tart("pull", IMAGE).returncode == 1
    assert tart("clone", IMAGE, "vm-1").returncode == 1
    assert tart.json("list") == []
    tart.world(images={})
    assert tart("pull", IMAGE).returncode == 1, "an image that the registry does not have"


def test_a_killed_pull_is_cleared_away_by_the_next_command_and_a_living_one_is_not(tart: TartHome):
    tart.world(images={IMAGE: {"seconds": 2.0}})
    command = [str(tart.program), "pull", IMAGE]

    def unfinished() -> int:
        return len(list((tart.home / "tmp").glob("*")))

    for kill in (True, False):
        with subprocess.Popen(command, env=tart.environment) as pulling:
            wait_until(lambda: unfinished() == 1, "the pull is under way")
            if kill:
                pulling.kill()
                pulling.wait(timeout=60)
            tart.json("list")
            assert unfinished() == (0 if kill else 1)
            assert pulling.wait(timeout=60) == (-9 if kill else 0)
    assert tart("fqn", IMAGE).returncode == 0


def test_prune_removes_what_was_used_last_the_longest_ago(tart: TartHome):
    names = [f"registry.example/team/image-{n}:1" for n in range(3)]
    for age, name in enumerate(names):
        tart("pull", name)
        digest = tart("fqn", name).stdout.strip().partition("@")[2]
        folder = tart.home / "cache" / "OCIs" / name.removesuffix(":1") / digest
        used = time.time() - 86400 * (3 - age)
        os.utime(folder, (used, used))
    assert tart("prune", "--space-budget", "40").returncode == 0
    assert [tart("fqn", name).returncode for name in names] == [2, 0, 0]
    assert tart("prune", "--older-than", "2").returncode == 0
    assert [tart("fqn", name).returncode for name in names] == [2, 2, 0]
