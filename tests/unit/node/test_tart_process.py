"""The real Tart client against a small program of the same manners: processes, locks, pipes and deadlines are real."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from watchdog import end_processes_of, processes_of

from paddock.node.machines import Liveness, Resources, Run, TartError, TartTimeoutError, VmMissingError, VmRunningError
from paddock.node.process_table import runs_vm
from paddock.node.pulling import grown
from paddock.node.tart_process import TartProcess

_TART = """#!/bin/sh
echo "$@" >>"$TART_HOME/calls"
case $1 in
  --version) sleep 6172 & sleep 6172 ;;
  list) cat "$TART_HOME/list.json" ;;
  run) echo "running $2"; trap 'exit 0' INT; while [ ! -e "$TART_HOME/halt" ]; do sleep 0.05; done; exit 5 ;;
  stop) [ -e "$TART_HOME/vms/$2" ] || { echo "VM \\"$2\\" is not running" >&2; exit 2; } ;;
  delete) [ ! -e "$TART_HOME/busy" ] || { echo "VM \\"$2\\" is running" >&2; exit 1; } ;;
  clone) echo "the specified VM \\"$2\\" does not exist" >&2; exit 2 ;;
  exec) exit 7 ;;
  pull) sleep 6173 & sleep 6173 ;;
esac
"""


_number = itertools.count()


@pytest.fixture
def vm() -> str:
    """The process table is the whole machine's: no other test, and no other run, has a VM of this name."""
    return f"pdk-test-{os.getpid()}-{next(_number)}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    program = tmp_path / "tart"
    program.write_text(_TART)
    program.chmod(0o755)
    (tmp_path / "vms").mkdir()
    yield tmp_path
    end_processes_of(str(tmp_path))


@pytest.fixture
def tart(home: Path) -> TartProcess:
    return TartProcess(home / "tart", home)


def run_in(home: Path, attempt: int = 1) -> Run:
    folder = home / "journal"
    for name in ("env", "status"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return Run(folder, attempt, folder / "env", folder / "status")


async def until(holds, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_run_outlives_whoever_started_it_and_its_end_is_recorded(
    home: Path, tart: TartProcess, vm: str
) -> None:
    run = run_in(home)
    await tart.run(vm, run)
    await until((run.folder / "wrapper").exists)
    pid = int((run.folder / "wrapper").read_text().split()[0])
    assert os.getsid(pid) != os.getsid(0), "it has no session of its own"
    assert await TartProcess(home / "tart", home).liveness(vm, run.folder) is Liveness.ALIVE
    (home / "halt").touch()
    await until((run.folder / "exit").exists)
    code, at = (run.folder / "exit").read_text().split()
    assert code == "5"
    assert abs(int(at) - time.time()) < 10
    await until(lambda: not psutil.pid_exists(pid))
    assert await tart.liveness(vm, run.folder) is Liveness.GONE
    shown = (home / "calls").read_text()
    assert f"--dir env:{run.env}:ro --dir status:{run.status}\n" in shown
    assert "--no-clipboard --no-audio" in shown, "what one guest copies another could paste"
    assert "--root-disk-opts caching=cached,sync=none" in shown


async def test_one_attempt_is_begun_once_however_often_it_is_asked_for(home: Path, tart: TartProcess, vm: str) -> None:
    run = run_in(home)
    for _ in range(3):
        await tart.run(vm, run)
    await until((run.folder / "wrapper").exists)
    await asyncio.sleep(0.2)
    assert (home / "calls").read_text().count(f"run {vm}") == 1
    (home / "halt").touch()
    await until((run.folder / "exit").exists)


async def test_a_killed_wrapper_leaves_a_vm_that_the_process_table_still_shows(
    home: Path, tart: TartProcess, vm: str
) -> None:
    run = run_in(home)
    await tart.run(vm, run)
    await until((run.folder / "wrapper").exists)
    pid = int((run.folder / "wrapper").read_text().split()[0])
    await until((home / "calls").exists)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not psutil.pid_exists(pid))
    assert await tart.liveness(vm, run.folder) is Liveness.ALIVE
    assert await tart.liveness(vm.rpartition("-")[0], run.folder) is Liveness.GONE
    (home / "halt").touch()
    deadline = time.monotonic() + 60
    while await tart.liveness(vm, run.folder) is not Liveness.GONE:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert not (run.folder / "exit").exists()


async def test_a_held_lock_alone_means_alive(home: Path, tart: TartProcess, vm: str) -> None:
    import subprocess
    import sys

    (home / "vms" / vm).mkdir()
    config = home / "vms" / vm / "config.json"
    config.write_text("{}")
    assert await tart.liveness(vm, home / "nowhere") is Liveness.GONE
    script = (
        "import fcntl,sys,time; f=open(sys.argv[1],'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True);"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(config)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert await tart.liveness(vm, home / "nowhere") is Liveness.ALIVE
        holder.kill()


async def test_a_deadline_closes_inherited_pipes(home: Path, tart: TartProcess, monkeypatch) -> None:
    monkeypatch.setattr("paddock.node.tart_process._QUERY", 0.3)
    began = time.monotonic()
    with pytest.raises(TartError, match="did not end within"):
        await tart.version()
    assert time.monotonic() - began < 60, "it did not wait for the child that holds the pipe"
    await until(lambda: not _sleeping(home))


def _sleeping(home: Path) -> bool:
    return any(command.startswith("sleep ") for command in processes_of([str(home)]).values())


async def test_a_pull_has_no_deadline_and_whoever_gives_it_up_kills_it(home: Path, tart: TartProcess) -> None:
    pull = asyncio.create_task(tart.pull("image"))
    await until(lambda: _sleeping(home))
    assert not pull.done()
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    await until(lambda: not _sleeping(home))


async def test_a_download_is_as_large_as_the_blocks_that_are_there(home: Path, tart: TartProcess) -> None:
    assert await tart.downloads() == {}
    part = home / "tmp" / "0cc175b9c0f1b6a831c399e269772661"
    part.mkdir(parents=True)
    with (part / "disk.img").open("wb") as disk:
        disk.truncate(50 * 10**9)
        before = await tart.downloads()
        disk.write(b"x" * (1 << 20))
        disk.flush()
        os.fsync(disk.fileno())
        now = await tart.downloads()
    assert {each.size for each in now.values()} == {50 * 10**9}
    assert grown(before, now)
    assert sum(each.here for each in now.values()) < 10**8, "its holes have not arrived"


async def test_errors_have_types_and_missing_vms_are_success_where_that_is_the_aim(
    home, tart: TartProcess, vm: str
) -> None:
    with pytest.raises(VmMissingError):
        await tart.clone("golden", vm)
    await tart.stop(vm)
    (home / "busy").touch()
    with pytest.raises(VmRunningError):
        await tart.delete(vm)
    assert await tart.execute(vm, ("true",)) == 7
    with pytest.raises(TartError, match="cannot be run"):
        await TartProcess(home / "no-tart", home).version()
    assert not issubclass(TartTimeoutError, VmMissingError)


async def test_lists_of_every_version_are_understood(home: Path, tart: TartProcess) -> None:
    (home / "list.json").write_text(
        '[{"Source":"local","Name":"a","Size":"72.660","Running":true},'
        '{"Source":"OCI","Name":"b","Size":20,"State":"stopped"},{"Source":"local","Name":"c","Size":null,"State":"running"}]'
    )
    assert [(vm.name, vm.source, vm.running) for vm in await tart.machines()] == [
        ("a", "local", True),
        ("b", "OCI", False),
        ("c", "local", True),
    ]
    (home / "list.json").write_text("no JSON")
    with pytest.raises(TartError):
        await tart.machines()


async def test_resources_and_a_new_identity_are_given(home: Path, tart: TartProcess, vm: str) -> None:
    await tart.configure(vm, Resources(4, 6144))
    assert (home / "calls").read_text() == f"set {vm} --random-mac --random-serial --cpu 4 --memory 6144\n"


def test_the_process_table_is_read_by_whole_names() -> None:
    table = "/x/tart run vm-12 --no-graphics\n/bin/zsh -c grep tart run vm-1\n"
    assert runs_vm(table, "vm-12")
    assert runs_vm(table, "vm-1")
    assert not runs_vm("/x/tart run vm-12 --no-graphics", "vm-1")
    assert not runs_vm("vim run vm-1", "vm-1")


async def test_vms_run_behind_softnet_where_its_program_is_named(home: Path, vm: str) -> None:
    run = run_in(home)
    behind = TartProcess(home / "tart", home, softnet=Path("/opt/softnet/bin/softnet"))
    await behind.run(vm, run)
    await until(lambda: (home / "calls").exists() and f"run {vm}" in (home / "calls").read_text())
    assert "--net-softnet" in (home / "calls").read_text()
    assert behind._env["PATH"].startswith("/opt/softnet/bin:")
    (home / "halt").touch()
    await until((run.folder / "exit").exists)
    assert TartProcess(home / "tart", home)._options == TartProcess(home / "tart", home, softnet=None)._options
