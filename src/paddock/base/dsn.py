"""How we reach a Postgres: whether a DSN can be meant, and lines on which neither side waits for the other after it vanished."""

import asyncio
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

__all__ = ["Connection", "connect", "line_options", "notice_our_end", "problem_of_dsn"]

T = TypeVar("T")
_NOTICED_BY_US: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A server that vanishes without a word (a failover, a cut line) is noticed within seconds. By its defaults the system would
keep a statement waiting for two hours, and whoever made it: a pass of healing has no deadline of its own."""
_NOTICED_BY_THE_SERVER: Final = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""A machine of ours that loses its power is noticed as soon. By its own settings the server would keep the session for two hours,
and with it the locks: the store would have no other owner, healing's turns no other taker."""


def problem_of_dsn(dsn: str) -> str | None:
    """What is wrong with it, in one sentence that holds nothing of it; None if it can be tried. libpq's own complaints show the password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN is none: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    if "@" in str(parts.get("host", ""))[1:] or not str(parts.get("port", "0")).replace(",", "").isdecimal():
        return "the DSN's password holds one of @ : / ? #: write it percent-encoded (@ is %40)"
    return None


def line_options(conninfo: str) -> dict[str, int]:
    """What every connection of ours is opened with. What the DSN itself says about a lost server counts."""
    said = conninfo_to_dict(conninfo)
    return {name: value for name, value in _NOTICED_BY_US.items() if name not in said}


async def notice_our_end(connection: psycopg.AsyncConnection[Any]) -> None:
    """Have the server notice when we vanish. What the DSN's own `options` say counts.

    By a statement, because a pooler in session mode refuses a startup packet with options that it does not know. Whoever holds a
    lock took it after this.
    """
    told = connection.info.options
    wanted = {name: value for name, value in _NOTICED_BY_THE_SERVER.items() if name not in told}
    await connection.execute(
        "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)",
        [list(wanted), list(wanted.values())],
    )


class Connection(psycopg.AsyncConnection[Any]):
    """A connection that is closed when its statement is still under way after a cancellation: nobody else can use it.

    psycopg asks the server to cancel the statement and waits for that. Cancelled once more meanwhile, it would leave the
    statement running, try to roll back behind it, and tell of each in lines of its own.
    """

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        try:
            return await super().wait(gen, interval, timeout)
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise


async def connect(conninfo: str, *, application_name: str, **options: Any) -> Connection:
    """A connection of ours outside every pool. psycopg's errors are raised as they are."""
    connection = await Connection.connect(
        conninfo, autocommit=True, application_name=application_name, **line_options(conninfo), **options
    )
    try:
        await notice_our_end(connection)
    except BaseException:
        await connection.close()
        raise
    return connection
