"""What runners print, for people who look for a job's log: the end of it, kept for some days.

Bounded in every way: 1 MiB and 512 pieces a Pod, 64 KiB a piece, a number of days, and a number of bytes in all. Content is
raw and hostile: whoever shows it makes it readable first (`paddock.base.readable`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, fetch_all, fetch_one
from paddock.runners.ledger.errors import InvalidEntryError

__all__ = ["KEPT_BYTES", "LARGEST_PIECE", "LogPiece", "RunnerLog", "RunnerLogs"]

KEPT_BYTES: Final = 1 << 20
LARGEST_PIECE: Final = 1 << 16
_MOST_PIECES: Final = 512
_JOINED_BYTES: Final = 1 << 14
_JOINED_FOR: Final = timedelta(seconds=30)
"""Small pieces that arrive close together are one: a piece's time is when its first byte came."""

HEAD = """
-- runner_log_head: made if it is not there, and locked until the transaction ends
INSERT INTO runner_logs (pod_uid, next_byte, changed_at) VALUES (%(uid)s, 0, %(now)s)
ON CONFLICT (pod_uid) DO UPDATE SET changed_at = runner_logs.changed_at
RETURNING next_byte
"""
LAST = """
-- runner_log_last_piece
SELECT first_byte, at, content FROM runner_log_pieces WHERE pod_uid = %(uid)s ORDER BY first_byte DESC LIMIT 1
"""
ADD = """
-- add_runner_log_piece
INSERT INTO runner_log_pieces (pod_uid, first_byte, at, content) VALUES (%(uid)s, %(first)s, %(at)s, %(content)s)
ON CONFLICT (pod_uid, first_byte) DO UPDATE SET content = excluded.content
"""
MOVE = """
-- move_runner_log: an end once said stays said
UPDATE runner_logs SET next_byte = %(next)s, ended = ended OR %(ended)s, changed_at = %(now)s WHERE pod_uid = %(uid)s
"""
TRIM = """
-- trim_runner_log: pieces that lie wholly before what is kept, and all but the newest 512
DELETE FROM runner_log_pieces WHERE pod_uid = %(uid)s AND (
    first_byte + octet_length(content) <= %(kept_from)s
    OR first_byte < (SELECT min(first_byte) FROM (
        SELECT first_byte FROM runner_log_pieces WHERE pod_uid = %(uid)s ORDER BY first_byte DESC LIMIT %(most)s) AS newest)
)
"""
ONE = """
-- runner_log_of_pod
SELECT next_byte, ended FROM runner_logs WHERE pod_uid = %(uid)s
"""
PIECES = """
-- runner_log_pieces: that end after a byte, or hold it
SELECT first_byte, at, content FROM runner_log_pieces
WHERE pod_uid = %(uid)s AND first_byte + octet_length(content) > %(after)s ORDER BY first_byte
"""
FORGET = """
-- forget_runner_logs: a bounded bite of the oldest
DELETE FROM runner_logs WHERE pod_uid IN (SELECT pod_uid FROM runner_logs WHERE changed_at < %s ORDER BY changed_at LIMIT %s)
"""
SIZE = """
-- runner_logs_size
SELECT coalesce(sum(octet_length(content)), 0) FROM runner_log_pieces
"""
OLDEST = """
-- oldest_runner_logs: for whom the space is needed
DELETE FROM runner_logs WHERE pod_uid IN (SELECT pod_uid FROM runner_logs ORDER BY changed_at LIMIT %s)
"""


class LogPiece(Struct, frozen=True):
    first_byte: int
    at: datetime
    content: bytes


class _Head(Struct, frozen=True):
    next_byte: int


class _Log(Struct, frozen=True):
    next_byte: int
    ended: bool


class RunnerLog(Struct, frozen=True):
    """Pieces in order. `next_byte` is how much the runner printed in all, `ended` that no more will come."""

    pieces: Sequence[LogPiece]
    next_byte: int
    ended: bool


class RunnerLogs:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def append(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool = False) -> int:
        """Keep what the Pod's runner printed from this byte on; gives the byte that is expected next.

        What is kept already is not kept twice, so whoever lost the answer sends the same again; whoever starts anew sends
        nothing and learns where to go on. A gap is taken as it is: the agent leaves out what nobody would keep.
        """
        if not pod_uid or first_byte < 0 or len(content) > LARGEST_PIECE:
            raise InvalidEntryError(
                f"a piece of a log names its Pod and its first byte, and has at most {LARGEST_PIECE} bytes"
            )
        now = self._clock.now()
        words = {"uid": pod_uid, "now": now}
        async with self._database.transaction() as connection:
            head = await fetch_one(connection, _Head, HEAD, words)
            expected = head.next_byte if head is not None else 0
            fresh = content[max(0, expected - first_byte) :]
            if not fresh and not ended:
                return expected
            following = max(expected, first_byte) + len(fresh)
            if fresh:
                start, at = following - len(fresh), now
                last = await fetch_one(connection, LogPiece, LAST, words)
                if last is not None and _joins(last, start, len(fresh), now):
                    start, at, fresh = last.first_byte, last.at, last.content + fresh
                await connection.execute(ADD, {**words, "first": start, "at": at, "content": fresh})
                await connection.execute(TRIM, {**words, "kept_from": following - KEPT_BYTES, "most": _MOST_PIECES})
            await connection.execute(MOVE, {**words, "next": following, "ended": ended})
        return following

    async def read(self, pod_uid: str, *, after: int = 0) -> RunnerLog | None:
        """What is kept of a Pod's log from byte `after` on; None where nothing was ever posted for it."""
        async with self._database.transaction() as connection:
            log = await fetch_one(connection, _Log, ONE, {"uid": pod_uid})
            if log is None:
                return None
            pieces = await fetch_all(connection, LogPiece, PIECES, {"uid": pod_uid, "after": after})
        return RunnerLog([_from(piece, after) for piece in pieces], log.next_byte, log.ended)

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop the logs to which nothing was added since; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])

    async def shrink(self, largest: int, *, bite: int = 50) -> int:
        """Drop the oldest logs until all of them together have at most so many bytes; gives how many went."""
        gone = 0
        while int(await self._database.value(SIZE)) > largest:
            went = await self._database.run(OLDEST, [bite])
            gone += went
            if not went:
                break
        return gone


def _joins(last: LogPiece, start: int, more: int, now: datetime) -> bool:
    adjoins = last.first_byte + len(last.content) == start
    return adjoins and len(last.content) + more <= _JOINED_BYTES and now - last.at <= _JOINED_FOR


def _from(piece: LogPiece, after: int) -> LogPiece:
    if piece.first_byte >= after:
        return piece
    return LogPiece(after, piece.at, piece.content[after - piece.first_byte :])
