"""Whoever means dispatch no good, in a process of its own: slow and junk connections, as many as asked for, until its input ends.

It comes after the others at the machine's cores, so that what is measured is the server and not the generator, and says, for
each line of its input, how much it did so far.

A sixth each: connections that say nothing, that send their head byte by byte, that promise a body and never send it, that send
rubbish, that show tokens which somebody made up, and that forge deliveries of GitHub. Each that is ended by the other side is
opened again.
"""

import asyncio
import base64
import contextlib
import json
import os
import sys
import time
from collections import Counter

from paddock.runners.api import AUDIENCE

from .dispatch_server import allow_many_sockets

__all__: list[str] = []

_OPENED_AT_ONCE = 64
_HEAD = b"POST /api/internal/runners/dispatch HTTP/1.1\r\nhost: dispatch\r\n"
_FORGED = (
    b"POST /webhooks/github HTTP/1.1\r\nhost: dispatch\r\nx-github-event: ping\r\nx-github-delivery: forged\r\n"
    b"x-hub-signature-256: sha256=" + b"0" * 64 + b"\r\ncontent-length: 2\r\n\r\n{}"
)


def _made_up(number: int) -> str:
    """A token that claims to be good, for this audience and until tomorrow, of a Pod that nobody knows, by an unknown key."""
    facts = {
        "namespace": "default",
        "serviceaccount": {"name": "p", "uid": "u"},
        "pod": {"name": "p", "uid": str(number)},
    }
    claims = {"aud": [AUDIENCE], "exp": time.time() + 86_400, "kubernetes.io": facts}
    claims["sub"] = "system:serviceaccount:default:p"
    parts = ({"alg": "ES256", "kid": f"made-up-{number}", "typ": "JWT"}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), "AAAA"]
    )


async def _one(port: int, number: int, opened: asyncio.Semaphore, counts: Counter[str]) -> None:
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with opened:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                counts["connections"] += 1
            try:
                await _misbehave(reader, writer, number, counts)
            finally:
                writer.close()
        await asyncio.sleep(1.0)


async def _misbehave(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, counts: Counter[str]
) -> None:
    match number % 6:
        case 0:
            await reader.read()
        case 1:
            writer.write(_HEAD)
            while not reader.at_eof():
                writer.write(b"x-slow: 1\r\n")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 2.0)
        case 2:
            writer.write(_HEAD + b"content-length: 100000\r\n\r\n{")
            await reader.read()
        case 3:
            writer.write(b"\x16\x03\x01" + b"A" * 100_000)
            await reader.read()
        case 4:
            await _repeated(_FORGED, reader, writer, counts, "forged deliveries")
        case _:
            mark = b'{"mark":"1 running"}'
            head = f"authorization: Bearer {_made_up(number)}\r\ncontent-length: {len(mark)}\r\n\r\n".encode()
            request = _HEAD.replace(b"dispatch HTTP", b"pods/log HTTP") + head + mark
            await _repeated(request, reader, writer, counts, "made-up tokens")


async def _repeated(
    request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: Counter[str], what: str
) -> None:
    while not reader.at_eof():
        writer.write(request)
        counts[what] += 1
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(1.0)


async def main(port: int, count: int) -> None:
    allow_many_sockets()
    opened, counts = asyncio.Semaphore(_OPENED_AT_ONCE), Counter[str]()
    tasks = [asyncio.create_task(_one(port, number, opened, counts)) for number in range(count)]
    while counts["connections"] < count:
        await asyncio.sleep(0.1)
    print("there", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(counts), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)  # where the kernel knows nothing below that
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
