"""Writes as fast as it can and says what was acknowledged, until someone kills it: writing_child.py DSN SCHEMA LIFE."""

import asyncio
import os
import random
import sys

from paddock.base.clock import SystemClock
from paddock.embedded.store import Key
from paddock.embedded.store.postgres import PostgresStore


async def main(dsn: str, schema: str, life: str) -> None:
    store = await PostgresStore.open(dsn, clock=SystemClock(), rng=random.Random(), schema=schema)

    async def write(writer: int) -> None:
        n = 0
        while True:
            name = f"life{life}-w{writer}-{n}"
            record = await store.create(Key("pods", "default", name), {"spec": {"n": n}})
            os.write(1, f"{name} {record.revision}\n".encode())
            n += 1

    await asyncio.gather(*(write(writer) for writer in range(8)))


asyncio.run(main(*sys.argv[1:]))
