"""Whether a DSN can be meant, decided before anybody quotes it: libpq's own complaints show the password.  (pure)"""

import psycopg
from psycopg.conninfo import conninfo_to_dict

__all__ = ["problem_of_dsn"]


def problem_of_dsn(dsn: str) -> str | None:
    """What is wrong with it, in one sentence that holds nothing of it; None if it can be tried."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "the DSN is none: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    if "@" in str(parts.get("host", ""))[1:] or not str(parts.get("port", "0")).replace(",", "").isdecimal():
        return "the DSN's password holds one of @ : / ? #: write it percent-encoded (@ is %40)"
    return None
