"""Which cloud, which project, which key; and how long we are willing to wait for it."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from paddock.base.backoff import Backoff
from paddock.base.secrets import Secret
from paddock.clients.scaleway.errors import SettingsError

__all__ = ["DEFAULT_API_URL", "ScalewaySettings"]

DEFAULT_API_URL = "https://api.scaleway.com"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class ScalewaySettings:
    """Everything the client needs to know; raises SettingsError at construction for what cannot work.

    `request_timeout` bounds one mutation as a whole, from the moment the method is called: waiting for the budget,
    connecting, sending and reading. A caller that holds a lease for longer than this can be sure that no call of its
    own is still on its way when the lease ends.
    """

    secret_key: Secret
    project_id: str
    access_key: str = ""
    api_url: str = DEFAULT_API_URL
    connect_timeout: float = 5.0
    request_timeout: float = 30.0
    read_attempts: int = 4
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.5, cap=15.0))
    requests_per_second: float = 10.0
    burst: int = 20
    queue: int = 200

    def __post_init__(self) -> None:
        if not self.secret_key.reveal().strip():
            raise SettingsError("SCW_SECRET_KEY is empty: set it to the secret key of the IAM application")
        try:
            uuid.UUID(self.project_id)
        except ValueError:
            raise SettingsError(
                f"SCW_DEFAULT_PROJECT_ID is {self.project_id!r}: set it to the project's UUID from the console"
            ) from None
        url = urlsplit(self.api_url)
        if url.scheme not in {"http", "https"} or not url.hostname or url.query or url.fragment:
            raise SettingsError(f"SCW_API_URL is {self.api_url!r}: expected something like {DEFAULT_API_URL}")
        if url.username or url.password:
            raise SettingsError("SCW_API_URL holds credentials: put the key into SCW_SECRET_KEY instead")
        if url.scheme == "http" and url.hostname not in _LOOPBACK:
            raise SettingsError(
                f"SCW_API_URL is {self.api_url!r}: plain http would show the secret key to the network; use https"
            )
        if self.request_timeout <= 0 or self.connect_timeout <= 0:
            raise SettingsError("the timeouts must be above zero")
        if self.read_attempts < 1:
            raise SettingsError("read_attempts must be at least 1")

    @property
    def is_loopback(self) -> bool:
        """True for a cloud on this machine, which a proxy of the environment must not see."""
        return urlsplit(self.api_url).hostname in _LOOPBACK

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "ScalewaySettings":
        """The settings that the environment names, with the provider's own variable names."""
        missing = [name for name in ("SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID") if not environ.get(name, "").strip()]
        if missing:
            raise SettingsError(
                f"{' and '.join(missing)} not set: take the API key and the project ID from the Scaleway console (IAM)"
            )
        return cls(
            secret_key=Secret(environ["SCW_SECRET_KEY"].strip()),
            project_id=environ["SCW_DEFAULT_PROJECT_ID"].strip(),
            access_key=environ.get("SCW_ACCESS_KEY", "").strip(),
            api_url=(environ.get("SCW_API_URL", "").strip() or DEFAULT_API_URL).rstrip("/"),
        )
