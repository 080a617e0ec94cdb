#!/usr/bin/env python3
"""Build the real Cluster API that `tests/kube` runs the host provider under.

Prints one line on standard output: a folder that holds `cluster-api-core` (the manager of Cluster API's core),
`clusterctl`, and `config` (the definitions, rights and webhooks of that very release, out of its own sources). It is built
by the machinery that builds the test control plane (../kube/build.py), with the same promises: pinned by go.mod and
go.sum, kept in the user's cache under a key of everything that decides what is built, complete or not there at all.

With CLUSTER_API_ASSETS set nothing is built: that folder is checked and printed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kube"))

import build as machinery  # noqa: E402 - found only after the line above

VARIABLE = "CLUSTER_API_ASSETS"
CLUSTER_API = machinery.Module(
    HERE,
    "sigs.k8s.io/cluster-api",
    {"cluster-api-core": "sigs.k8s.io/cluster-api", "clusterctl": "sigs.k8s.io/cluster-api/cmd/clusterctl"},
)
PROGRAMS = tuple(CLUSTER_API.binaries)
# The definitions of clusterctl's own inventory are kept apart from those of core.
TAKEN = {
    "crd": "config/crd/bases",
    "rbac": "config/rbac",
    "webhook": "config/webhook",
    "clusterctl": "cmd/clusterctl/config/crd/bases",
}


def build_key() -> str:
    """Names the outcome of a build: equal keys mean interchangeable folders."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum", Path(__file__).name):
        digest.update((HERE / name).read_bytes())
    return f"{CLUSTER_API.version}-{digest.hexdigest()[:12]}"


def is_complete(folder: Path) -> bool:
    return machinery.is_complete(folder, PROGRAMS) and all((folder / "config" / name).is_dir() for name in TAKEN)


def provide(environment: Mapping[str, str]) -> Path:
    """The folder, built now when it is not there yet."""
    if given := environment.get(VARIABLE):
        if not is_complete(Path(given)):
            raise machinery.BuildError(f"{VARIABLE} is {given}, which lacks {', '.join(PROGRAMS)} or its config.")
        return Path(given).resolve()
    root = machinery.cache_root(environment).parent / "clusterapi"
    target = root / build_key()
    if is_complete(target):
        return target
    go = machinery.go_command()
    root.mkdir(parents=True, exist_ok=True)
    with machinery.lock(root / f"{target.name}.lock"):
        if not is_complete(target):
            machinery.say(f"the first build of Cluster API takes some minutes; the result goes to {target}")
            # Beside the target, so that the rename stays on one file system.
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=root) as scratch:
                built = Path(scratch) / "assets"
                built.mkdir()
                machinery.compile_module(go, CLUSTER_API, machinery.fetch(go, CLUSTER_API), built)
                take_config(sources(go), built / "config")
                shutil.rmtree(target, ignore_errors=True)
                built.rename(target)
    return target


def sources(go: str) -> Path:
    """Where Go keeps the sources that were just built."""
    asked = subprocess.run(
        [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", CLUSTER_API.pinned],
        cwd=HERE,
        env=machinery.go_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise machinery.BuildError(f"The sources of {CLUSTER_API.pinned} were not found:\n{asked.stderr.strip()}")
    return Path(asked.stdout.strip())


def take_config(module: Path, into: Path) -> None:
    """Copy the release's own manifests. Go keeps its sources unwritable; the copies are ordinary files."""
    for name, folder in TAKEN.items():
        (into / name).mkdir(parents=True)
        for manifest in sorted((module / folder).glob("*.yaml")):
            (into / name / manifest.name).write_bytes(manifest.read_bytes())


def main() -> int:
    try:
        print(provide(os.environ))
    except machinery.BuildError as error:
        machinery.say(f"{error}\nFor Cluster API alone: set {VARIABLE} to a folder that this script made elsewhere.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
