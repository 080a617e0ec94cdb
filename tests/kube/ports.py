"""Ports of loopback for programs that must be told theirs before they listen."""

import os
import random
import socket
from typing import Final

__all__ = ["free_port"]

# Below those that Linux gives out by itself, so that no client's connection has one meanwhile; and each worker of a session
# has some of its own, so that two that look at once do not find the same.
_FIRST: Final = 12_000
_OF_A_WORKER: Final = 2_000
_WORKERS: Final = 10
_draw = random.SystemRandom()


def free_port() -> int:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    first = _FIRST + worker * _OF_A_WORKER
    for port in _draw.sample(range(first, first + _OF_A_WORKER), _OF_A_WORKER):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {first} on is free")
