"""What a test may see of the machine: a folder and a home of its own, and nothing that belongs to the person who runs it.

Somebody runs `make run` in this checkout, points KUBECONFIG at a cluster that works and has credentials of a cloud in the
environment. A test that found any of these would fail for that person alone, or would act on what is theirs.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

# What the product reads, and what libpq and kubectl read for it.
_OURS: Final = ("PADDOCK_", "KUBE", "SCW_", "GITHUB_", "GH_", "PG", "XDG_", "_PADDOCK_")
_KEPT: Final = frozenset(
    {
        "PADDOCK_ALL_KUBECTLS",
        "PADDOCK_CHROMIUM",
        "PADDOCK_EVERY_STATE",
        "PADDOCK_SIM_AT_MOST",
        "PADDOCK_SIM_SEED",
        "PADDOCK_SIM_SEEDS",
        "PADDOCK_WRITE_INCIDENTS",
        "PADDOCK_WRITE_OPERATIONS",
        "PADDOCK_WRITE_RECORDING",
        # Where programs for tests were built once; no kubeconfig and no secret is there.
        "KUBEBUILDER_ASSETS",
        "XDG_CACHE_HOME",
    }
)
# Go and kubectl's builds derive these from the home folder; a new home would build everything again.
_CACHES: Final = {"XDG_CACHE_HOME": ".cache", "GOPATH": "go"}


def personal(names: Iterable[str]) -> list[str]:
    """Those of the variables that a test must not see."""
    return [name for name in names if name.startswith(_OURS) and name not in _KEPT]


def isolate(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Move this process, and whatever it starts, into an empty folder with an empty home."""
    before = _home(os.environ)
    home, here = folder / "home", folder / "here"
    for each in (home, here):
        each.mkdir()
    for name in personal(list(os.environ)):
        patch.delenv(name)
    for name, below in _CACHES.items():
        if not os.environ.get(name):
            patch.setenv(name, str(before / below))
    patch.setenv("HOME", str(home))
    patch.chdir(here)


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()
