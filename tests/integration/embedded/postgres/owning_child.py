"""Starts an embedded Postgres, says its process id, and waits for the end of its input: owning_child.py FOLDER [UID].

With a user id it becomes that user first; after all imports, as Python itself may be in a folder that user cannot enter.
"""

import asyncio
import importlib
import os
import random
import sys
from pathlib import Path

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres


async def main(folder: str) -> None:
    async with EmbeddedPostgres(Path(folder), clock=SystemClock(), rng=random.Random()) as postgres:
        os.write(1, f"{postgres.pid}\n".encode())
        await asyncio.to_thread(sys.stdin.read)


if len(sys.argv) > 2:
    for late in ("concurrent.futures.thread", "encodings.ascii"):
        importlib.import_module(late)
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
asyncio.run(main(sys.argv[1]))
