"""The bundle for Linux is built by the same builder, unpacked elsewhere and run without anything of this checkout."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
from agent_bundle.build import ENTRY, LAUNCHER, Built, build
from agent_bundle.check import problems_of
from agent_bundle.interpreter import from_running

TREE = Path(__file__).resolve().parents[3]
UV = TREE / ".tools" / "bin" / "uv"
_THERE = importlib.util.find_spec(ENTRY) is not None
COMMAND = ENTRY if _THERE else "paddock.cli.poll"


pytestmark = pytest.mark.slow  # the build alone takes ten seconds of a core


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Built:
    return build(
        TREE,
        "linux-x86_64",
        tmp_path_factory.mktemp("bundle") / "bundle.tar.gz",
        from_running,
        uv=str(UV) if UV.exists() else shutil.which("uv") or "uv",
        entry=COMMAND,
        portable=False,
    )


@pytest.fixture(scope="module")
def unpacked(bundle: Built, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere") / "a folder with spaces"
    folder.mkdir()
    subprocess.run(["tar", "-xf", bundle.path, "-C", folder], check=True)
    return folder


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # Nothing of this environment: no PATH to the checkout's Python, no home.
    return subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False, timeout=60)


def test_it_passes_its_check(bundle: Built) -> None:
    assert problems_of(bundle.path, "linux-x86_64", foreign=(str(TREE), str(bundle.path.parent))) == []


def test_it_runs_where_it_was_unpacked(unpacked: Path) -> None:
    said = _run(unpacked / LAUNCHER, "--help")
    assert said.returncode == 0, said.stderr
    assert "Usage: paddock-node-agent" in said.stdout
    version = _run(unpacked / LAUNCHER, "--version")
    assert version.stdout.startswith("paddock-node-agent ")
    assert "linux-x86_64" in version.stdout


def test_it_runs_through_a_link(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "agent").symlink_to(unpacked / LAUNCHER)
    (tmp_path / "again").symlink_to("agent")
    assert _run(tmp_path / "again", "--version").returncode == 0


def test_every_module_in_it_comes_from_it_and_can_be_imported(unpacked: Path) -> None:
    """A module that needs a package outside of the group `agent` would fail on the Mac alone: here it fails first."""
    modules = sorted(
        path.relative_to(unpacked / "lib").with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for path in (unpacked / "lib" / "paddock").rglob("*.py")
    )
    assert COMMAND in modules
    code = (
        f"import sys; sys.path.insert(0, {str(unpacked / 'lib')!r})\n"
        f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
        "import ssl, ctypes, sqlite3\n"
        "print([m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)"
        f" and not m.__file__.startswith({str(unpacked)!r})])"
    )
    said = _run(unpacked / "python" / "bin" / "python3", "-I", "-c", code)
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "[]"


def test_it_writes_nothing_into_its_folder(unpacked: Path) -> None:
    before = sorted(unpacked.rglob("*"))
    assert _run(unpacked / LAUNCHER, "--help").returncode == 0
    assert sorted(unpacked.rglob("*")) == before
