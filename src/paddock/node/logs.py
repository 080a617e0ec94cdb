"""The agent's own log in a file that does not grow without end."""

import io
from pathlib import Path
from typing import Final

__all__ = ["RotatingLog"]

_LARGEST: Final = 16 * 1024 * 1024
_KEPT: Final = 3


class RotatingLog(io.TextIOBase):
    """A text stream into a file; at 16 MiB the file is put aside, and three of those are kept."""

    def __init__(self, path: Path, *, largest: int = _LARGEST) -> None:
        self._path = path
        self._largest = largest
        self._open()

    def write(self, text: str, /) -> int:
        if self._size > self._largest:
            self._rotate()
        written = self._file.write(text)
        self._size += len(text.encode("utf-8", "replace"))
        return written

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        self._file.close()
        super().close()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8", errors="replace")
        self._size = self._path.stat().st_size

    def _rotate(self) -> None:
        self._file.close()
        for number in range(_KEPT, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        self._open()
