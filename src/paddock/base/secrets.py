"""Values that must never be shown.

A `Secret` cannot be printed, logged, compared by accident into a message or encoded into JSON: the only way to its text
is `reveal()`, which is easy to search for. A `Password` moreover cannot be empty and cannot be the cloud's `<sealed>`
marker, so that the mistake of handing that marker to sudo cannot be written down.
"""

import hmac
import secrets
from typing import Final

__all__ = ["SEALED", "Password", "Secret", "UnusablePasswordError", "new_key"]

SEALED: Final = "<sealed>"
"""What the cloud shows instead of a password in the answer of every mutating call."""


class UnusablePasswordError(ValueError):
    """The text is empty or the cloud's sealed marker: fetch the host again, and wait if it is still sealed."""


class Secret:
    """A text that shows as `***` everywhere except through `reveal()`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Call it only where it leaves for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        # Constant time, so that comparing tokens tells nothing about them.
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str:
        raise TypeError("a Secret is never serialised")


class Password(Secret):
    """A password that can be used: neither empty nor `<sealed>`."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        if not text or text == SEALED:
            raise UnusablePasswordError("the password is empty" if not text else "the password is sealed by the cloud")
        super().__init__(text)

    @classmethod
    def usable(cls, text: str | None) -> "Password | None":
        """The password, or None where there is nothing usable yet."""
        return None if not text or text == SEALED else cls(text)


def new_key() -> Secret:
    """A key of 256 bits from the operating system; inject it, so that a simulation can draw its own."""
    return Secret(secrets.token_urlsafe(32))
