"""String formats of OpenAPI schemas that the real server checks. A format it does not know, it ignores."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

__all__ = ["format_check"]

_UUID: Final = "[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DURATION: Final = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_SPOKEN_DURATION: Final = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_UNITS: Final = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_SPOKEN_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
# Letters and symbols of any script count as parts of a host name, in its last label letters alone.
_SIGN: Final = r"a-zA-Z0-9$+<=>^`|~\u00a1-\U0010ffff"
_HOSTNAME: Final = re.compile(
    rf"[{_SIGN}](-?[{_SIGN}]{{0,62}})?|([{_SIGN}]([-{_SIGN}]{{0,61}}[{_SIGN}])?\.)+[a-zA-Z\u00aa-\U0010ffff]{{2,63}}"
)
_CREDIT_CARD: Final = re.compile(
    r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}"
    r"|(2131|1800|35[0-9]{3})[0-9]{11}"
)
_BYTE: Final = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_MAC: Final = re.compile(
    r"([0-9A-Fa-f]{2}([:-]))([0-9A-Fa-f]{2}\2){4,18}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2,9}[0-9A-Fa-f]{4}"
    r"|[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40}"
)
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


def _full(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _is_date_time(text: str) -> bool:
    day, separator, time = text.lower().partition("t")
    if not separator or not _is_date(day):
        return False
    match = _TIME.fullmatch(time)
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_duration(text: str) -> bool:
    """Go's own form, or words: one number with a unit that is known makes it a duration."""
    if _DURATION.fullmatch(text) is not None:
        return True
    units = [unit.lower() for unit in _SPOKEN_DURATION.findall(text)]
    return any(unit in _UNITS or unit.startswith(_SPOKEN_UNITS) for unit in units)


def _is_ipv4(text: str) -> bool:
    """Leading zeros are let through, and so is an IPv4 address in IPv6 clothes."""
    plain = re.sub(r"(?<![0-9])0+(?=[0-9])", "", text)
    return "." in text and (_is_ip(plain, 4) or _is_ip(text, 6))


def _is_ip(text: str, version: int) -> bool:
    if "%" in text:
        return False
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_cidr(text: str) -> bool:
    address, separator, bits = text.partition("/")
    if not separator or not bits.isdecimal():
        return False
    try:
        ipaddress.ip_network(f"{address}/{bits}", strict=False)
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    """A request URI: absolute, or a path from the root."""
    if not text or any(c.isspace() or ord(c) < 0x20 for c in text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_email(text: str) -> bool:
    address = parseaddr(text)[1]
    local, separator, domain = address.rpartition("@")
    return bool(separator and local and domain)


def _is_byte(text: str) -> bool:
    if not text:
        return False
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None and all(len(p) <= 63 for p in text.split("."))


def _digits(text: str) -> str:
    return re.sub(r"[\s-]", "", text)


def _is_isbn10(text: str) -> bool:
    number = _digits(text)
    if re.fullmatch(r"[0-9]{9}[0-9Xx]", number) is None:
        return False
    values = [10 if c in "Xx" else int(c) for c in number]
    return sum((10 - i) * value for i, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    number = _digits(text)
    if re.fullmatch(r"[0-9]{13}", number) is None:
        return False
    return sum(int(c) * (3 if i % 2 else 1) for i, c in enumerate(number)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    number = re.sub(r"[^0-9]", "", text)
    if _CREDIT_CARD.fullmatch(number) is None:
        return False
    doubled = [int(c) * (2 if i % 2 else 1) for i, c in enumerate(reversed(number))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _full("[0-9a-fA-F]{24}"),
    "byte": _is_byte,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _full("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": lambda text: _is_ip(text, 6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": lambda _text: True,
    "rgbcolor": _full(rf"rgb\(\s*({_BYTE}\s*,\s*){{2}}{_BYTE}\s*\)"),
    "ssn": _full(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _is_uri,
    "uuid": _full(_UUID % ("[0-9a-f]", "[0-9a-f]"), re.IGNORECASE),
    "uuid3": _full(_UUID % ("3", "[0-9a-f]"), re.IGNORECASE),
    "uuid4": _full(_UUID % ("4", "[89ab]"), re.IGNORECASE),
    "uuid5": _full(_UUID % ("5", "[89ab]"), re.IGNORECASE),
}


def format_check(name: str) -> Callable[[str], bool] | None:
    """The check for a format, or None for one that is not checked. `date-time` and `datetime` are the same."""
    return _CHECKS.get(name.replace("-", ""))
