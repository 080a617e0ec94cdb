"""How a run on a host ends, and what is said on the way. Values, fit for conditions, events, logs and pages."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from paddock.hosts.bootstrap.errors import FailureKind

__all__ = ["Failed", "Outcome", "ProgressCallback", "Ready", "StepProgress", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Every step holds. Keep `host_key` with the Host and `config_hash` with the Machine.

    `skipped` names the steps that were left out and why; `notes` is what a person may want to know.
    """

    host_key: str
    config_hash: str
    changed_steps: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run stopped at `step`. Keep `host_key` all the same: it was pinned before anything was sent.

    `host_key` is None only where none was seen. Nothing in here holds a secret.
    """

    step: str
    kind: FailureKind
    message: str
    exit_status: int | None = None
    stderr: str = ""
    host_key: str | None = None
    changed_steps: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        """Status, message and the end of stderr in one text, for whoever names the step elsewhere."""
        status = f"(exit status {self.exit_status}): " if self.exit_status is not None else ""
        end = f": {self.stderr}" if self.stderr and self.stderr not in self.message else ""
        return f"{status}{self.message}{end}"

    @property
    def sentence(self) -> str:
        """The step and what became of it, for a log or a person."""
        return f"{self.step}{': ' if self.exit_status is None else ' '}{self.detail}"


Outcome = Ready | Failed


@dataclass(frozen=True, slots=True)
class StepProgress:
    """Said before a step (`started`) and after it (everything else)."""

    step: str
    number: int
    of: int
    state: Literal["started", "unchanged", "changed", "skipped", "failed"]
    detail: str = ""
    seconds: float = 0.0

    @property
    def sentence(self) -> str:
        tail = f": {self.detail}" if self.detail else ""
        return f"step {self.number} of {self.of}, {self.step}, {self.state}{tail}"


ProgressCallback = Callable[[StepProgress], Awaitable[None]]


async def silent(_progress: StepProgress) -> None:
    """For callers who do not want to know."""
