"""A way to a Postgres that a test cuts and opens: a link to the folder of its socket. What is connected stays connected."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ["PASSWORD", "CutWay"]

PASSWORD = "swordfish-of-the-dsn"


class CutWay:
    """It begins cut. The server asks nobody for the password: it is there to be looked for where it may not be."""

    def __init__(self, dsn: str, link: Path) -> None:
        self._server = str(conninfo_to_dict(dsn)["host"])
        self._link = link
        self.dsn = make_conninfo(dsn, host=str(link), password=PASSWORD)

    @classmethod
    @contextmanager
    def to(cls, dsn: str) -> Iterator["CutWay"]:
        # The name of a socket may have a hundred characters: a test's own folder is too deep.
        with tempfile.TemporaryDirectory() as folder:
            yield cls(dsn, Path(folder) / "way")

    def open(self) -> None:
        self._link.symlink_to(self._server)

    def cut(self) -> None:
        self._link.unlink()
