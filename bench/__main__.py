"""`python -m bench [--quick] [names…]`: runs the benchmarks one after the other and prints one table."""

import argparse
import dataclasses
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from paddock.base import logs

from .table import Part, Row, show

# Parts of one bench, in order: each has a fresh process, so that no memory is counted twice.
BENCHES: dict[str, tuple[str, ...]] = {
    "kube": ("decoding:decoding", "informing:informing"),
    "api": ("serving:serving",),
    "hosts": ("claiming:calls_per_claim", "fleet_at_rest:brought_up", "fleet_at_rest:at_rest", "sweeping:sweeping"),
    "bootstrap": ("bootstrapping:bootstrapping",),
    "dispatch": (
        "dispatching:handing_over",
        "dispatching:burst",
        "claiming_jobs:claiming_jobs",
        "claiming_elsewhere:claiming_elsewhere",
        "waiting_pods:waiting_pods",
        "healing_leaks:healing_leaks",
        "besieged:besieged",
    ),
    "node": ("node:resting", "node:jobs", "node:bundle"),
    "startup": ("starting:starting",),
    "soak": ("soak:soak",),
    "page": ("page:front",),
}
_UNASKED = frozenset({"soak"})
"""Only by name: a day of a thousand Macs takes hours."""
_LONGEST_PART = {"soak:soak": 86_400.0}
_LONGEST = 240.0
_ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"any of: {', '.join(BENCHES)}; all but soak by default"
    )
    parser.add_argument("--quick", action="store_true", help="smaller numbers, to see whether everything works")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.part:
        return _be_part(chosen.part, quick=chosen.quick)
    if wrong := [name for name in chosen.names if name not in BENCHES]:
        parser.error(f"no bench is called {', '.join(wrong)}: choose from {', '.join(BENCHES)}")
    rows: list[Row] = []
    failed = False
    for name in chosen.names or [name for name in BENCHES if name not in _UNASKED]:
        for part in BENCHES[name]:
            began = time.perf_counter()
            print(f"{name}: {part.partition(':')[2].replace('_', ' ')} …", end=" ", flush=True, file=sys.stderr)
            found = _run_part(name, part, quick=chosen.quick)
            failed |= found[-1].unit == "failed"
            rows += found
            print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    show(rows)
    return 1 if failed else 0


def _run_part(name: str, part: str, *, quick: bool) -> list[Row]:
    command = [sys.executable, "-m", "bench", "--part", part, *(["--quick"] if quick else [])]
    longest = _LONGEST_PART.get(part, _LONGEST)
    try:
        done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, timeout=longest, check=False)
    except subprocess.TimeoutExpired:
        return [Row(name, part, "-", "failed", f"took longer than {longest:.0f} s")]
    rows = [Row(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        rows.append(Row(name, part, "-", "failed", "its error is above the table"))
    return rows


def _be_part(part: str, *, quick: bool) -> int:
    logs.set_up(level="error")  # to stderr: stdout is for the findings
    module, _, function = part.partition(":")
    measure: Part = getattr(importlib.import_module(f"bench.{module}"), function)
    for row in measure(quick):
        print(json.dumps(dataclasses.asdict(row)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
