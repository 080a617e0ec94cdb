#!/usr/bin/env python3
"""Build the real Kubernetes control plane that `tests/kube` runs against.

Prints one line on standard output: the folder that holds `kube-apiserver`,
`kube-controller-manager`, `kube-scheduler`, `kubectl` and `etcd`. Progress and errors go to standard
error, and the exit status is 1 when the folder cannot be provided.

The folder is keyed by everything that decides what is built (both go.mod and go.sum
pairs, this script, the platform), lives in the user's cache and is shared by all
checkouts. It appears by one rename once all five binaries are complete, so a reader
never sees half a build; a lock lets a second builder wait for the first one instead
of doing the work twice. Folders of older versions are left for the user to delete.

With KUBEBUILDER_ASSETS set nothing is built: that folder is checked and printed.
It may lack `kube-controller-manager`, `kube-scheduler` and `kubectl`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
NEEDED_ASSETS = ("kube-apiserver", "etcd")
PROGRESS_EVERY_SECONDS = 15.0
LAST_LINES = 25


class BuildError(Exception):
    """The binaries cannot be provided; the message says what to install or set."""


@dataclass(frozen=True)
class Module:
    """One Go module beside this script and the commands that are built from it."""

    folder: Path
    pinned: str
    binaries: Mapping[str, str]

    def requirement(self, pattern: str) -> str:
        """The first group of `pattern` in go.mod, which is where versions are pinned."""
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise BuildError(f"{self.folder / 'go.mod'}: no line matches {pattern!r}; restore the file.")
        return found.group(1)

    @property
    def version(self) -> str:
        return self.requirement(rf"^(?:require\s+|\s+){re.escape(self.pinned)} (v\S+)")

    @property
    def go(self) -> str:
        return self.requirement(r"^go (\S+)")


ETCD = Module(HERE / "etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KUBERNETES = Module(
    HERE / "kubernetes",
    "k8s.io/kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
)
MODULES = (ETCD, KUBERNETES)
BINARIES = tuple(name for module in MODULES for name in module.binaries)


def say(text: str) -> None:
    print(f"hack/kube: {text}", file=sys.stderr, flush=True)


def is_complete(folder: Path, names: tuple[str, ...]) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in names)


def given_assets(folder: Path) -> Path:
    """The folder the user named, or an error that lists what it lacks."""
    missing = [name for name in NEEDED_ASSETS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise BuildError(
            f"{ASSETS_VARIABLE} is {folder}, which has no executable {' and no '.join(missing)}. "
            f"Point it at a folder that has {' and '.join(NEEDED_ASSETS)}, or unset it to build them with Go."
        )
    return folder.resolve()


def cache_root(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME", "")
    # The XDG rules tell readers to ignore a relative path.
    base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "paddock" / "kube"


def build_key() -> str:
    """Names the outcome of a build: equal keys mean interchangeable binaries."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    digest.update(Path(__file__).read_bytes())
    for module in MODULES:
        for name in ("go.mod", "go.sum"):
            digest.update((module.folder / name).read_bytes())
    return f"{KUBERNETES.version}-etcd-{ETCD.version}-{digest.hexdigest()[:12]}"


def linker_flags(module: Module) -> str:
    """Strip symbols; tell Kubernetes its version, which its own build reads from git."""
    flags = ["-s", "-w"]
    if module is KUBERNETES:
        major, minor = module.version.removeprefix("v").split(".")[:2]
        facts = {
            "gitVersion": module.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitCommit": "",
            "gitTreeState": "archive",
        }
        flags += [f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items()]
    return " ".join(flags)


def go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without what would build something else than we pinned."""
    kept = {key: value for key, value in environment.items() if key not in {"GOOS", "GOARCH", "GOFLAGS"}}
    return kept | {"CGO_ENABLED": "0", "GOWORK": "off"}


def go_command() -> str:
    """The path of a Go that can build both modules."""
    needed = max((module.go for module in MODULES), key=release)
    remedy = (
        f"Install Go {needed} or newer and put `go` on the PATH, or set {ASSETS_VARIABLE} to a folder "
        f"that already holds {' and '.join(NEEDED_ASSETS)}."
    )
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"Go is not installed. {remedy}")
    # Asked inside the module, a Go that may fetch its own toolchain answers with the
    # one it would really use, and one that may not says that it is too old.
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd=KUBERNETES.folder,
        env=go_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    version = answer.stdout.strip()
    if answer.returncode != 0:
        raise BuildError(f"Go at {go} does not work here: {answer.stderr.strip()}\n{remedy}")
    if release(version.removeprefix("go")) < release(needed):
        raise BuildError(f"Go at {go} is {version}, which is too old. {remedy}")
    return go


def release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def fetch(go: str, module: Module) -> int:
    """Download every source file the module's commands need; returns how many packages they are."""
    say(f"fetching the sources of {module.pinned} {module.version}")
    listed = subprocess.run(
        [go, "list", "-mod=readonly", "-deps", *module.binaries.values()],
        cwd=module.folder,
        env=go_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        raise BuildError(
            f"The Go modules of {module.pinned} {module.version} could not be fetched:\n"
            f"{last_lines(listed.stderr)}\n"
            "Check the network, or set GOPROXY to a module proxy this machine can reach; "
            f"or set {ASSETS_VARIABLE} to a folder that already holds {' and '.join(NEEDED_ASSETS)}."
        )
    return len(listed.stdout.split())


def compile_module(go: str, module: Module, packages: int, into: Path) -> None:
    """Build every command of the module into the folder `into`."""
    say(f"building {', '.join(module.binaries)} ({packages} packages)")
    flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-v", "-ldflags", linker_flags(module)]
    started = last_said = time.monotonic()
    lines: list[str] = []
    for name, package in module.binaries.items():
        command = [go, "build", *flags, "-o", str(into / name), package]
        with subprocess.Popen(
            command, cwd=module.folder, env=go_environment(os.environ), stderr=subprocess.PIPE, text=True
        ) as build:
            assert build.stderr is not None
            for line in build.stderr:
                lines.append(line)
                if time.monotonic() - last_said >= PROGRESS_EVERY_SECONDS:
                    last_said = time.monotonic()
                    say(f"  {name}: {len(lines)} packages compiled, {last_said - started:.0f} s")
        if build.returncode != 0:
            raise BuildError(
                f"Building {name} failed with status {build.returncode}:\n{last_lines(''.join(lines))}\n"
                "Is the disk full? A build needs about 5 GB for Go's caches."
            )
    say(f"built {', '.join(module.binaries)} in {time.monotonic() - started:.0f} s")


def last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LAST_LINES:])


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock; the system frees it when this process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another build holds {path}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def provide_binaries(environment: Mapping[str, str]) -> Path:
    """The folder with the binaries, built now when it is not there yet."""
    if assets := environment.get(ASSETS_VARIABLE):
        return given_assets(Path(assets))
    root = cache_root(environment)
    target = root / build_key()
    if is_complete(target, BINARIES):
        return target
    go = go_command()
    root.mkdir(parents=True, exist_ok=True)
    with lock(root / f"{target.name}.lock"):
        if is_complete(target, BINARIES):
            return target
        say(f"the first build takes 5 to 10 minutes on two cores; the result goes to {target}")
        # Beside the target, so that the rename stays on one file system.
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=root) as scratch:
            built = Path(scratch) / "binaries"
            built.mkdir()
            packages = {module.folder: fetch(go, module) for module in MODULES}
            for module in MODULES:
                compile_module(go, module, packages[module.folder], built)
            # A target that is there but incomplete was damaged by hand: under the lock
            # nobody is building it, so it may go.
            shutil.rmtree(target, ignore_errors=True)
            built.rename(target)
    return target


def main() -> int:
    try:
        print(provide_binaries(os.environ))
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
