"""What one simulated Mac is made with."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from paddock.simulator.mac.pace import Pace

__all__ = ["MacSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MacSettings:
    """The account and keys that an install leaves, and how the Mac behaves.

    Without a `password` the Mac draws one. `lock_after` wrong passwords lock an account. `install` counts the installs
    of the host so far. Without a `display`, as Macs in a rack are, loginwindow does not log in by itself at a boot, whatever automatic
    login says, but only when it is started anew. The Mac remembers its last `records` commands, tool calls and effects.
    """

    username: str = "m1"
    password: str | None = None
    keys: Sequence[str] = ()
    address: str = "127.0.0.1"
    pace: Pace = field(default_factory=Pace)
    lock_after: int = 5
    display: bool = False
    install: int = 1
    records: int = 100_000
