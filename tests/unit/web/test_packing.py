"""Pieces that are packed once fit into everybody's stream, and can be read as they come."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator

from paddock.web.compression import packed


async def pieces(*texts: bytes) -> AsyncIterator[bytes]:
    for text in texts:
        yield text


async def test_every_piece_can_be_read_when_it_arrives() -> None:
    texts = [b"head", b"<p>" * 5000, b"foot"]
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    came = [reader.decompress(piece) async for piece in packed(pieces(*texts))]
    assert came == [*texts, b""]
    assert reader.eof


async def test_the_whole_is_a_proper_gzip_file_in_whatever_order_pieces_were_packed_before() -> None:
    one, other = b"one" * 100, b"other" * 100
    for texts in ((one, other), (other, one), (one, one), ()):
        assert gzip.decompress(b"".join([piece async for piece in packed(pieces(*texts))])) == b"".join(texts)
