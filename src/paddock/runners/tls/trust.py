"""By which authority dispatch's certificate is checked: a file that the kubelet replaces when the authority is renewed."""

import ssl
from pathlib import Path

from paddock.base.clock import Clock

__all__ = ["TrustedAuthority"]


class TrustedAuthority:
    """Read again once a minute, and after a handshake that failed. While the file cannot be used, the last good one counts."""

    RE_READ_AFTER = 60.0

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._content = b""
        self._context: ssl.SSLContext | None = None
        self._read_at: float | None = None

    def context(self) -> ssl.SSLContext | None:
        """For a client of dispatch, the same one until the file changes; None while there was never a usable file.

        It trusts this authority and no other: none of those that browsers trust can vouch for dispatch.
        """
        now = self._clock.monotonic()
        if self._context is None or self._read_at is None or now - self._read_at >= self.RE_READ_AFTER:
            self._read_at = now
            self._read()
        return self._context

    def doubted(self) -> None:
        """A handshake failed: perhaps the authority is newer than what was read."""
        self._read_at = None

    def _read(self) -> None:
        try:
            # A few kilobytes on a memory file system: quicker than a thread.
            content = self.path.read_bytes()
            if content == self._content:
                return
            made = ssl.create_default_context(cadata=content.decode("ascii"))
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            return
        self._content, self._context = content, made
