"""How macOS keeps the password of automatic login: `/etc/kcpassword`, obscured with a fixed key.

It is no encryption: whoever can read the file has the password, so it is root's alone (0600) and travels as a secret.
"""

from typing import Final

from paddock.base.secrets import SEALED, Password

__all__ = ["encode", "sealed_start"]

_KEY: Final = bytes.fromhex("7d895223d2bcddeaa3b91f")


def encode(password: Password) -> bytes:
    """The file for this password: at least one NUL, then NULs to the next multiple of the key's length.

    loginwindow reads up to the first NUL, so a password whose length is a multiple already still gets a whole block.
    """
    plain = password.reveal().encode()
    return _with_key(plain + bytes(len(_KEY) - len(plain) % len(_KEY)))


def sealed_start() -> bytes:
    """How the file begins when macOS replaced the password by its marker."""
    return _with_key(SEALED.encode())


def _with_key(content: bytes) -> bytes:
    return bytes(byte ^ _KEY[index % len(_KEY)] for index, byte in enumerate(content))
