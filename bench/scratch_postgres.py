"""A real Postgres of the bench's own: made for one part, gone after it."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.embedded.postgres import EmbeddedPostgres

__all__ = ["scratch_folder", "scratch_postgres"]


def scratch_folder() -> Path:
    """A new folder that the account which the server runs as can enter, also where the bench runs as root."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-bench-"))
    folder.chmod(0o755)
    return folder


@asynccontextmanager
async def scratch_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """As `paddock up` runs it, with its settings: what is committed is on the disk."""
    folder = scratch_folder()
    try:
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=seeded(1)) as postgres:
            yield postgres
    finally:
        shutil.rmtree(folder)
