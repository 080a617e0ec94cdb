"""The shipped guest script, run for real. Whatever happens, the guest reports a code and halts, once."""

import re
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from unit.node.guest.guests import JOB, Guest, wait_until


def test_a_job_runs_and_the_guest_reports_and_halts(guest: Guest):
    guest.runner("exit 0")
    script = guest.start()
    wait_until(lambda: guest.said("state") == "ready", "the guest says that it is ready")
    assert guest.stage() == "waiting"
    guest.put("job", f"{JOB}\n")
    assert script.wait(timeout=60) == 0
    assert guest.ended == ("done", "0", 1)
    assert guest.stage() == "finishing"
    assert re.fullmatch(r"\d{10} finishing", guest.said("mark"))


def test_the_config_is_in_the_runners_environment_and_nowhere_else(guest: Guest):
    guest.runner("exit 0")
    guest.put("job", f"{JOB}\n")
    guest.run()
    assert (guest.home / "config-in-environment").read_text() == JOB
    assert "called with: \n" in guest.said("log"), "the config is no argument, and `run` has no option that we need"
    assert "trap=1 deprecated=1" in guest.said("log")
    written = [path for path in [*guest.status.rglob("*"), *guest.home.glob(".paddock-guest-*/*")] if path.is_file()]
    assert written
    assert not [path for path in written if JOB in path.read_text(errors="replace")]


def test_the_host_may_take_the_config_back_as_soon_as_the_guest_says_job(guest: Guest):
    """The host removes it from the share when it sees that word, which may be before the guest's next breath."""
    guest.runner("exit 0")
    taken = f'[ "$(cat "{guest.status}/state" 2>/dev/null)" != job ] || rm -f "{guest.env}/job"'
    guest.program("mv", f'/bin/mv "$@"; code=$?\n{taken}\nexit $code')
    guest.put("job", f"{JOB}\n")
    assert guest.run() == 0
    assert (guest.home / "config-in-environment").read_text() == JOB
    assert not (guest.env / "job").exists()


@pytest.mark.parametrize("code", [1, 5, 7])
def test_the_runners_own_code_is_reported(guest: Guest, code: int):
    guest.runner(f"exit {code}")
    guest.put("job", JOB)
    assert guest.run() == code
    assert guest.ended == ("done", str(code), 1)


def test_a_guest_that_is_stopped_before_its_job_reports_success(guest: Guest):
    guest.runner("exit 9")
    script = guest.start()
    wait_until(lambda: guest.said("state") == "ready", "the guest says that it is ready")
    guest.put("stop", "")
    assert script.wait(timeout=60) == 0
    assert guest.ended == ("done", "0", 1)
    assert not (guest.home / "config-in-environment").exists()


def test_stop_goes_before_a_job_that_came_with_it(guest: Guest):
    guest.runner("exit 9")
    guest.put("job", JOB)
    guest.put("stop", "")
    assert guest.run() == 0
    assert guest.ended == ("done", "0", 1)
    assert not (guest.home / "config-in-environment").exists()


def test_a_runner_that_is_stopped_in_mid_job_is_asked_to_end(guest: Guest):
    guest.runner("trap 'echo told-github; exit 0' TERM\ntouch \"$HOME/up\"\nwhile :; do sleep 0.1; done")
    guest.put("job", JOB)
    script = guest.start()
    wait_until((guest.home / "up").exists, "the runner runs")
    guest.put("stop", "")
    assert script.wait(timeout=60) == 143
    assert guest.ended == ("done", "143", 1)
    assert "told-github" in guest.said("log")


def test_a_runner_that_does_not_listen_is_ended_after_the_grace(guest: Guest):
    guest.runner("trap '' TERM INT\ntouch \"$HOME/up\"\nwhile :; do sleep 0.1; done")
    guest.put("job", JOB)
    script = guest.start()
    wait_until((guest.home / "up").exists, "the runner runs")
    asked = time.monotonic()
    guest.put("stop", "")
    assert script.wait(timeout=6) == 143
    assert time.monotonic() - asked >= 1, "it had its grace"
    assert guest.ended == ("done", "143", 1)


def test_run_sh_can_interrupt_its_listener(guest: Guest):
    """As GitHub's run.sh does: TERM arrives, SIGINT goes to the listener's group. An ignored SIGINT would be inherited."""
    guest.runner(
        "set -m\ntrap 'kill -INT -$PID' TERM\n"
        'bash -c \'trap "echo interrupted; exit 0" INT; touch "$HOME/up"; while :; do sleep 0.1; done\' &\n'
        "PID=$!\nwait $PID\nwait $PID"
    )
    guest.put("job", JOB)
    script = guest.start()
    wait_until((guest.home / "up").exists, "the runner runs")
    guest.put("stop", "")
    assert script.wait(timeout=60) == 143
    assert "interrupted" in guest.said("log")


def test_the_mark_follows_the_listener_and_the_worker(guest: Guest):
    guest.runner(
        'wait_for() { until [ -e "$HOME/$1" ]; do sleep 0.05; done; }\n'
        "wait_for listen; touch _diag/Runner_1.log\n"
        "wait_for work; bin/Runner.Worker 60 & wait_for end; kill $!; wait_for exit"
    )
    # GitHub's worker is started by its full path.
    run = guest.home / "actions-runner" / "run.sh"
    run.write_text(run.read_text().replace("bin/Runner.Worker 60", '"$(pwd -P)"/bin/Runner.Worker 60'))
    guest.put("job", JOB)
    script = guest.start()
    for tell, stage in [("", "starting"), ("listen", "listening"), ("work", "running"), ("end", "finishing")]:
        if tell:
            (guest.home / tell).touch()
        wait_until(lambda stage=stage: guest.stage() == stage, f"the mark says {stage}")
        assert guest.said("state") == "job"
    (guest.home / "exit").touch()
    assert script.wait(timeout=60) == 0


def test_the_mark_of_a_hung_listener_stands_still(guest: Guest):
    guest.runner('while [ ! -e "$HOME/hang" ]; do echo line >>_diag/Runner_1.log; sleep 0.1; done\nexec sleep 60')
    guest.put("job", JOB)
    guest.start()
    marks = guest.status / "mark"
    wait_until(lambda: guest.stage() == "listening", "the listener listens")
    moving = {marks.stat().st_ino}
    wait_until(lambda: moving.add(marks.stat().st_ino) or len(moving) > 3, "the mark moves while the log grows")
    (guest.home / "hang").touch()
    time.sleep(0.6)
    hung = marks.stat()
    time.sleep(0.8)
    assert marks.stat() == hung, "eight looks at a silent listener moved nothing"
    assert guest.said("state") == "job"


def test_a_listener_to_which_no_worker_comes_is_ended_however_much_it_logs(guest: Guest):
    guest.variables["PADDOCK_TURNS"] = "10"
    guest.runner("while :; do echo retrying >>_diag/Runner_1.log; sleep 0.1; done")
    guest.put("job", JOB)
    script = guest.start()
    assert script.wait(timeout=60) == 1
    assert (guest.said("rc"), guest.said("state")) == ("1", "done")


def test_a_runner_whose_worker_came_is_never_ended_for_want_of_one(guest: Guest):
    guest.variables["PADDOCK_TURNS"] = "10"
    guest.runner('exec -a "$(pwd -P)/bin/Runner.Worker" bin/Runner.Worker 4')
    guest.put("job", JOB)
    assert guest.start().wait(timeout=60) == 0


def test_the_mark_of_a_silent_job_moves_as_long_as_its_worker_lives(guest: Guest):
    guest.runner('exec -a "$(pwd -P)/bin/Runner.Worker" bin/Runner.Worker 60')
    guest.put("job", JOB)
    guest.start()
    wait_until(lambda: guest.stage() == "running", "the worker works")
    before = (guest.status / "mark").stat().st_mtime_ns
    wait_until(lambda: (guest.status / "mark").stat().st_mtime_ns > before, "the mark moves")


def test_the_log_grows_while_the_job_runs_and_is_whole_at_the_end(guest: Guest):
    guest.runner(
        'echo first; until [ -e "$HOME/go" ]; do sleep 0.05; done; for n in $(seq 2000); do echo "line $n"; done; echo last >&2'
    )
    guest.put("job", JOB)
    script = guest.start()
    wait_until(lambda: "first" in guest.said("log"), "the first line arrives before the end")
    (guest.home / "go").touch()
    assert script.wait(timeout=60) == 0
    lines = guest.said("log").splitlines()
    assert lines[-2001:] == [*(f"line {n}" for n in range(1, 2001)), "last"]


def test_a_log_that_is_too_long_is_cut_on_the_share(guest: Guest):
    guest.runner(
        "head -c 9000000 /dev/zero | tr '\\0' x; echo; until [ -e \"$HOME/go\" ]; do sleep 0.05; done; echo more"
    )
    guest.put("job", JOB)
    script = guest.start()
    wait_until(
        lambda: (guest.status / "log").exists() and (guest.status / "log").stat().st_size > 8 << 20, "a long log"
    )
    wait_until(lambda: not (guest.home / "go").touch() and script.poll() is not None, "the end")
    assert "more" not in guest.said("log")[-100:]
    assert guest.ended == ("done", "0", 1)


def test_a_guest_without_a_runner_never_asks_for_a_job(guest: Guest):
    states = watch_states(guest)
    assert guest.run() == 1
    assert guest.ended == ("done", "1", 1)
    assert "ready" not in states()
    assert "there is no runner" in guest.said("log")


def test_a_runner_that_cannot_be_executed_is_no_runner(guest: Guest):
    (guest.runner("exit 0") / "run.sh").chmod(0o644)
    assert guest.run() == 1
    assert "no run.sh" in guest.said("log")


@pytest.mark.parametrize("garbage", ["", "\n", "not base64!", "two\nlines", "$(touch pwned)", "a b"])
def test_a_job_file_that_is_not_one_line_of_base64_starts_no_runner(guest: Guest, garbage: str):
    root = guest.runner("exit 0")
    guest.put("job", garbage)
    assert guest.run() == 1
    assert guest.ended == ("done", "1", 1)
    assert not (guest.home / "config-in-environment").exists()
    assert not (root / "pwned").exists()
    assert "job file" in guest.said("log")
    assert not garbage.strip() or garbage.strip() not in guest.said("log"), "what is meant to be a secret is not shown"


def test_the_hosts_archive_goes_before_the_runner_of_the_image(guest: Guest, tmp_path: Path):
    guest.runner("echo the images own")
    archive(tmp_path / "packed", guest.env / "runner.tar.gz", "echo from the archive, in $PWD")
    guest.put("job", JOB)
    assert guest.run() == 0
    assert f"from the archive, in {guest.home.resolve()}/paddock-runner" in guest.said("log")
    assert "the images own" not in guest.said("log")


def test_an_archive_that_cannot_be_unpacked_never_takes_a_job(guest: Guest):
    guest.runner("exit 0")
    guest.put("runner.tar.gz", "not an archive")
    states = watch_states(guest)
    assert guest.run() == 1
    assert guest.ended == ("done", "1", 1)
    assert "ready" not in states()
    assert "archive cannot be unpacked" in guest.said("log")


def test_a_second_copy_ends_without_a_trace(guest: Guest):
    guest.runner("exit 0")
    first = guest.start()
    wait_until(lambda: guest.said("state") == "ready", "the first copy is ready")
    assert guest.run() == 0
    assert guest.said("state") == "ready"
    assert guest.ended == ("ready", "", 0), "neither reported nor halted"
    guest.put("job", JOB)
    assert first.wait(timeout=5) == 0
    assert guest.ended == ("done", "0", 1)


def test_of_copies_that_start_together_one_runs(guest: Guest):
    guest.runner('echo ran >>"$HOME/runs"')
    guest.put("job", JOB)
    copies = [guest.start() for _ in range(4)]
    assert [copy.wait(timeout=10) for copy in copies] == [0, 0, 0, 0]
    assert (guest.home / "runs").read_text() == "ran\n"
    assert guest.ended == ("done", "0", 1)


@pytest.mark.parametrize("had", ["job", "done"])
def test_a_vm_that_was_rebooted_after_it_had_its_job_takes_no_second_one(guest: Guest, had: str):
    guest.runner('touch "$HOME/ran"')
    guest.put("job", JOB)
    (guest.status / "state").write_text(f"{had}\n")
    assert guest.run() == 1
    assert guest.ended == ("done", "1", 1)
    assert not (guest.home / "ran").exists()


def test_a_vm_that_was_rebooted_while_it_waited_waits_again(guest: Guest):
    guest.runner("exit 0")
    (guest.status / "state").write_text("ready\n")
    guest.put("job", JOB)
    assert guest.run() == 0


def test_a_guest_that_cannot_report_halts_at_once(guest: Guest):
    guest.runner('touch "$HOME/ran"')
    guest.status.rmdir()
    guest.status.touch()  # not even root can write into what is no folder
    guest.put("job", JOB)
    assert guest.run() == 1
    assert guest.ended[2] == 1
    assert not (guest.home / "ran").exists(), "a guest that never said ready was given no job"


def test_a_share_that_breaks_in_mid_job_costs_the_report_and_not_the_job(guest: Guest):
    guest.runner(
        f"mv '{guest.status}' '{guest.status}.away'; touch '{guest.status}'; echo on; touch \"$HOME/finished\""
    )
    guest.put("job", JOB)
    assert guest.run() == 0
    assert (guest.home / "finished").exists()
    assert guest.ended[2] == 1


def test_a_guest_whose_home_cannot_be_written_halts_and_says_so(guest: Guest):
    guest.variables["HOME"] = "/proc/nothing"
    assert guest.run() == 1
    assert guest.ended == ("done", "1", 1)


def test_the_env_file_reaches_the_job(guest: Guest):
    guest.runner('echo "team is $TEAM, quoted $QUOTED"')
    guest.put("env", "TEAM='ios builds'\nQUOTED='it'\\''s'\n")
    guest.put("job", JOB)
    assert guest.run() == 0
    assert "team is ios builds, quoted it's" in guest.said("log")


@pytest.mark.parametrize("broken", ["A='never closed\n", "if then\n", "exit 3\n", "false\n", "X=$UNSET_VARIABLE\n"])
def test_an_env_file_that_is_no_shell_never_takes_a_job(guest: Guest, broken: str):
    guest.runner("exit 0")
    guest.put("env", broken)
    guest.put("job", JOB)
    assert guest.run() != 0
    state, code, halts = guest.ended
    assert (state, halts) == ("done", 1)
    assert code not in {"", "0"}
    assert not (guest.home / "config-in-environment").exists()


@pytest.mark.parametrize("signal", ["TERM", "INT", "HUP"])
def test_a_guest_that_is_killed_while_it_waits_reports_and_halts(guest: Guest, signal: str):
    guest.runner("exit 0")
    script = guest.start()
    wait_until(lambda: guest.said("state") == "ready", "the guest says that it is ready")
    subprocess.run(["kill", f"-{signal}", str(script.pid)], check=True)
    assert script.wait(timeout=60) == 143
    assert guest.ended == ("done", "143", 1)


def test_the_clock_is_set_before_the_guest_is_ready(guest: Guest):
    guest.runner("exit 0")
    guest.program("sudo", 'sleep 0.3; echo "$* in $(cat "$PADDOCK_SHARES/status/state")" >>"$HOME/sudo-calls"')
    guest.put("job", JOB)
    assert guest.run() == 0
    assert (guest.home / "sudo-calls").read_text() == "-n sntp -sS time.apple.com in booted\n", "once, and in time"


def test_a_clock_that_cannot_be_set_costs_nothing_but_a_second_try(guest: Guest):
    guest.runner("exit 0")
    guest.program("sudo", 'echo tried >>"$HOME/sudo-calls"; exit 1')
    guest.put("job", JOB)
    began = time.monotonic()
    assert guest.run() == 0
    assert time.monotonic() - began < 9, "it did not wait out both tries"
    wait_until(lambda: (guest.home / "sudo-calls").read_text() == "tried\ntried\n", "the second try")


def test_by_itself_the_guest_halts_by_sudo(guest: Guest):
    guest.runner("exit 0")
    del guest.variables["PADDOCK_HALT"]
    guest.put("stop", "")
    assert guest.run() == 0
    assert (guest.home / "sudo-calls").read_text().splitlines()[-1] == "-n shutdown -h now"


def test_nothing_is_removed_that_is_not_the_guests_own(guest: Guest):
    root = guest.runner("exit 0")
    (root / "_diag").mkdir()
    kept = [root / "_diag" / "Worker_old.log", guest.status / "foreign", guest.home / "file", guest.env / "job"]
    for path in kept:
        path.write_text(JOB)
    assert guest.run() == 0
    assert [path for path in kept if not path.exists()] == []


def watch_states(guest: Guest):
    """Every state that the script writes, by a `mv` that takes notes: a state may be gone before a test could look."""
    notes = guest.home / "states"
    guest.program("mv", f'case "$3" in */state) cat "$2" >>"{notes}" ;; esac\nexec /bin/mv "$@"')
    return lambda: notes.read_text().split()


def archive(folder: Path, target: Path, body: str) -> None:
    folder.mkdir()
    (folder / "run.sh").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "run.sh").chmod(0o755)
    with tarfile.open(target, "w:gz") as packed:
        packed.add(folder / "run.sh", "run.sh")
