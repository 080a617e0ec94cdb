"""Text of strangers made safe to show: a terminal obeys control characters, so none but newlines and tabs are left."""

import unicodedata
from collections.abc import Iterable

__all__ = ["readable", "selected", "shown"]


def readable(raw: bytes) -> str:
    """The text, whatever the bytes are. Escape sequences lose their escape, and so their power."""
    return shown(raw.decode("utf-8", "replace"))


def shown(text: str) -> str:
    """The text without what a terminal obeys: control characters, and those that turn the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def selected(log: str, *, tail_lines: int | None = None, limit_bytes: int | None = None) -> str:
    """What `kubectl logs --tail=N --limit-bytes=N` shows of a log. Lines end with a newline and with nothing else."""
    if tail_lines is not None:
        log = "".join(_last_lines(log, tail_lines))
    if limit_bytes is not None:
        log = log.encode()[: max(0, limit_bytes)].decode("utf-8", "ignore")
    return log


def _last_lines(log: str, count: int) -> Iterable[str]:
    lines = [f"{line}\n" for line in log.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines[-count:] if count > 0 else ()
