"""Starts an embedded Postgres, says its process id and DSN, and waits to be killed: owning_child.py FOLDER."""

import asyncio
import os
import random
import sys
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres


async def main(folder: str) -> None:
    async with EmbeddedPostgres(Path(folder), clock=SystemClock(), chance=random.Random()) as postgres:
        os.write(1, f"{postgres.pid}\n{postgres.dsn}\n".encode())
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main(sys.argv[1]))
