"""Compression of what goes out piece by piece: each piece is packed once, for however many browsers take it.

Pieces are deflated each by itself (a full flush), so the same bytes fit into the stream of every browser, and a browser can
show a piece as soon as it is there. Nothing that holds a secret may be packed together with what a stranger chooses: the
length would tell. The front page and its stream hold none.
"""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

from starlette.requests import Request

__all__ = ["packed", "takes_packed"]

_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
_LAST_BLOCK: Final = b"\x03\x00"
_LEVEL: Final = 5
_LONG: Final = 32_768


def takes_packed(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


async def packed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces as one gzip stream, each readable when it arrives."""
    check, size, before = 0, 0, _HEAD
    async for piece in pieces:
        check, size = zlib.crc32(piece, check), size + len(piece)
        # A thousand Macs take their time, and nobody else is answered meanwhile: such a piece is packed in a thread.
        yield before + (await asyncio.to_thread(_deflated, piece) if len(piece) > _LONG else _deflated(piece))
        before = b""
    yield before + _LAST_BLOCK + struct.pack("<II", check, size & 0xFFFFFFFF)


@lru_cache(maxsize=32)
def _deflated(piece: bytes) -> bytes:
    # Open pages are sent the same object, whose hash is kept with it: finding it here costs next to nothing.
    pack = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return pack.compress(piece) + pack.flush(zlib.Z_FULL_FLUSH)
