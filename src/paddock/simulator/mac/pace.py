"""How long things take on a simulated Mac."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Pace"]

# Seconds, about what an M-series mini takes.
_SECONDS: Mapping[str, float] = {
    "login": 0.25,
    "launchctl kickstart": 0.4,
    "launchctl bootstrap": 0.2,
    "launchctl bootout": 0.3,
    "loginwindow": 4.0,
    "codesign": 0.3,
    "pfctl": 0.02,
    "curl": 0.5,
    "ditto": 0.2,
    "softwareupdate": 5.0,
}


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of the Mac's time for each tool, and how many of them pass in one of ours."""

    speed: float = 100.0
    seconds: Mapping[str, float] = field(default_factory=lambda: dict(_SECONDS))
    otherwise: float = 0.005

    def of(self, tool: str, arguments: Sequence[str] = ()) -> float:
        if tool == "sudo":
            return 0.0
        if arguments and (own := self.seconds.get(f"{tool} {arguments[0]}")) is not None:
            return own
        return self.seconds.get(tool, self.otherwise)
