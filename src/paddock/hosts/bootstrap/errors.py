"""What can be wrong before a host is touched, and how a step says that it failed."""

from enum import StrEnum

__all__ = ["BootstrapError", "FailureKind", "PlanError", "StepFailedError"]


class BootstrapError(Exception):
    """The root of everything that `paddock.hosts.bootstrap` raises."""


class PlanError(BootstrapError):
    """The configuration cannot be put on any host: the message names the field and the remedy."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class FailureKind(StrEnum):
    """Why a run did not end Ready. The values are reasons of conditions and events."""

    AUTH_REFUSED = "SSHAuthRefused"
    HOST_KEY_CHANGED = "HostKeyChanged"
    REFUSED = "SSHRefused"
    TIMED_OUT = "SSHTimedOut"
    HANGS = "SSHHangs"
    CONNECTION_LOST = "SSHConnectionLost"
    PASSWORD_REFUSED = "SudoPasswordRefused"  # noqa: S105 - a reason, not a password
    PASSWORD_SEALED = "AutoLoginSealed"  # noqa: S105 - as above
    NO_PASSWORD = "MissingSudoPassword"  # noqa: S105 - as above
    STEP_TIMED_OUT = "StepTimedOut"
    STEP_FAILED = "StepFailed"
    CONFIGURATION = "InvalidConfiguration"
    DOWNLOAD_FAILED = "DownloadFailed"

    @property
    def unreachable(self) -> bool:
        """Whether the host was never spoken to, so that nothing on it can have changed."""
        return self in _UNREACHABLE

    @property
    def blames_host(self) -> bool:
        """Whether rebooting or wiping this host could help. A mistake in the fleet's configuration is not its fault,
        nor is a server of downloads that does not have the file; and a host key that changed by itself is for a person to look at.
        """
        return self not in {FailureKind.CONFIGURATION, FailureKind.DOWNLOAD_FAILED, FailureKind.HOST_KEY_CHANGED}


_UNREACHABLE = {
    FailureKind.AUTH_REFUSED,
    FailureKind.HOST_KEY_CHANGED,
    FailureKind.REFUSED,
    FailureKind.TIMED_OUT,
    FailureKind.HANGS,
}


class StepFailedError(BootstrapError):
    """A step did not reach what it promises. `stderr` is redacted already; it may be shown."""

    def __init__(self, kind: FailureKind, message: str, *, exit_status: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.exit_status = exit_status
        self.stderr = stderr
