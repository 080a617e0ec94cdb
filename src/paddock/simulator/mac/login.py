"""Auto-login on a simulated Mac: what `/etc/kcpassword` holds, and what loginwindow makes of it.

A right password gives the user an Aqua session at the next start of loginwindow, which a boot is only where there is a
display. A wrong one is replaced by the sealed marker without a word, and every later start stays at the login screen.
"""

import plistlib
from itertools import cycle

from paddock.base.secrets import SEALED
from paddock.simulator.mac.disk import Disk

__all__ = ["KCPASSWORD", "decoded", "encoded", "log_in"]

KCPASSWORD = "/etc/kcpassword"
_CIPHER = bytes.fromhex("7d895223d2bcddeaa3b91f")
_LOGINWINDOW = "/Library/Preferences/com.apple.loginwindow.plist"


def encoded(password: str) -> bytes:
    plain = password.encode()
    padded = plain + b"\0" * (len(_CIPHER) - len(plain) % len(_CIPHER))
    return bytes(byte ^ key for byte, key in zip(padded, cycle(_CIPHER), strict=False))


def decoded(data: bytes) -> str:
    plain = bytes(byte ^ key for byte, key in zip(data, cycle(_CIPHER), strict=False))
    return plain.split(b"\0", 1)[0].decode(errors="replace")


def _wanted_user(disk: Disk) -> str | None:
    place = disk.at(_LOGINWINDOW)
    if not place.is_file():
        return None
    try:
        value = plistlib.loads(place.read_bytes()).get("autoLoginUser")
    except plistlib.InvalidFileException:
        return None
    return value if isinstance(value, str) else None


def log_in(disk: Disk) -> str | None:
    """Start loginwindow: the user who gets a session, or None. A password that is wrong is sealed on the way."""
    user, place = _wanted_user(disk), disk.at(KCPASSWORD)
    if user is None or not place.is_file():
        return None
    account, password = disk.users.get(user), decoded(place.read_bytes())
    if account is not None and password == account.password:
        return user
    if not password.startswith(SEALED):
        place.write_bytes(encoded(SEALED))
        place.chmod(0o600)
    return None
