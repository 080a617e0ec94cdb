#!/usr/bin/env python3
"""Fetch axe-core, the accessibility checker that `tests/browser` puts into every kind of page.

Prints one line on standard output: its script. npm installs it, from whatever registry it is set up for, at the version and with
the integrity of package-lock.json beside this file, and runs no script of it. The folder is keyed by that file, lives in the
user's cache and is shared by all checkouts; it appears by one rename, so a reader never sees half of it.

With PADDOCK_AXE set nothing is fetched: that script is checked and printed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
GIVEN = "PADDOCK_AXE"
MANIFESTS = ("package.json", "package-lock.json")
SCRIPT = Path("node_modules", "axe-core", "axe.min.js")


class FetchError(Exception):
    """The checker cannot be provided; the message says what to install or set."""


def cache_root(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME", "")
    # The XDG rules tell readers to ignore a relative path.
    base = Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "paddock" / "axe"


def key() -> str:
    digest = hashlib.sha256()
    for name in MANIFESTS:
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def provide(environment: Mapping[str, str]) -> Path:
    """The checker's script, fetched now when it is not there yet."""
    if given := environment.get(GIVEN):
        if not Path(given).is_file():
            raise FetchError(f"{GIVEN} is {given}, which is no file: point it at axe.min.js, or unset it")
        return Path(given).resolve()
    root = cache_root(environment)
    target = root / key()
    if (target / SCRIPT).is_file():
        return target / SCRIPT
    npm = shutil.which("npm", path=environment.get("PATH"))
    if npm is None:
        raise FetchError(f"npm is not installed: install Node.js, or point {GIVEN} at an axe.min.js")
    root.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the rename stays on one file system. Two that fetch at once fetch the same.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=root) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        for name in MANIFESTS:
            shutil.copy(HERE / name, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not (made / SCRIPT).is_file():
            raise FetchError(f"npm could not install axe-core:\n{done.stderr.strip()[-2000:]}")
        try:
            made.rename(target)
        except OSError:
            if not (target / SCRIPT).is_file():
                raise
    return target / SCRIPT


def main() -> int:
    try:
        print(provide(os.environ))
    except FetchError as error:
        print(f"hack/axe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
