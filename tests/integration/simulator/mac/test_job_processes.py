"""A Mac whose kept-alive jobs run for real: as processes that see the Mac's disk as theirs, and that come back."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from integration.simulator.mac.test_launchd import AGENT, LOAD, plist

from paddock.simulator.mac.job_processes import JobProcesses

PROGRAM = '#!/bin/sh\necho "$$ $*" >>"${2#--data=}/starts"\nwhile :; do sleep 0.1; done\n'
DATA = "/usr/local/var/agent"


async def until(seen, what):
    async with asyncio.timeout(30):
        while not (found := seen()):
            await asyncio.sleep(0.05)
    assert found, what
    return found


@pytest.fixture
def keeper(mac, tmp_path):
    mac.write("/usr/local/bin/agent", PROGRAM.encode(), mode=0o755)
    more = "<key>KeepAlive</key><true/><key>UserName</key><string>m1</string><key>StandardOutPath</key><string>/var/log/agent.log</string>"
    mac.write(AGENT, plist("dev.agent", "/usr/local/bin/agent", "--flag", f"--data={DATA}", more=more))
    (tmp_path / "data").mkdir()
    made = mac.job_keeper = JobProcesses(mac, moved={DATA: tmp_path / "data"}, throttle=0.1)
    yield made
    made.end()


def starts(tmp_path):
    file = tmp_path / "data" / "starts"
    return file.read_text().splitlines() if file.exists() else []


async def made_for_its_user(root):
    await root(f'sudo -n mkdir -p "${{ROOT:-}}{DATA}"\nsudo -n chown m1 "${{ROOT:-}}{DATA}"', check=True)


async def test_a_job_is_a_process_whose_paths_lead_into_the_macs_disk(root, mac, keeper, tmp_path):
    await made_for_its_user(root)
    await root(LOAD, check=True)
    [line] = await until(lambda: starts(tmp_path), "the job has started")
    pid, *words = line.split()
    assert int(pid) == mac.job("dev.agent").pid == keeper.pid("dev.agent")
    assert words == ["--flag", f"--data={tmp_path / 'data'}"]


async def test_a_job_that_is_killed_comes_back_and_one_that_is_unloaded_does_not(root, mac, keeper, tmp_path):
    await made_for_its_user(root)
    await root(LOAD, check=True)
    first = mac.job("dev.agent").pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: mac.job("dev.agent").pid not in (None, first), "launchd has started it again")
    second = mac.job("dev.agent").pid
    await root("sudo -n launchctl kickstart -k system/dev.agent", check=True)
    third = mac.job("dev.agent").pid
    assert third not in (None, first, second)
    await root("sudo -n launchctl bootout system/dev.agent", check=True)
    assert keeper.pid("dev.agent") is None
    with pytest.raises(ProcessLookupError):
        os.kill(third, 0)


async def test_a_folder_of_roots_cannot_be_written_by_a_jobs_user(root, mac, keeper, tmp_path):
    """As on a Mac: everything runs in one account here, so the disk is asked who owns what."""
    await root(LOAD, check=True)
    log = mac.disk.at("/var/log/agent.log")
    await until(lambda: log.exists() and "Permission denied (/usr/local is not m1's)" in log.read_text(), "it says why")
    assert starts(tmp_path) == []


async def test_what_a_job_writes_into_its_log_is_not_laid_to_whoever_is_logged_in(root, mac, keeper, tmp_path):
    await made_for_its_user(root)
    await root(LOAD, check=True)
    await until(lambda: starts(tmp_path), "the job has started")
    await root(f'printf "the job" >>"{mac.disk.at("/var/log/agent.log")}"', check=True)
    assert mac.violations == []


async def test_a_mac_that_goes_dark_takes_its_processes_along(root, mac, keeper, tmp_path):
    await made_for_its_user(root)
    await root(LOAD, check=True)
    await until(lambda: starts(tmp_path), "the job has started")
    pid = mac.job("dev.agent").pid
    mac.on_power_off.append(keeper.end)
    mac.power_off()
    await until(lambda: _gone(pid), "the process is gone")


def _gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_a_guest_in_a_session_of_its_own_goes_with_its_mac(mac, keeper):
    home = mac.disk.root / "Users" / "m1" / ".tart" / "vms" / "x" / "disk" / "Users" / "admin"
    home.mkdir(parents=True)
    guest = await asyncio.create_subprocess_exec("sleep", "600", env={"HOME": str(home)}, start_new_session=True)
    await until(lambda: f"HOME={home}" in Path(f"/proc/{guest.pid}/environ").read_text(), "the guest runs")
    keeper.end()
    assert await asyncio.wait_for(guest.wait(), 30) == -signal.SIGKILL
