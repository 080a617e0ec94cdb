"""Builds the bundle: interpreter, wheels of the lock file, our modules, a launcher and a manifest, in one tarball.

The same inputs give the same bytes: entries are sorted, times and owners are fixed, bytecode is bound to its source's hash
and not to its time, and nothing names a folder of the machine that built it.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_bundle.modules import needed_files

__all__ = ["ENTRY", "LAUNCHER", "TARGETS", "BuildError", "Built", "build"]

ENTRY = "paddock.cli.node_agent"
"""The module whose `command` the launcher runs."""
LAUNCHER = "bin/paddock-node-agent"
TARGETS = {"darwin-arm64": "aarch64-apple-darwin", "linux-x86_64": "x86_64-unknown-linux-gnu"}
_EPOCH = 315_532_800  # 1980: the oldest time that every archiver keeps

_LAUNCH = """#!/bin/sh
# Runs the agent with the interpreter beside it. The folder is resolved once, so that a bundle which replaces this one
# under the same name changes nothing for the process that runs.
self=$0
while [ -L "$self" ]; do
    link=$(readlink "$self")
    case $link in
        /*) self=$link ;;
        *) self=$(dirname "$self")/$link ;;
    esac
done
here=$(CDPATH='' cd -P "$(dirname "$self")/.." && pwd -P) || exit 1
exec "$here/python/bin/python3" -I -B "$here/lib" "$@"
"""
_MAIN = '''"""What the launcher runs."""

import json
import sys
from pathlib import Path

if sys.argv[1:] == ["--version"]:
    manifest = json.loads(Path(__file__).parent.parent.joinpath("manifest.json").read_text())
    print(f"paddock-node-agent {{manifest['version']}} (Python {{manifest['python']}}, {{manifest['target']}})")
    sys.exit(0)

from {entry} import command  # noqa: E402

command(prog_name="paddock-node-agent")
'''


class BuildError(Exception):
    """The bundle cannot be built; the text says why, and what to give."""


@dataclass(frozen=True, slots=True)
class Built:
    path: Path
    sha256: str
    size: int
    manifest: dict[str, object]


def build(
    tree: Path,
    target: str,
    out: Path,
    interpreter: Callable[[Path], str],
    *,
    uv: str = "uv",
    entry: str = ENTRY,
    wheels: Callable[[Path, str], None] | None = None,
    portable: bool = True,
) -> Built:
    """One bundle for `target` from the checkout `tree`, written to `out` by rename.

    `interpreter` fills a folder and says its version; `wheels` fills the folder `lib` (by default from the lock file).
    `portable` is False where the interpreter needs libraries of the machine that it was built on.
    """
    if target not in TARGETS:
        raise BuildError(f"unknown target {target!r}: known are {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory(prefix="paddock-bundle-") as scratch:
        staging = Path(scratch) / "bundle"
        staging.mkdir()
        version = interpreter(staging / "python")
        minor = ".".join(version.split(".")[:2])
        library = staging / "lib"
        library.mkdir()
        (wheels or (lambda folder, python: _locked_wheels(tree, uv, target, folder, python)))(library, minor)
        packages = _tidied(library)
        _our_modules(tree, library, entry)
        _write(staging / LAUNCHER, _LAUNCH, 0o755)
        _write(library / "__main__.py", _MAIN.format(entry=entry), 0o644)
        compiled = _compiled(staging, minor)
        manifest: dict[str, object] = {
            "format": 1,
            "name": "paddock-node-agent",
            "version": _our_version(tree),
            "target": target,
            "portable": portable,
            "python": version,
            "bytecode": compiled,
            "entry": entry,
            "packages": packages,
            "files": _digests(staging),
        }
        _write(staging / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True) + "\n", 0o644)
        return _packed(staging, out, manifest)


def _locked_wheels(tree: Path, uv: str, target: str, folder: Path, python: str) -> None:
    """The locked wheels of the group `agent` for another platform, each proven by the lock file's hash."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "requirements.txt"
        export = ["export", "--frozen", "--only-group", "agent", "--no-emit-project", "--format", "requirements.txt"]
        _run(uv, [*export, "--quiet", "--output-file", str(wanted)], tree)
        install = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        how = ["--link-mode", "copy", "--no-config", "--target", str(folder), "--python", sys.executable]
        platform = ["--python-platform", TARGETS[target], "--python-version", python]
        _run(uv, [*install, *how, *platform, "-r", str(wanted)], tree)


def _run(program: str, arguments: list[str], folder: Path) -> None:
    try:
        done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{program} was not found: `make bundle` installs uv, or name one with --uv") from None
    if done.returncode:
        raise BuildError(f"{program} {' '.join(arguments[:2])} failed: {done.stderr.strip()[-2000:]}")


def _tidied(library: Path) -> dict[str, str]:
    """No scripts with a foreign first line, no record of how they were installed; the packages and their versions."""
    shutil.rmtree(library / "bin", ignore_errors=True)
    (library / ".lock").unlink(missing_ok=True)
    packages = {}
    for info in sorted(library.glob("*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        packages[name] = version
        for file in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"):
            (info / file).unlink(missing_ok=True)
    return packages


def _our_modules(tree: Path, library: Path, entry: str) -> None:
    source = tree / "src"
    try:
        files = needed_files(source, entry)
    except FileNotFoundError as error:
        raise BuildError(str(error)) from None
    for file in files:
        place = library / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


def _our_version(tree: Path) -> str:
    text = (tree / "src" / "paddock" / "__init__.py").read_text(encoding="utf-8")
    return next(line.split('"')[1] for line in text.splitlines() if line.startswith("__version__"))


def _compiled(staging: Path, minor: str) -> bool:
    """Bytecode for the bundle's interpreter, if one of its version is here to write it; without, the agent starts slower."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    compiler = sys.executable if minor == running else shutil.which(f"python{minor}")
    if compiler is None:
        return False
    for cache in sorted(staging.rglob("__pycache__")):
        shutil.rmtree(cache)
    command = [compiler, "-m", "compileall", "-q", "-s", str(staging), "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(
        [*command, str(staging / "lib"), str(staging / "python" / "lib")],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and not any(staging.rglob("*.pyc")):
        if minor != running:
            return False  # a name on PATH that leads to no interpreter
        raise BuildError(f"compileall failed: {(done.stdout + done.stderr).strip()[-2000:]}")
    return True


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _entries(staging: Path) -> list[Path]:
    """Every file and link; the manifest first, so that it is read without unpacking the rest."""
    found = [path for path in staging.rglob("*") if path.is_symlink() or path.is_file()]
    names = sorted(path.relative_to(staging).as_posix() for path in found)
    return [staging / name for name in sorted(names, key=lambda name: (name != "manifest.json", name))]


def _digests(staging: Path) -> dict[str, str]:
    return {
        path.relative_to(staging).as_posix(): f"-> {path.readlink()}"
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in _entries(staging)
    }


def _packed(staging: Path, out: Path, manifest: dict[str, object]) -> Built:
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.draft")
    with (
        draft.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in _entries(staging):
            info = tar.gettarinfo(path, path.relative_to(staging).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = _EPOCH
            runs = path.is_symlink() or (info.mode & 0o100 and path.suffix != ".py")
            info.mode = 0o755 if runs else 0o644
            if info.isreg() or info.islnk():
                info.type = tarfile.REGTYPE  # two names of one file are two files
                info.size = path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    draft.rename(out)
    sha256 = hashlib.sha256(out.read_bytes()).hexdigest()
    return Built(out, sha256, out.stat().st_size, manifest)
