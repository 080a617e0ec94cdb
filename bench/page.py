"""The front page of a thousand Macs and five thousand Pods, in a browser that has never seen it, and what it costs the
event loop that serves it.
"""

import importlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from .table import Row, amount

__all__ = ["front"]

_TESTS = Path(__file__).resolve().parent.parent / "tests"
_LONGEST_START = 120.0
_PAINT_GOAL, _TURN_GOAL = 300, 50
_LAG = "paddock_event_loop_longest_lag_seconds{"
_IDLES = """
import select, sys, time
longest = 0.0
while True:
    began = time.perf_counter()
    if select.select([sys.stdin], [], [], 0.005)[0]:
        break
    longest = max(longest, time.perf_counter() - began - 0.005)
print(longest)
"""
_SEEN = """() => new Promise((done) => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1;
  const trip = performance.getEntriesByType("navigation")[0];
  const made = (entries) => done({
    paint, largest: entries.getEntries().at(-1).startTime, head: trip.responseStart, ready: trip.domContentLoadedEventEnd,
    took: document.getElementById("main").dataset.took, tiles: document.querySelectorAll(".tile").length,
    bytes: trip.transferSize,
  });
  new PerformanceObserver(made).observe({ type: "largest-contentful-paint", buffered: true });
})"""


def front(quick: bool) -> Iterator[Row]:
    hosts, pods = (200, 1_000) if quick else (1_000, 5_000)
    size = f"{hosts:,} Macs, {pods:,} Pods"
    with _server(hosts, pods) as address, _browser() as browser, _idler() as idler:
        _visit(browser, address)  # the browser's own start is not ours to make quicker
        alone = [_visit(browser, address) for _ in range(3 if quick else 7)]
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        context.new_page().goto(address)
        beside = [_visit(browser, address) for _ in range(3 if quick else 7)]
        lag, idle = _longest_turn(address), idler()
        context.close()
    assert all(seen["tiles"] == hosts for seen in [*alone, *beside])
    for what, visits in (("nobody else looks", alone), ("beside an open page", beside)):
        paint = statistics.median(seen["paint"] for seen in visits)
        largest = statistics.median(seen["largest"] for seen in visits)
        note = (
            f"{size}; goal {_PAINT_GOAL}; the largest thing {amount(largest)}; median of {len(visits)}; nothing cached"
        )
        yield Row("page", f"first paint, {what}", amount(paint), "ms", note)
    took = sorted(alone, key=lambda seen: seen["paint"])[len(alone) // 2]
    yield Row("page", "the page's HTML", amount(took["bytes"] / 1000), "kB", f"packed; on the server: {took['took']}")
    beside = f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores"
    load = f"goal {_TURN_GOAL}; beside it a process that does nothing was kept waiting for {amount(idle * 1000)} ms: {beside}"
    yield Row("page", "longest block of the event loop", amount(lag * 1000), "ms", load)


def _visit(browser: Any, address: str) -> dict[str, Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{address}/healthz")  # so that the process that draws is there
        time.sleep(1.2)  # what was looked at for the visit before is old by then
        page.goto(address, wait_until="load")
        return page.evaluate(_SEEN)
    finally:
        context.close()


def _longest_turn(address: str) -> float:
    with httpx2.Client(trust_env=False) as client:
        lines = client.get(f"{address}/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(_LAG))


@contextmanager
def _idler() -> Iterator[Callable[[], float]]:
    """A process that only sleeps, and says how much too long at most: that is the machine's doing, and nobody's fault here."""
    process = subprocess.Popen([sys.executable, "-c", _IDLES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield lambda: float(process.communicate(timeout=20)[0])
    finally:
        process.kill()


@contextmanager
def _browser() -> Iterator[Any]:
    sys.path.insert(0, str(_TESTS))
    chromium: Any = importlib.import_module("browser.chromium")
    playwright: Any = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium.chromium(), args=chromium.ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _server(hosts: int, pods: int) -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    program = str(_TESTS / "browser" / "fixture_server.py")
    process = subprocess.Popen([sys.executable, program, str(port), str(hosts), str(pods)], stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _LONGEST_START
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server of the fixture does not answer")
            time.sleep(0.1)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _answers(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/healthz", trust_env=False, timeout=2).status_code == 200
    except httpx2.HTTPError:
        return False
