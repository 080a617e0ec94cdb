"""Which GitHub App we are, where its API is, and how long we are willing to wait for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from paddock.base.backoff import Backoff
from paddock.base.secrets import Secret
from paddock.clients.github.errors import SettingsError

__all__ = ["DEFAULT_API_URL", "GitHubSettings", "api_url_of", "signing_key", "web_url"]

DEFAULT_API_URL = "https://api.github.com"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_APP_ID = "PADDOCK_GITHUB_APP_ID"
_PRIVATE_KEY = "PADDOCK_GITHUB_PRIVATE_KEY"
_WEBHOOK_SECRET = "PADDOCK_GITHUB_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_WEBHOOK_SECRET_PREVIOUS = "PADDOCK_GITHUB_WEBHOOK_SECRET_PREVIOUS"  # noqa: S105 - the name of a variable
_WEBHOOKS = "PADDOCK_GITHUB_WEBHOOKS"
_API_URL = "PADDOCK_GITHUB_API_URL"

_REMEDY = {
    _PRIVATE_KEY: "generate a private key on the App's settings page and give the .pem file",
    _WEBHOOK_SECRET: (
        "give the secret that is set on the App's settings page under Webhook, or set PADDOCK_GITHUB_WEBHOOKS=off where "
        "every pool has jobSource: ScaleSet"
    ),
    _WEBHOOK_SECRET_PREVIOUS: "give the secret that was set before, or leave the variable out",
}


def api_url_of(environ: Mapping[str, str]) -> str:
    """The API that the environment names; github.com's where it names none."""
    return (environ.get(_API_URL, "").strip() or DEFAULT_API_URL).rstrip("/")


def web_url(api_url: str) -> str:
    """Where runners of the GitHub with this API connect: `https://api.github.com` → `https://github.com`, a server's own host."""
    parts = urlsplit(api_url)
    return f"{parts.scheme}://{parts.netloc.removeprefix('api.')}"


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """Everything the client needs to know; raises SettingsError at construction for what cannot work.

    `request_timeout` bounds one request, `call_timeout` a whole call of the `GitHub` that is no list (the wait for the
    budget and for a token, the fallback from organisation to repository, and every repeat included), `list_timeout` a
    whole list. `timeout` is the longest single wait for the budget: what would take longer is told to the caller.
    """

    app_id: str
    private_key: Secret
    webhook_secrets: tuple[Secret, ...] = ()
    """The secret in use first, then the one before it: a webhook may be signed with either."""
    api_url: str = DEFAULT_API_URL
    connect_timeout: float = 5.0
    request_timeout: float = 10.0
    call_timeout: float = 15.0
    list_timeout: float = 120.0
    read_attempts: int = 4
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.3, cap=4.0))
    timeout: float = 2.0

    def __post_init__(self) -> None:
        # The values themselves are never shown: a key that was put into the wrong variable must not reach a log.
        if not re.fullmatch(r"[0-9]{1,20}|Iv[A-Za-z0-9.]{4,60}", self.app_id):
            raise SettingsError(
                f"{_APP_ID} is not an App ID: set it to the number (or the client ID, Iv…) from the App's settings page"
            )
        signing_key(self.private_key)
        if any(not secret.reveal().strip() for secret in self.webhook_secrets):
            raise SettingsError(f"{_WEBHOOK_SECRET} is empty: {_REMEDY[_WEBHOOK_SECRET]}")
        self._check_url()
        if min(self.connect_timeout, self.request_timeout, self.call_timeout, self.list_timeout) <= 0:
            raise SettingsError("the timeouts must be above zero")
        if self.read_attempts < 1:
            raise SettingsError("read_attempts must be at least 1")

    def _check_url(self) -> None:
        try:
            url = urlsplit(self.api_url)
            hostname = url.hostname
        except ValueError:
            raise SettingsError(f"{_API_URL} is not a URL: expected something like {DEFAULT_API_URL}") from None
        if url.username or url.password:
            raise SettingsError(f"{_API_URL} holds credentials: take them out, the App's key is all that is needed")
        if url.scheme not in {"http", "https"} or not hostname or url.query or url.fragment:
            raise SettingsError(f"{_API_URL} is {self.api_url!r}: expected something like {DEFAULT_API_URL}")
        if url.scheme == "http" and hostname not in _LOOPBACK:
            raise SettingsError(
                f"{_API_URL} is {self.api_url!r}: plain http would show the App's tokens to the network; use https"
            )

    @property
    def is_loopback(self) -> bool:
        """True for a GitHub on this machine, which a proxy of the environment must not see."""
        return urlsplit(self.api_url).hostname in _LOOPBACK

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "GitHubSettings":
        """The settings that the environment names. Reads the files that it names, so call it at the start."""
        app_id = environ.get(_APP_ID, "").strip()
        if not app_id:
            raise SettingsError(f"{_APP_ID} is not set: take the App ID from the App's settings page")
        webhooks = environ.get(_WEBHOOKS, "").strip().lower() or "on"
        if webhooks not in ("on", "off"):
            raise SettingsError(f"{_WEBHOOKS} is {webhooks[:20]!r}: on or off, without it on")
        # Without a secret every webhook is refused, so that leaving it out must be said and cannot be forgotten.
        current = _secret(environ, _WEBHOOK_SECRET, required=webhooks == "on")
        previous = _secret(environ, _WEBHOOK_SECRET_PREVIOUS, required=False)
        return cls(
            app_id=app_id,
            private_key=_secret(environ, _PRIVATE_KEY, required=True) or Secret(""),
            webhook_secrets=tuple(secret for secret in (current, previous) if secret is not None),
            api_url=api_url_of(environ),
        )


def signing_key(private_key: Secret, *, checked: bool = False) -> RSAPrivateKey:
    """The App's key, ready to sign; raises SettingsError, without a word of the key, where it is not one.

    Checking takes a tenth of a second, so that a key which was `checked` is not checked again.
    """
    # Files of variables hold a key on one line, with its line ends written out.
    text = private_key.reveal().replace("\\n", "\n").strip()
    try:
        key = load_pem_private_key(text.encode(), password=None, unsafe_skip_rsa_key_validation=checked)
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(f"{_PRIVATE_KEY} is not a private key in PEM form: {_REMEDY[_PRIVATE_KEY]}") from None
    except TypeError:
        raise SettingsError(f"{_PRIVATE_KEY} is protected by a password: {_REMEDY[_PRIVATE_KEY]} as it is") from None
    if not isinstance(key, RSAPrivateKey):
        raise SettingsError(f"{_PRIVATE_KEY} is no RSA key, and GitHub accepts no other: {_REMEDY[_PRIVATE_KEY]}")
    return key


def _secret(environ: Mapping[str, str], name: str, *, required: bool) -> Secret | None:
    """The secret in the variable, or in the file that the variable's `_FILE` names; never in both."""
    text, path = environ.get(name, "").strip(), environ.get(f"{name}_FILE", "").strip()
    if text and path:
        raise SettingsError(f"{name} and {name}_FILE are both set: leave one of them out")
    if path:
        return Secret(_file(path, name))
    if text:
        return Secret(text)
    if required:
        raise SettingsError(f"neither {name} nor {name}_FILE is set: {_REMEDY[name]}")
    return None


def _file(path: str, name: str) -> str:
    # Neither the path nor the error's own text is shown: whoever put the secret itself there would find it in the log.
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SettingsError(f"{name}_FILE names a file that cannot be read ({reason}): {_REMEDY[name]}") from None
    except ValueError:
        raise SettingsError(f"{name}_FILE names a file that is no text: {_REMEDY[name]}") from None
    if not text:
        raise SettingsError(f"{name}_FILE names an empty file: {_REMEDY[name]}")
    return text
