"""What is kept of a command's output, however much it prints."""

from collections import deque

__all__ = ["Head", "Tail"]


class Head:
    """The first `limit` bytes; the rest is counted and dropped, so that a runaway command cannot fill our memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._kept = 0
        self.truncated = False

    def add(self, data: bytes) -> None:
        room = self._limit - self._kept
        if len(data) > room:
            self.truncated = True
            data = data[:room]
        if data:
            self._pieces.append(data)
            self._kept += len(data)

    def text(self) -> str:
        return b"".join(self._pieces).decode(errors="replace")


class Tail:
    """The last `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._kept = 0
        self.truncated = False

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._kept += len(data)
        while self._kept - len(self._pieces[0]) >= self._limit:
            self._kept -= len(self._pieces.popleft())
            self.truncated = True

    def text(self) -> str:
        data = b"".join(self._pieces)
        if len(data) > self._limit:
            self.truncated = True
            data = data[-self._limit :]
        return data.decode(errors="replace")
