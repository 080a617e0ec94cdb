"""No test sees the checkout's own `.paddock`, or the KUBECONFIG, home folder and credentials of the person who runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def looked(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_looking.py"]
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_hostile_checkout_home_and_environment_stay_unseen(tmp_path: Path):
    checkout, tests = tmp_path / "checkout", tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", checkout)
    for name in ("conftest.py", "isolation.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    for name in ("doubles", "integration"):
        (tests / name).symlink_to(ROOT / "tests" / name)
    (tests / "test_looking.py").write_text(LOOKING, encoding="utf-8")
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
