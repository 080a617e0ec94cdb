"""The contract with a host that is reached over SSH. Everything that works on a Mac knows these names only.

A script is a text for `/bin/bash`. It arrives on standard input, so that neither it nor a secret is ever an argument of a
process, and it is followed there by its secrets, one line each, and by the upload; `framing` states the exact form.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from paddock.base.secrets import Secret
from paddock.clients.ssh.errors import CommandFailed

__all__ = ["Completed", "Shell", "Ssh", "Target", "Upload"]

Upload = bytes | Secret | AsyncIterator[bytes]

_TAIL = 600


@dataclass(frozen=True, slots=True)
class Target:
    """Where to log in, as whom, with which key, and which host key to expect.

    `private_key` is an OpenSSH private key without a passphrase. `host_key` is the pinned `SHA256:…` fingerprint, or None
    for the first use after an install: then the caller keeps what `Shell.host_key` says.
    """

    address: str
    port: int
    username: str
    private_key: Secret
    host_key: str | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. Both outputs are redacted, and cut (`truncated`) above the client's limit: the head of
    standard output and the tail of standard error are kept. A status above 128 is a signal, as the shell counts.
    """

    exit_status: int
    stdout: str
    stderr: str
    truncated: bool = False

    def check(self, what: str = "the command") -> "Completed":
        """Itself if the command succeeded; raises CommandFailed, which names `what`, if not."""
        if self.exit_status != 0:
            raise CommandFailed(what, self.exit_status, self.stderr_tail())
        return self

    def stderr_tail(self, limit: int = _TAIL) -> str:
        """The end of what went to standard error, on whole lines where possible."""
        text = self.stderr.strip()
        if len(text) <= limit:
            return text
        tail = text[-limit:]
        head, newline, rest = tail.partition("\n")
        return f"…{rest}" if newline and rest else f"…{head}"


class Shell(Protocol):
    """A host we are logged in to. Several commands may run over it, one after the other or at the same time."""

    @property
    def host_key(self) -> str:
        """The fingerprint of the host key that this very connection was checked against."""
        ...

    async def run(
        self,
        script: str,
        *,
        arguments: Sequence[str] = (),
        secrets: Sequence[Secret] = (),
        upload: Upload | None = None,
        timeout: float,
    ) -> Completed:
        """Run a script with `/bin/bash -s`, whatever the login shell is.

        `arguments` are its positional parameters. It reads each of `secrets` with `IFS= read -r name`, in order, and then
        `upload` until the end of its input. A status other than zero is an answer and not an exception. Raises
        CommandTimedOut and ConnectionLost; after either the script may have done any part of its work.
        """
        ...


class Ssh(Protocol):
    """The way to a shell on a host."""

    def connect(self, target: Target, *, timeout: float = 15.0) -> AbstractAsyncContextManager[Shell]:
        """Log in, once, within `timeout` seconds for the connection and as long again for the login.

        Raises Refused, TimedOut, Hanging, AuthRefused, HostKeyChanged or ConnectionLost; tries nothing twice. With a
        pinned key nothing at all is sent to a host that shows another one.
        """
        ...

    async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
        """The fingerprint a host shows, without logging in: a new one after a reinstall is the proof of the wipe."""
        ...
