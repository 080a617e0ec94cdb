"""What the guest's files must be before any of them runs in a VM."""

import plistlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.node.guest.guests import JOB, Guest, wait_until

from paddock.node.guest import LAUNCH_AGENT_LABEL, SHARES_IN_GUEST, guest_script, launch_agent, start_arguments

SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def test_shellcheck_finds_nothing_in_the_script():
    done = subprocess.run(
        [SHELLCHECK, "--shell=sh", "--severity=style", "-"],
        input=guest_script(),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_script_stays_small_enough_to_be_read_in_one_go():
    assert len(guest_script().splitlines()) < 150


def test_the_launch_agent_is_a_property_list_that_runs_in_the_users_session():
    agent = plistlib.loads(launch_agent().encode())
    assert agent["Label"] == LAUNCH_AGENT_LABEL
    assert agent["RunAtLoad"] is True
    assert agent["LimitLoadToSessionType"] == "Aqua"
    assert agent["ProgramArguments"][:2] == ["/bin/zsh", "-lc"]
    assert SHARES_IN_GUEST in agent["ProgramArguments"][2]
    assert len(launch_agent().splitlines()) == 10


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    """Under the login shell of every Mac."""
    shell = shutil.which("zsh")
    if shell is None:
        pytest.skip("NOT RUN: the guest's login shell is zsh, and it is not installed: apt-get install -y zsh")
    made = Guest(tmp_path, shell)
    yield made
    made.close()


def test_the_launch_agent_waits_for_the_share_and_runs_the_script(guest: Guest):
    guest.runner("exit 0")
    guest.put("job", JOB)
    late = guest.env.rename(guest.env.with_name("late"))
    command = plistlib.loads(launch_agent().encode())["ProgramArguments"]
    with subprocess.Popen([guest.shell, *command[1:]], env=guest.variables, start_new_session=True) as agent:
        with pytest.raises(subprocess.TimeoutExpired):
            agent.wait(timeout=0.3)
        late.rename(guest.env)
        assert agent.wait(timeout=8) == 0
    assert guest.ended == ("done", "0", 1)


def test_the_script_that_exec_starts_outlives_the_call_in_a_group_of_its_own(guest: Guest):
    # A program of its own says what it inherited, on Linux and on macOS alike.
    asked = "import signal as s; print(s.getsignal(s.SIGHUP) is s.SIG_IGN, s.getsignal(s.SIGINT) is s.SIG_IGN)"
    guest.runner(f'ps -o pgid= -p $$ >"$HOME/group"; "{sys.executable}" -c "{asked}" >"$HOME/ignored"')
    call = start_arguments("pdk-pool-1")
    assert call[:4] == ["exec", "pdk-pool-1", "/bin/zsh", "-lc"]
    with subprocess.Popen([guest.shell, *call[3:]], env=guest.variables, start_new_session=True) as started:
        assert started.wait(timeout=3) == 0, "the call returns while the script waits"
    wait_until(lambda: guest.said("state") == "ready", "the script runs on after the call")
    subprocess.run(
        ["pkill", "-KILL", "-g", str(started.pid)], check=False
    )  # as a guest agent that ends the call's group
    guest.put("job", JOB)
    wait_until(lambda: guest.ended == ("done", "0", 1), "the job runs")
    assert int((guest.home / "group").read_text()) != started.pid
    assert (guest.home / "ignored").read_text() == "True False\n", "HUP is ignored, INT is not"


def test_exec_may_be_repeated(guest: Guest):
    guest.runner('echo ran >>"$HOME/runs"')
    for _ in range(3):
        subprocess.run([guest.shell, *start_arguments("vm")[3:]], env=guest.variables, timeout=3, check=True)
    guest.put("job", JOB)
    wait_until(lambda: guest.ended == ("done", "0", 1), "the job runs")
    assert (guest.home / "runs").read_text() == "ran\n"


def test_nohup_is_not_used_because_it_would_take_the_job_out_of_the_aqua_session():
    assert "nohup" not in " ".join(start_arguments("vm")) + launch_agent() + guest_script()
