"""Who we are to the API server: a fixed token, a file that rotates, or a plugin that is run for it."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from paddock.base.clock import Clock, parse_rfc3339
from paddock.base.programs import ProgramTimeoutError, run_program
from paddock.base.secrets import Secret
from paddock.kube.errors import ConfigError

__all__ = ["Credentials", "ExecPlugin", "FixedIdentity", "Identity", "TokenFile"]


@dataclass(frozen=True, slots=True)
class Identity:
    """What a request shows: a bearer token, a client certificate with its key (PEM), both, or nothing."""

    token: Secret | None = None
    certificate: str = ""
    key: Secret | None = None


class Credentials(Protocol):
    """Where the identity comes from."""

    async def current(self) -> Identity:
        """The identity to show now; raises ConfigError when there is none to be had."""
        ...

    def rejected(self) -> bool:
        """The server answered 401. True when asking again may give another identity, so that one retry makes sense."""
        ...


@dataclass(frozen=True, slots=True)
class FixedIdentity:
    """An identity that was written down and does not change."""

    identity: Identity = field(default_factory=Identity)

    async def current(self) -> Identity:
        return self.identity

    def rejected(self) -> bool:
        return False


class TokenFile:
    """A token in a file that the kubelet rotates: read again once a minute, and after a 401.

    The file is a few kilobytes on a memory file system, so that reading it in the loop is cheaper than a thread. While
    it cannot be read, the last good token keeps being used.
    """

    RE_READ_AFTER = 60.0

    def __init__(self, path: Path, clock: Clock, *, certificate: str = "", key: Secret | None = None) -> None:
        self._path = path
        self._clock = clock
        self._certificate = certificate
        self._key = key
        self._identity: Identity | None = None
        self._read_at = 0.0

    async def current(self) -> Identity:
        now = self._clock.monotonic()
        if self._identity is None or now - self._read_at >= self.RE_READ_AFTER:
            self._identity = self._read() or self._identity
            self._read_at = now
        if self._identity is None:
            raise ConfigError(f"{self._path}: the token file is missing, unreadable or empty")
        return self._identity

    def rejected(self) -> bool:
        fresh = self._read()
        changed = fresh is not None and fresh != self._identity
        if changed:
            self._identity = fresh
        return changed

    def _read(self) -> Identity | None:
        try:
            text = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return Identity(Secret(text), self._certificate, self._key) if text else None


class ExecPlugin:
    """A credential plugin (`client.authentication.k8s.io`), run as a child process when its last answer has expired.

    Only one run at a time; it gets a minute and no terminal. Its answer is kept until shortly before it expires.
    """

    TIMEOUT = 60.0
    LEEWAY = 30.0

    def __init__(
        self,
        *,
        command: str,
        args: Sequence[str],
        env: Mapping[str, str],
        api_version: str,
        where: str,
        clock: Clock,
        cluster: Mapping[str, Any] | None = None,
        install_hint: str = "",
    ) -> None:
        self._command = command
        self._args = tuple(args)
        self._env = dict(env)
        self._api_version = api_version
        self._where = where
        self._clock = clock
        self._cluster = dict(cluster) if cluster is not None else None
        self._install_hint = install_hint
        self._lock = asyncio.Lock()
        self._identity: Identity | None = None
        self._expires: datetime | None = None

    async def current(self) -> Identity:
        async with self._lock:
            if self._identity is None or self._expired():
                self._identity, self._expires = self._parse(await self._run())
            return self._identity

    def rejected(self) -> bool:
        self._identity = None
        return True

    def _expired(self) -> bool:
        return self._expires is not None and (self._expires - self._clock.now()).total_seconds() <= self.LEEWAY

    async def _run(self) -> bytes:
        spec: dict[str, Any] = {"interactive": False}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._api_version, "kind": "ExecCredential", "spec": spec}
        env = {**os.environ, **self._env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            ended = await run_program((self._command, *self._args), seconds=self.TIMEOUT, env=env)
        except OSError as error:
            hint = f" {self._install_hint}" if self._install_hint else ""
            raise ConfigError(
                f"{self._where}.command: cannot run {self._command!r}: {error.strerror}.{hint}"
            ) from error
        except ProgramTimeoutError as error:
            raise ConfigError(
                f"{self._where}.command: {self._command!r} gave no answer for {self.TIMEOUT:.0f} s"
            ) from error
        if ended.code != 0:
            last = ended.err.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise ConfigError(f"{self._where}.command: {self._command!r} ended with {ended.code}: {last}")
        return ended.out

    def _parse(self, out: bytes) -> tuple[Identity, datetime | None]:
        # Nothing of the output may reach the message: it holds the token.
        problem = f"{self._where}.command: {self._command!r} did not print a usable ExecCredential"
        try:
            answer = json.loads(out)
            status = answer["status"]
            token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
            until = status.get("expirationTimestamp")
            expires = parse_rfc3339(until) if until else None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(problem) from None
        if answer.get("apiVersion") != self._api_version:
            raise ConfigError(f"{problem}: its apiVersion is not {self._api_version}")
        if not token and not (certificate and key):
            raise ConfigError(f"{problem}: it has neither a token nor a certificate with its key")
        return Identity(Secret(token) if token else None, certificate or "", Secret(key) if key else None), expires
