"""Whether the way to the database can be listened on, or be somebody else's: what a DSN says about it. Pure."""

from collections.abc import Mapping
from ipaddress import ip_address

import psycopg
from psycopg.conninfo import conninfo_to_dict

__all__ = ["transport_problem"]

_PROVEN = "verify-full"
_MEANS = {
    "": "encrypts if the server likes (prefer), and believes whoever answers",
    "disable": "sends passwords and names in the clear",
    "allow": "encrypts only if the server insists",
    "prefer": "encrypts if the server likes, and believes whoever answers",
    "require": "encrypts, and believes whoever answers",
    "verify-ca": "believes every server of that authority, whatever its name",
}


def transport_problem(dsn: str, environ: Mapping[str, str] | None = None) -> str:
    """What is wrong with the way to the database, and the remedy; empty where nothing is. Never holds a word of the DSN but
    `sslmode`. A socket and loopback are as safe as the machine.
    """
    environ = environ or {}
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return ""  # whoever connects says so, with the remedy
    hosts = str(parts.get("hostaddr") or parts.get("host") or environ.get("PGHOST", "")).split(",")
    if all(_here(host) for host in hosts):
        return ""
    mode = str(parts.get("sslmode") or environ.get("PGSSLMODE", ""))
    if mode == _PROVEN:
        return ""
    shown = f"sslmode={mode}" if mode in _MEANS and mode else "no sslmode"
    return (
        f"the DSN has {shown}, which {_MEANS.get(mode, 'is none that libpq knows')}: end it with ?sslmode=verify-full, and "
        "sslrootcert=FILE (or sslrootcert=system) for the authority of your Postgres"
    )


def _here(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
