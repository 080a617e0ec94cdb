"""No test sees the checkout's own `.paddock`, or the KUBECONFIG, home folder and credentials of the person who runs it; and
whatever a test starts ends with its run, also when nobody can tear anything down.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from watchdog import processes_of

from paddock.cli.connections import Reach, names_cluster

ROOT = Path(__file__).resolve().parents[2]
THEIRS = "203.0.113.1"

# What a test of the product would come across, if it were not isolated.
LOOKING = """
import os
from pathlib import Path

from paddock.cli.connections import Reach, names_cluster

def test_nothing_of_theirs_is_seen():
    assert not names_cluster(Reach())
    assert not Path(".paddock").exists()
    assert not (Path.home() / ".kube").exists()
    assert not [name for name, value in os.environ.items() if "203.0.113.1" in value]

def test_what_is_meant_for_tests_is_seen():
    assert os.environ["PADDOCK_SIM_SEED"] == "7"
    assert os.environ["XDG_CACHE_HOME"] == os.environ["GOPATH"].removesuffix("go") + ".cache"
"""


# What a test may start: sessions of their own, with the whole environment, a part of it or nothing; and copies of itself.
STARTING = """
import os, subprocess, tempfile, time

from watchdog import dies_with

def test_that_starts_much(tmp_path):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    subprocess.Popen(["sleep", "600"], start_new_session=True, env={"HOME": str(tmp_path)})
    subprocess.Popen(["sh", "-c", "sleep 600; :", tempfile.mkdtemp()], start_new_session=True, env={})
    original = os.getpid()
    copy = os.fork()
    if not copy:
        dies_with(original)
        time.sleep(600)
    print("started", tempfile.gettempdir(), f"{tmp_path.parent}/", copy, flush=True)
    time.sleep(600)
"""


def small_checkout(folder: Path, test: str) -> tuple[Path, Path]:
    """A checkout and its folder of tests, which has our conftest and this one module."""
    checkout, tests = folder / "checkout", folder / "checkout" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for name in ("conftest.py", "dealing.py", "isolation.py", "outcome.py", "watchdog.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    for name in ("doubles", "integration"):
        (tests / name).symlink_to(ROOT / "tests" / name)
    (tests / "test_looking.py").write_text(test, encoding="utf-8")
    return checkout, tests


def hostile(checkout: Path, home: Path) -> dict[str, str]:
    """A checkout in which `make run` was run, a home folder with a cluster, and an environment full of credentials."""
    for kubeconfig in (checkout / ".paddock" / "kubeconfig", home / ".kube" / "config"):
        kubeconfig.parent.mkdir(parents=True)
        kubeconfig.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name not in {"XDG_CACHE_HOME", "GOPATH"}}
    return kept | {
        "HOME": str(home),
        "PADDOCK_SIM_SEED": "7",
        "KUBECONFIG": f"/{THEIRS}",
        "KUBERNETES_SERVICE_HOST": THEIRS,
        "PADDOCK_SERVER": f"http://{THEIRS}",
        "PADDOCK_DSN": f"postgresql://{THEIRS}/theirs",
        "PADDOCK_GITHUB_APP_ID": THEIRS,
        "SCW_SECRET_KEY": THEIRS,
        "GITHUB_TOKEN": THEIRS,
        "PGHOST": THEIRS,
        "XDG_CONFIG_HOME": f"/{THEIRS}",
    }


PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_looking.py")


def looked(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        PYTEST, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_hostile_checkout_home_and_environment_stay_unseen(tmp_path: Path):
    checkout, tests = small_checkout(tmp_path, LOOKING)
    environment = hostile(checkout, tmp_path / "home")

    done = looked(checkout, environment)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout

    # The same tests without our fixture: they must see it all, or they prove nothing.
    (tests / "conftest.py").unlink()
    done = looked(checkout, environment)
    assert "2 failed" in done.stdout, done.stdout


def test_this_very_run_knows_no_cluster():
    assert not names_cluster(Reach())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of other processes")
def test_nothing_outlives_a_run_that_is_killed(tmp_path: Path):
    checkout, _ = small_checkout(tmp_path, STARTING)
    with subprocess.Popen((*PYTEST, "-s"), cwd=checkout, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        _, folder, home, copy = next(line for line in run.stdout if line.startswith("started")).split()
        seen, copied = processes_of([folder, home]), runs(int(copy))
        run.kill()
    assert len(seen) == 4, "three, and the child of the shell"
    assert copied
    deadline = time.monotonic() + 60
    while processes_of([folder, home]) or runs(int(copy)) or Path(folder).exists():
        assert time.monotonic() < deadline, processes_of([folder, home])
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
