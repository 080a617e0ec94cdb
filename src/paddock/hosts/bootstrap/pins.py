"""Tart and Softnet for Macs: the release of each that this Paddock knows by address and checksum, or one that the user names so."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock.hosts.bootstrap.errors import PlanError

__all__ = ["PINS", "TART_LICENCE", "Archive", "chosen", "known_version"]

PINS: Final = Path(__file__).parents[2] / "pins.toml"
_KNOWN: Final[dict[str, dict[str, Any]]] = tomllib.loads(PINS.read_text(encoding="utf-8"))["macs"]
TART_LICENCE: Final[str] = _KNOWN["tart"]["licence"]


@dataclass(frozen=True, slots=True)
class Archive:
    """Where Macs fetch a program's release archive. `version` is for people; the checksum is what counts."""

    url: str
    sha256: str
    version: str = ""


def known_version(program: str) -> str:
    """The version that needs neither address nor checksum."""
    return _KNOWN[program]["version"]


def chosen(program: str, *, version: str, url: str, sha256: str, licence_accepted: bool = True) -> Archive | None:
    """What the user takes of `program`, None where nothing was named; PlanError names the flag and the remedy.

    An address decides. Without one the version must be the known one, and its licence accepted: nobody takes it unasked.
    """
    if url:
        if not url.startswith("https://"):
            raise PlanError(f"--{program}-url", "expected an https address, which the Macs fetch from")
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise PlanError(f"--{program}-sha256", "expected the archive's 64 hex digits (shasum -a 256 FILE)")
        return Archive(url, sha256, version)
    known = _KNOWN[program]
    if sha256:
        raise PlanError(f"--{program}-url", f"a checksum without an address: give both, or --{program}-version alone")
    if not version:
        return None
    if version != known["version"]:
        raise PlanError(
            f"--{program}-version",
            f"{version} is not known here: take {known['version']}, or give --{program}-url and --{program}-sha256 of {version}",
        )
    if not licence_accepted:
        raise PlanError(
            f"--accept-{program}-licence",
            f"{program.capitalize()} {version} is its makers', under {known['licence']}: accept it by this flag "
            f"(in the chart macosFleet.{program}.acceptLicence)",
        )
    return Archive(known["url"], known["sha256"], version)
