"""The end of a script's error output, fit to be shown: short, printable and without any secret."""

import base64
from collections.abc import Iterable
from urllib.parse import quote

from paddock.base.secrets import Secret

__all__ = ["redact", "tail"]

_SHOWN = "***"
_SHORTEST = 4
"""Lines of a secret that are shorter are words like `---`, not secrets; hiding them would hide the message."""


def redact(text: str, secrets: Iterable[Secret]) -> str:
    """`text` without any of the secrets, whole or line by line, plain, quoted for a URL or in base64."""
    for shape in sorted(_shapes(secrets), key=len, reverse=True):
        text = text.replace(shape, _SHOWN)
    return text


def tail(text: str, secrets: Iterable[Secret], *, lines: int = 8, characters: int = 800) -> str:
    """The redacted end of `text`. Cut after redaction, so that a cut can never leave half a secret in sight."""
    clean = redact(text, secrets)
    kept = [line for line in clean.splitlines() if line.strip()][-lines:]
    shown = "\n".join("".join(c for c in line if c.isprintable() or c == "\t") for line in kept)
    return shown if len(shown) <= characters else "…" + shown[-characters:]


def _shapes(secrets: Iterable[Secret]) -> set[str]:
    shapes: set[str] = set()
    for secret in secrets:
        whole = secret.reveal()
        for text in (whole, *whole.splitlines()):
            plain = text.strip()
            if not plain or (text is not whole and len(plain) < _SHORTEST):
                continue
            shapes |= {plain, quote(plain, safe=""), base64.b64encode(plain.encode()).decode()}
            # `token: abc` in a kubeconfig: the value alone is the secret.
            key, colon, value = plain.partition(": ")
            if colon and key.replace("-", "").isalnum() and len(value.strip()) >= 8:
                shapes.add(value.strip())
    return shapes
