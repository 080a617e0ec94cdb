"""The shipped guest script in a VM of the stand-in, started as the agent starts it, with the shares as the agent makes them."""

import json
from pathlib import Path

import pytest
from integration.tart.conftest import IMAGE, TartHome, wait_until

from paddock.node.guest import LAUNCH_AGENT_LABEL, SCRIPT_NAME, guest_script, launch_agent, start_arguments

JOB = "ZXlKaElqb2lZaUo5Cg=="


def put(share: Path, name: str, content: str) -> None:
    part = share / f".{name}"
    part.write_text(content)
    part.rename(share / name)


def said(tart: TartHome, vm: str, name: str) -> str:
    path = tart.share(vm, "status") / name
    return path.read_text().strip() if path.exists() else ""


@pytest.fixture
def env(tart: TartHome) -> Path:
    share = tart.share("vm-1", "env")
    put(share, SCRIPT_NAME, guest_script())
    return share


def test_a_job_runs_in_the_vm_and_the_vm_halts_itself(tart: TartHome, env: Path):
    running = tart.up("vm-1")
    assert tart(*start_arguments("vm-1")).returncode == 0
    wait_until(lambda: said(tart, "vm-1", "state") == "ready", "the guest is ready")
    assert running.poll() is None
    put(env, "job", JOB)
    assert running.wait(timeout=60) == 0
    assert (said(tart, "vm-1", "state"), said(tart, "vm-1", "rc")) == ("done", "0")
    assert "Job completed" in said(tart, "vm-1", "log")
    assert tart.json("get", "vm-1")["State"] == "stopped"


def test_the_hook_takes_the_runners_place(tart: TartHome, env: Path, tmp_path: Path):
    hook = tmp_path / "hook"
    hook.write_text('#!/bin/sh\necho "hook got $ACTIONS_RUNNER_INPUT_JITCONFIG and $# words"\nexit 7\n')
    hook.chmod(0o755)
    tart.environment["PADDOCK_FAKE_RUNNER"] = str(hook)
    running = tart.up("vm-1")
    tart(*start_arguments("vm-1"))
    put(env, "job", JOB)
    assert running.wait(timeout=60) == 0, "whatever the guest says, tart says 0"
    assert said(tart, "vm-1", "rc") == "7"
    assert f"hook got {JOB} and 0 words" in said(tart, "vm-1", "log")


def test_an_image_without_guest_agent_starts_the_script_by_its_launch_agent(tart: TartHome, env: Path, tmp_path: Path):
    agents = tmp_path / "image" / "Users" / "admin" / "Library" / "LaunchAgents"
    agents.mkdir(parents=True)
    (agents / f"{LAUNCH_AGENT_LABEL}.plist").write_text(launch_agent())
    tart.world(images={IMAGE: {"disk": str(tmp_path / "image")}}, guest_agent=False)
    tart("clone", IMAGE, "vm-1")
    running = tart.run("vm-1")
    wait_until(lambda: said(tart, "vm-1", "state") == "ready", "the guest is ready")
    assert tart("exec", "vm-1", "true").returncode == 1, "nobody to answer"
    put(env, "job", JOB)
    assert running.wait(timeout=60) == 0
    assert said(tart, "vm-1", "rc") == "0"


def test_stop_halts_a_vm_that_waits(tart: TartHome, env: Path):
    running = tart.up("vm-1")
    tart(*start_arguments("vm-1"))
    wait_until(lambda: said(tart, "vm-1", "state") == "ready", "the guest is ready")
    put(env, "stop", "")
    assert running.wait(timeout=60) == 0
    assert said(tart, "vm-1", "rc") == "0"


def test_a_vm_that_is_run_again_after_its_job_takes_no_second_one(tart: TartHome, env: Path):
    for code in ("0", "1"):
        running = tart.up("vm-1")
        tart(*start_arguments("vm-1"))
        put(env, "job", JOB)
        assert running.wait(timeout=60) == 0
        assert said(tart, "vm-1", "rc") == code
    assert "no second one" in said(tart, "vm-1", "log")


def test_two_guests_on_one_machine_do_not_see_each_other(tart: TartHome, env: Path, tmp_path: Path):
    """A worker of one VM must not keep the mark of the other one moving."""
    hook = tmp_path / "hook"
    hook.write_text(
        "#!/bin/bash\nmkdir -p bin _diag; echo x >_diag/Runner_1.log; cp /bin/sleep bin/Runner.Worker\n"
        'case "$PADDOCK_SHARES" in */vm-2/*) "$PWD/bin/Runner.Worker" 60 ;; *) sleep 60 ;; esac\n'
    )
    hook.chmod(0o755)
    tart.environment["PADDOCK_FAKE_RUNNER"] = str(hook)
    put(tart.share("vm-2", "env"), SCRIPT_NAME, guest_script())
    for vm in ("vm-1", "vm-2"):
        tart.up(vm)
        tart(*start_arguments(vm))
        put(tart.share(vm, "env"), "job", JOB)
    wait_until(lambda: said(tart, "vm-2", "mark").endswith("running"), "the worker of vm-2 works")
    wait_until(lambda: said(tart, "vm-1", "mark").endswith("listening"), "vm-1 listens")
    assert json.loads((tart.home / "vms" / "vm-1" / "guest.json").read_text())["environment"]["USER"] == "admin"
