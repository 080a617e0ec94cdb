"""What a step is, and how it speaks with a host."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.clients.ssh import CommandTimedOut, Shell, Upload
from paddock.hosts.bootstrap.errors import FailureKind, StepFailedError
from paddock.hosts.bootstrap.payload_source import PayloadFiles
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.redaction import redactor, tail
from paddock.hosts.bootstrap.scripts import script

__all__ = ["Skipped", "Step", "StepResult", "StepShell", "encoded"]

_KINDS = {
    71: FailureKind.PASSWORD_REFUSED,
    72: FailureKind.PASSWORD_SEALED,
    73: FailureKind.NO_PASSWORD,
    74: FailureKind.PASSWORD_REFUSED,
    76: FailureKind.CONFIGURATION,
    77: FailureKind.DOWNLOAD_FAILED,
}
"""What the scripts mean by their exit status; every other one is a plain failure."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did. No changes means that everything was so already and nothing was touched."""

    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.values if key == name]

    def __add__(self, other: "StepResult") -> "StepResult":
        return StepResult(self.changes + other.changes, self.notes + other.notes, self.values + other.values)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The step has nothing to do on this host, or must not do it; `reason` is a sentence."""

    reason: str
    changes: tuple[str, ...] = ()


class Step(Protocol):
    """One thing that holds on a host afterwards.

    `apply` may be repeated any number of times, and after a death at any point; it changes only what is not so already.
    Whoever sets `live` promises that it is safe under running virtual machines. What `rendered` returns is hashed: it
    must be everything that the fleet's configuration contributes, rendered for whatever host it is given.
    """

    @property
    def name(self) -> str: ...

    @property
    def timeout(self) -> float:
        """Seconds for all its scripts together."""
        ...

    @property
    def live(self) -> bool: ...

    def rendered(self, host: PerHost, fleet: FleetConfig) -> Sequence[str]: ...

    async def apply(self, shell: "StepShell", host: PerHost, fleet: FleetConfig) -> StepResult | Skipped: ...


@dataclass(slots=True)
class StepShell:
    """A host's shell for the time of one step: it knows the step's deadline and the host's secrets."""

    shell: Shell
    clock: Clock
    host: PerHost
    payloads: PayloadFiles
    timeout: float
    _ends: float = field(init=False)

    def __post_init__(self) -> None:
        self._ends = self.clock.monotonic() + self.timeout

    async def run(
        self,
        name: str,
        *arguments: str,
        secrets: Sequence[Secret] = (),
        upload: Upload | None = None,
    ) -> StepResult:
        """Run one of our scripts. Raises StepFailedError, redacted, unless it ends with status 0."""
        left = self._ends - self.clock.monotonic()
        hide = redactor((*self.host.secrets, *secrets))
        if left <= 0:
            raise StepFailedError(FailureKind.STEP_TIMED_OUT, f"did not finish within {self.timeout:g} seconds")
        try:
            done = await self.shell.run(script(name), arguments=arguments, secrets=secrets, upload=upload, timeout=left)
        except CommandTimedOut as error:
            raise StepFailedError(
                FailureKind.STEP_TIMED_OUT,
                f"did not finish within {self.timeout:g} seconds",
                stderr=tail(error.stderr, hide),
            ) from None
        if done.exit_status != 0:
            said = tail(done.stderr, hide)
            last = said.rsplit("\n", 1)[-1] or f"{name} ended without a word"
            kind = _KINDS.get(done.exit_status, FailureKind.STEP_FAILED)
            raise StepFailedError(kind, last, exit_status=done.exit_status, stderr=said)
        return _answer(hide(done.stdout))


def encoded(text: str) -> str:
    """A text of several lines as an argument."""
    return base64.b64encode(text.encode()).decode()


def _answer(stdout: str) -> StepResult:
    changes: list[str] = []
    notes: list[str] = []
    values: list[tuple[str, str]] = []
    for line in stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "changed":
            changes.append(rest)
        elif word == "note":
            notes.append(rest)
        elif word == "value":
            name, _, value = rest.partition(" ")
            values.append((name, value))
    return StepResult(tuple(changes), tuple(notes), tuple(values))
