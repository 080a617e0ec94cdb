"""Metrics: one registry a process, handed around rather than global, so that two processes fit in one test."""

from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

__all__ = ["ALLOWED_KILLS", "CONTENT_TYPE_LATEST", "KILL_PATHS", "CollectorRegistry", "exposition", "live_kills"]

KILL_PATHS: Final = ("reap", "force", "drain_timeout")
"""Every way in which something of ours can end a job: healing was wrong, a person forced it, a machine's limit passed."""
ALLOWED_KILLS: Final = ("force", "drain_timeout")
"""Those that a person, or the limit that a person set, asked for: they are counted, and are no fault of ours."""
_LIVE_KILLS: Final[WeakKeyDictionary[CollectorRegistry, Counter]] = WeakKeyDictionary()


def exposition(registry: CollectorRegistry) -> bytes:
    """The registry in the text form that Prometheus scrapes."""
    return generate_latest(registry)


def live_kills(registry: CollectorRegistry) -> Counter:
    """The one counter of jobs that ended because of us, shared by all of a process; every path is there from the start."""
    found = _LIVE_KILLS.get(registry)
    if found is None:
        found = Counter(
            "paddock_live_kills",
            "Jobs that ended because of something this process did: by healing (reap), by force, by a drain's time limit.",
            ["path"],
            registry=registry,
        )
        for path in KILL_PATHS:
            found.labels(path)
        _LIVE_KILLS[registry] = found
    return found
