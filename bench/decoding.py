"""A LIST of 10,000 objects: into frozen structs, into dicts, and as the standard library does it."""

import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.kube.decoding import page_of

from .objects import listing
from .table import Row, amount

__all__ = ["decoding"]


def decoding(quick: bool) -> Iterator[Row]:
    count = 2_000 if quick else 10_000
    body = msgspec.json.encode(listing(count))
    ways: dict[str, Callable[[], Any]] = {
        "structs (paddock.kube)": lambda: page_of(ScalewayAppleSiliconHost, body),
        "dicts (msgspec)": lambda: msgspec.json.decode(body),
        "dicts (json)": lambda: json.loads(body),
    }
    times = {name: _best(way) for name, way in ways.items()}
    kept = {name: _kept(way) for name, way in ways.items()}
    slowest, largest = times["dicts (json)"], kept["dicts (json)"]
    what = f"decode a LIST of {count:,}"
    for name in ways:
        faster, smaller = slowest / times[name], kept[name] / largest
        note = f"{name}: {faster:.1f}× as fast as json, {smaller:.2f}× the memory ({kept[name] / 1e6:.1f} MB)"
        yield Row("kube", what, amount(times[name] * 1000), "ms", note + f"; {len(body) / 1e6:.1f} MB of JSON")


def _best(way: Callable[[], Any], times: int = 5) -> float:
    best = float("inf")
    for _ in range(times):
        gc.collect()
        began = time.perf_counter()
        held = way()
        best = min(best, time.perf_counter() - began)
        del held
    return best


def _kept(way: Callable[[], Any]) -> int:
    """Bytes that the result holds."""
    gc.collect()
    tracemalloc.start()
    held = way()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del held
    return size
