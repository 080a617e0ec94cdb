"""What runners print is kept once, in order, and within bounds."""

import asyncio
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import Bench
from prometheus_client import CollectorRegistry

from paddock.runners.api.settings import Retention
from paddock.runners.ledger import InvalidEntryError
from paddock.runners.ledger.retention import RetentionWorker
from paddock.runners.ledger.runner_logs import KEPT_BYTES, LARGEST_PIECE

POD = "uid-1"


async def _text(bench: Bench, uid: str = POD, after: int = 0) -> bytes:
    log = await bench.ledger.runner_logs.read(uid, after=after)
    assert log is not None
    return b"".join(piece.content for piece in log.pieces)


async def test_a_piece_that_is_sent_twice_is_kept_once(bench: Bench) -> None:
    logs = bench.ledger.runner_logs
    assert await logs.read(POD) is None
    assert await logs.append(POD, 0, b"one\n") == 4
    assert await logs.append(POD, 0, b"one\n") == 4
    assert await logs.append(POD, 0, b"one\ntwo\n") == 8
    assert await logs.append(POD, 0, b"") == 8
    assert await _text(bench) == b"one\ntwo\n"
    assert await _text(bench, after=5) == b"wo\n"
    assert await logs.read("uid-2") is None


async def test_an_end_once_said_stays_said(bench: Bench) -> None:
    logs = bench.ledger.runner_logs
    await logs.append(POD, 0, b"bye\n", ended=True)
    await logs.append(POD, 0, b"bye\n")
    log = await logs.read(POD)
    assert log is not None
    assert (log.ended, log.next_byte) == (True, 4)


async def test_the_end_of_a_log_is_kept_and_no_more_than_a_mebibyte(bench: Bench) -> None:
    logs, position = bench.ledger.runner_logs, 0
    for number in range(40):
        bench.clock.advance(1.0)
        position = await logs.append(POD, position, bytes([65 + number % 26]) * LARGEST_PIECE)
    kept = await _text(bench)
    assert KEPT_BYTES <= len(kept) <= KEPT_BYTES + LARGEST_PIECE
    assert kept.endswith(bytes([65 + 39 % 26]) * LARGEST_PIECE)
    log = await logs.read(POD)
    assert log is not None
    assert log.next_byte == 40 * LARGEST_PIECE


async def test_many_small_pieces_are_few_rows(bench: Bench) -> None:
    logs, position = bench.ledger.runner_logs, 0
    for _ in range(60):
        bench.clock.advance(1.0)
        position = await logs.append(POD, position, b"x\n")
    log = await logs.read(POD)
    assert log is not None
    assert len(log.pieces) <= 3
    assert await _text(bench) == b"x\n" * 60


@pytest.mark.parametrize(
    ("uid", "first", "content"), [("", 0, b"x"), (POD, -1, b"x"), (POD, 0, b"x" * (LARGEST_PIECE + 1))]
)
async def test_what_cannot_be_a_piece_is_refused(bench: Bench, uid: str, first: int, content: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        await bench.ledger.runner_logs.append(uid, first, content)


async def test_any_bytes_are_kept_as_they_are(bench: Bench) -> None:
    content = bytes(range(256))
    await bench.ledger.runner_logs.append(POD, 0, content)
    assert await _text(bench) == content


async def test_two_agents_that_send_at_once_leave_one_log(bench: Bench) -> None:
    whole = b"".join(b"line %d\n" % number for number in range(200))

    async def send(step: int) -> None:
        for first in range(0, len(whole), step):
            await bench.ledger.runner_logs.append(POD, first, whole[first : first + step])

    await asyncio.gather(send(97), send(131))
    assert await _text(bench) == whole


async def test_logs_go_after_a_week_and_when_there_are_too_many(bench: Bench) -> None:
    logs = bench.ledger.runner_logs
    for number in range(6):
        await logs.append(f"uid-{number}", 0, b"x" * 1000)
        bench.clock.advance(timedelta(days=2).total_seconds())
    worker = RetentionWorker(bench.ledger, Retention(), bench.clock, CollectorRegistry())
    assert (await worker.forget())["runner_logs"] == 3
    assert await logs.read("uid-2") is None
    assert await logs.read("uid-3") is not None
    assert await logs.shrink(2000, bite=1) == 1
    assert await logs.read("uid-3") is None
    assert await logs.read("uid-5") is not None
