"""What can stand between us and a command's result on a host. Match by class, never by text.

Each class is one situation with one remedy; its docstring is the advice, and `advice` gives it to conditions and pages.
No message ever holds a secret: what a host printed is redacted before it gets here.
"""
# ruff: noqa: N818 - the names say what happened to the connection, and they read as such in `except Refused:`

import inspect

__all__ = [
    "AuthRefused",
    "CommandFailed",
    "CommandTimedOut",
    "ConnectionLost",
    "Hanging",
    "HostKeyChanged",
    "HostKeyUnpinned",
    "KeyUnusable",
    "Refused",
    "SshError",
    "TimedOut",
    "Unreachable",
]


class SshError(Exception):
    """The root of everything that `paddock.clients.ssh` raises."""

    @property
    def advice(self) -> str:
        """What the situation means and what to do, in one paragraph."""
        return " ".join((inspect.getdoc(type(self)) or "").split())


class Unreachable(SshError):
    """The host could not be talked to. It says nothing about our credentials: wait, try again, then reboot."""

    def __init__(self, message: str, *, address: str, port: int) -> None:
        super().__init__(message)
        self.address = address
        self.port = port


class Refused(Unreachable):
    """The host answers and nothing listens on the port: sshd is not up yet, or dead; or it shuts our address out after
    failed logins, which only a reboot by the cloud ends. Wait; if it stays, reboot it by the cloud.
    """

    def __init__(self, address: str, port: int) -> None:
        super().__init__(f"{address} port {port} refused the connection", address=address, port=port)


class TimedOut(Unreachable):
    """The host does not answer at all: powered off, still booting, filtered, or its accept backlog is full. Wait; do
    not dial faster, that makes a full backlog worse; if it stays, reboot.
    """

    def __init__(self, address: str, port: int, seconds: float) -> None:
        super().__init__(f"{address} port {port} did not answer within {seconds:g} s", address=address, port=port)


class Hanging(Unreachable):
    """The port accepts connections and then nothing follows: sshd is wedged. Waiting rarely helps; reboot the host."""

    def __init__(self, address: str, port: int, seconds: float) -> None:
        super().__init__(
            f"{address} port {port} accepts connections but does not complete the SSH handshake within {seconds:g} s",
            address=address,
            port=port,
        )


class AuthRefused(SshError):
    """The host refuses our key. Keys are injected at order and at reinstall only, so waiting does not help: reinstall the
    host, or add the fleet's public key to ~/.ssh/scw_authorized_keys over VNC.
    """

    def __init__(self, address: str, username: str) -> None:
        super().__init__(f"{address} refuses the key for user {username}")
        self.address = address
        self.username = username


class HostKeyChanged(SshError):
    """The host shows another key than the one pinned. After a reinstall that is the proof of the wipe; at any other time
    it is another machine or a reinstall that we did not order: stop, send nothing, ask a person.
    """

    def __init__(self, address: str, *, expected: str, seen: str) -> None:
        super().__init__(f"{address} shows the host key {seen}, expected {expected}")
        self.address = address
        self.expected = expected
        self.seen = seen


class HostKeyUnpinned(SshError):
    """The server offers no host key that can be pinned. It is not a Mac's sshd: check the address and the port."""


class KeyUnusable(SshError):
    """The private key is not an OpenSSH private key without a passphrase: check the fleet's SSH Secret."""


class ConnectionLost(SshError):
    """The connection broke. What the command did is unknown: connect again and repeat the step, which is idempotent."""


class CommandTimedOut(SshError):
    """The command did not finish in its time, and was told to stop. It may have done a part of its work: repeat the step,
    and give it more time if it really needs it.
    """

    def __init__(self, seconds: float, *, stderr: str = "") -> None:
        tail = f": {stderr}" if stderr else ""
        super().__init__(f"the command did not finish within {seconds:g} s{tail}")
        self.seconds = seconds
        self.stderr = stderr


class CommandFailed(SshError):
    """The command ended with a status other than zero. The end of what it printed says why."""

    def __init__(self, what: str, exit_status: int, stderr: str) -> None:
        tail = f": {stderr}" if stderr else ""
        super().__init__(f"{what} ended with exit status {exit_status}{tail}")
        self.what = what
        self.exit_status = exit_status
        self.stderr = stderr
