#!/usr/bin/env python3
"""Build the promtool that runs the unit tests of the alerts.

Prints one line on standard output: the path of `promtool`. It is built by the machinery that builds the test control
plane (../kube/build.py), with the same promises: pinned by go.mod and go.sum, kept in the user's cache under a key of
everything that decides what is built, complete or not there at all.

With PROMTOOL set nothing is built: that program is checked and printed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "kube"))

import build as machinery  # noqa: E402 - found only after the line above

VARIABLE = "PROMTOOL"
PROMTOOL = machinery.Module(
    HERE, "github.com/prometheus/prometheus", {"promtool": "github.com/prometheus/prometheus/cmd/promtool"}
)


def build_key() -> str:
    """Names the outcome of a build: equal keys mean interchangeable programs."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    return f"{PROMTOOL.version}-{digest.hexdigest()[:12]}"


def provide(environment: Mapping[str, str]) -> Path:
    """The path of promtool, built now when it is not there yet."""
    if given := environment.get(VARIABLE):
        if not os.access(given, os.X_OK):
            raise machinery.BuildError(f"{VARIABLE} is {given}, which cannot be executed.")
        return Path(given).resolve()
    root = machinery.cache_root(environment).parent / "promtool"
    target = root / build_key()
    if machinery.is_complete(target, ("promtool",)):
        return target / "promtool"
    go = machinery.go_command()
    root.mkdir(parents=True, exist_ok=True)
    with machinery.lock(root / f"{target.name}.lock"):
        if not machinery.is_complete(target, ("promtool",)):
            machinery.say(f"the first build of promtool takes some minutes; the result goes to {target}")
            # Beside the target, so that the rename stays on one file system.
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=root) as scratch:
                built = Path(scratch) / "binaries"
                built.mkdir()
                machinery.compile_module(go, PROMTOOL, machinery.fetch(go, PROMTOOL), built)
                shutil.rmtree(target, ignore_errors=True)
                built.rename(target)
    return target / "promtool"


def main() -> int:
    try:
        print(provide(os.environ))
    except machinery.BuildError as error:
        machinery.say(f"{error}\nFor promtool alone: set {VARIABLE} to one that is installed.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
