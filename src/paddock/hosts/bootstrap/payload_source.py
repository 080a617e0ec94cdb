"""A payload's bytes, read beside the operator and proven before they are sent to any host."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

from paddock.hosts.bootstrap.errors import FailureKind, StepFailedError
from paddock.hosts.bootstrap.plan import Payload

__all__ = ["PayloadFiles"]

_PIECE = 256 * 1024


class PayloadFiles:
    """Checks each file once for as long as it does not change, and streams it in pieces: a hundred hosts that are
    updated together do not hold a hundred copies in memory.
    """

    def __init__(self) -> None:
        self._proven: dict[tuple[str, int, int], str] = {}

    async def open(self, payload: Payload) -> AsyncIterator[bytes]:
        """The payload's bytes. Raises StepFailedError (the configuration's fault) if the file is away or another one."""
        path = Path(payload.source)
        try:
            found = await asyncio.to_thread(self._sha256, path)
        except OSError as error:
            raise StepFailedError(
                FailureKind.CONFIGURATION, f"payload {payload.name}: {payload.source} cannot be read: {error.strerror}"
            ) from error
        if found != payload.sha256:
            raise StepFailedError(
                FailureKind.CONFIGURATION,
                f"payload {payload.name}: {payload.source} has the checksum {found}, the configuration names "
                f"{payload.sha256}: correct one of them",
            )
        return _pieces(path)

    def _sha256(self, path: Path) -> str:
        status = path.stat()
        key = (str(path), status.st_mtime_ns, status.st_size)
        if key not in self._proven:
            with path.open("rb") as file:
                self._proven[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._proven[key]


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
    finally:
        await asyncio.to_thread(file.close)
