"""Finds a Chromium or Chrome to test with; installs Debian's where it may; never lets a test pass without one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["ARGUMENTS", "chromium"]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_PLACES = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
_HOW = (
    "No Chromium or Chrome was found, and the page is tested in one.\n"
    "  Debian, Ubuntu   sudo apt-get install chromium\n"
    "  Fedora           sudo dnf install chromium\n"
    "  macOS            brew install --cask google-chrome\n"
    "or set PADDOCK_CHROMIUM to the program."
)


class NoBrowserError(RuntimeError):
    """There is no browser: install one, as the message says."""


def chromium() -> str:
    """The browser's program."""
    given = os.environ.get("PADDOCK_CHROMIUM")
    if given:
        if not shutil.which(given):
            raise NoBrowserError(f"PADDOCK_CHROMIUM is {given}, which cannot be run")
        return given
    found = _found() or _installed()
    if found is None:
        raise NoBrowserError(_HOW)
    return found


def _found() -> str | None:
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    return next((str(place) for place in _PLACES if place.exists()), None)


def _installed() -> str | None:
    """Debian's own, where we are root: that is a container or a build machine, not somebody's desk."""
    if os.geteuid() != 0 or not shutil.which("apt-get") or not Path("/etc/debian_version").exists():
        return None
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"],
    ):
        if subprocess.run(step, env=quiet, check=False).returncode != 0:
            return None
    return _found()
