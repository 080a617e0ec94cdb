"""The end of a script's error output, fit to be shown: short, printable and without any secret of the host."""

from collections.abc import Iterable, Iterator

from paddock.base.secrets import Password, Secret
from paddock.clients.ssh import Redactor
from paddock.hosts.bootstrap.kcpassword import encode

__all__ = ["redactor", "tail"]


def redactor(secrets: Iterable[Secret]) -> Redactor:
    """Hides the secrets in every shape in which a step sends them, and the single values inside a kubeconfig."""
    return Redactor(shape for secret in secrets for shape in _shapes(secret))


def tail(text: str, hide: Redactor, *, lines: int = 8, characters: int = 800) -> str:
    """The redacted end of `text`. Cut after redaction, so that a cut can never leave half a secret in sight."""
    kept = [line for line in hide(text).splitlines() if line.strip()][-lines:]
    shown = "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in kept)
    return shown if len(shown) <= characters else "…" + shown[-characters:]


def _shapes(secret: Secret) -> Iterator[Secret]:
    yield secret
    if isinstance(secret, Password):
        yield Secret(encode(secret).decode("latin-1"))
        yield Secret(encode(secret).hex())
    for line in secret.reveal().splitlines():
        # `token: abc`: the value alone is the secret; tools quote it without its name.
        _, colon, value = line.partition(": ")
        if colon and len(value.strip()) >= 12:
            yield Secret(value.strip())
