"""What every healing worker is: one pass over what may disagree, with a report that people can read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Healed", "Report", "Worker"]


@dataclass(frozen=True, slots=True)
class Healed:
    """One thing that was healed, or would be: `sentence` says what, why and since when; `evidence` what each ledger said."""

    kind: str
    subject: str
    sentence: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    """How long the disagreement lasted, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass did. `refused` are sentences about what was left alone although it looked wrong."""

    looked: int = 0
    healed: tuple[Healed, ...] = ()
    reported: tuple[Healed, ...] = ()
    """Proven, but the worker is in report-only mode."""
    deferred: int = 0
    """Proven, but over the cap of this pass."""
    refused: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """One bad item never ends a pass: each is a sentence here."""


class Worker(Protocol):
    """`name` is also the name of its advisory lock and its metrics; `every` the seconds between passes."""

    @property
    def name(self) -> str: ...

    @property
    def every(self) -> float: ...

    async def heal(self) -> Report:
        """One pass. Complete reads or no action; raises only what prevents a pass as a whole, having changed nothing."""
        ...
