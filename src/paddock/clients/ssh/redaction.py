"""What a host printed, without the secrets it was given."""

import base64
from collections.abc import Iterable

from paddock.base.secrets import Secret

__all__ = ["Redactor"]

_SHOWN = "***"
_SHORTEST_LINE = 8


class Redactor:
    """Replaces each of the given secrets wherever it appears in a text, plain or in base64.

    Of a secret of several lines each longer line is hidden on its own too, because tools quote single lines in errors.
    """

    def __init__(self, secrets: Iterable[Secret]) -> None:
        hidden: set[str] = set()
        for secret in secrets:
            text = secret.reveal()
            stripped = text.strip()
            if not stripped:
                continue
            hidden.add(stripped)
            hidden.update(line.strip() for line in text.splitlines() if len(line.strip()) >= _SHORTEST_LINE)
            hidden.add(base64.b64encode(text.encode()).decode().rstrip("="))
        # Longest first, so that a secret that contains another one disappears as a whole.
        self._hidden = sorted(hidden, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, _SHOWN)
        return text
