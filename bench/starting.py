"""From the command to a page that shows live objects, on a new data folder and on one that was used before."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from .table import Row, amount

__all__ = ["starting"]

_PADDOCK = Path(sys.executable).with_name("paddock")
_LONGEST = 60.0


def starting(quick: bool) -> Iterator[Row]:
    times = 3 if quick else 5
    bare = min(_run([sys.executable, "-c", "pass"]) for _ in range(times))
    helped = min(_run([str(_PADDOCK), "--help"]) for _ in range(times))
    note = f"{helped / bare:.1f}× an empty Python ({bare * 1000:.0f} ms); best of {times}"
    yield Row("startup", "paddock --help", amount(helped * 1000), "ms", note)
    folder = Path(tempfile.mkdtemp(prefix="paddock-bench-"))
    folder.chmod(0o755)
    try:
        cold, stop = _up(folder / "data")
        yield Row(
            "startup", "paddock up, new folder", amount(cold), "s", "to a page with 20 live Macs; must be below 10"
        )
        warm = [_up(folder / "data") for _ in range(1 if quick else 2)]
        best = min(seconds for seconds, _ in warm)
        yield Row("startup", "paddock up, used folder", amount(best), "s", f"{best / cold:.2f}× a new one")
        longest = max(stop, *(seconds for _, seconds in warm))
        yield Row("startup", "Ctrl-C to the end", amount(longest), "s", "the longest of them; must be below 5")
    finally:
        shutil.rmtree(folder)


def _run(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _up(data: Path) -> tuple[float, float]:
    """Seconds from the command to a page with every Mac, and from Ctrl-C to the end."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [_PADDOCK, "up", "--simulate", "--port", "0", "--kube-port", "0", "--data", data],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        page = next(found[0] for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
        with httpx2.Client(trust_env=False) as client:
            while client.get(page).text.count('class="tile"') < 20:
                if time.perf_counter() - began > _LONGEST:
                    raise TimeoutError("the page shows no Macs")
                time.sleep(0.05)
        seconds = time.perf_counter() - began
    finally:
        asked = time.perf_counter()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    return seconds, time.perf_counter() - asked
