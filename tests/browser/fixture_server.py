"""Serves a fixture world of any size on loopback, in which a few jobs end and begin every second.

python tests/browser/fixture_server.py PORT HOSTS PODS
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from unit.web.page_fixture import fixture_pages, page_data

from paddock.base.clock import SystemClock
from paddock.base.event_loop import report_turns, run_measured
from paddock.base.http_server import bind, listening
from paddock.base.metrics import CollectorRegistry
from paddock.web.app import create_app
from paddock.web.page_data import PageData

_TURN = 0.5
_TURNS = 30


async def main(port: int, worlds: Sequence[PageData]) -> None:
    turn = 0
    pages = fixture_pages(lambda: worlds[turn % len(worlds)])
    registry = CollectorRegistry()
    report_turns(registry, "fixture")
    app = create_app(pages, registry, healthy=lambda: None)
    running = asyncio.create_task(pages.live.run())
    async with listening(app, bind(port, "PORT")):
        while not running.done():
            await asyncio.sleep(_TURN)
            turn += 1
            pages.live.touch()


def fixture_worlds(hosts: int, pods: int) -> list[PageData]:
    """Made beforehand: what is measured is the page, and not the fixture. `run_measured` leaves them out of its searches for cycles:
    a real process holds one world and not thirty.
    """
    now = SystemClock().now()
    return [page_data(hosts, pods, now, turn=turn) for turn in range(_TURNS)]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run_measured(main(int(sys.argv[1]), fixture_worlds(int(sys.argv[2]), int(sys.argv[3]))))
