"""Images are chosen by family, never by version: the cloud retires point releases, and a pin on one strands a fleet.

Everything here is a pure function of the catalogue, which is read again for every decision: a remembered image id
would, once retired, fail for ever.
"""
# ruff: noqa: N818 - named for what is the matter, as the rest of this package's errors

import re
from collections.abc import Iterable

from paddock.clients.scaleway.errors import ScalewayError
from paddock.clients.scaleway.model import OperatingSystem

__all__ = [
    "OSNotPublished",
    "OSPinNotFamily",
    "family_key",
    "family_matches",
    "newest_image",
    "require_family",
    "version_key",
]


class OSPinNotFamily(ScalewayError):
    """The pin names a version. Use the family that the message names: the newest image of it is chosen each time."""


class OSNotPublished(ScalewayError):
    """The catalogue holds no image of this family for this server type; `families` is what it does hold."""

    def __init__(self, message: str, families: tuple[str, ...]) -> None:
        super().__init__(message)
        self.families = families


def family_key(text: str) -> str:
    """The comparable form of a family, an image name or a legacy pin: `macos-tahoe-26.6.1` and `Tahoe` are `tahoe`."""
    key = re.sub(r"^macos[-_ ]+", "", text.strip().lower())
    key = re.split(r"[-_ ]+(?=\d)", key, maxsplit=1)[0]
    return re.sub(r"[-_ ]+", "", key)


def family_matches(os: OperatingSystem | None, pin: str) -> bool:
    """Whether the image belongs to the family; no image and no pin match nothing.

    The image's name is tried as well, because the API documents `family` as a number. `devos-tahoe-26.0` has the key
    `devostahoe`, so that it never passes for Tahoe.
    """
    wanted = family_key(pin)
    if os is None or not wanted:
        return False
    return wanted in {family_key(os.family), family_key(os.name)}


def require_family(pin: str) -> str:
    """The pin itself where it is a family; raises OSPinNotFamily, naming the family to use, where it has a version."""
    if re.search(r"\d", pin) is None:
        return pin
    family = family_key(pin)
    usable = family if family and re.search(r"\d", family) is None else ""
    advice = f"use the family {usable.capitalize()!r} instead" if usable else "use a family such as 'Tahoe' instead"
    raise OSPinNotFamily(f"the OS pin {pin!r} names a version, and versions are retired by the cloud: {advice}")


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """Orders dotted versions by number; `26.7-beta` is below `26.7`, and `26` below `26.0`."""
    segments: list[tuple[int, int, str]] = []
    for segment in version.strip().split("."):
        match = re.fullmatch(r"(\d*)(.*)", segment, re.DOTALL)
        digits, suffix = match.groups() if match else ("", segment)
        segments.append((int(digits) if digits else -1, 0 if suffix else 1, suffix))
    return tuple(segments)


def newest_image(catalogue: Iterable[OperatingSystem], family: str, server_type: str | None = None) -> OperatingSystem:
    """The newest published image of the family for the server type; a beta only where there is nothing else.

    Lenient about the pin, because old Machines with a version in theirs must still be able to drain; a caller that
    starts something new says `require_family` first.
    """
    images = [os for os in catalogue if server_type is None or os.runs_on(server_type)]
    matching = [os for os in images if family_matches(os, family)]
    if not matching:
        families = tuple(sorted({os.family or os.name for os in images}))
        where = f" for {server_type}" if server_type else ""
        raise OSNotPublished(
            f"no image of the family {family!r} is published{where}; there is: {', '.join(families) or 'nothing'}",
            families,
        )
    return max(matching, key=lambda os: (not os.is_beta, version_key(os.version), os.name))
