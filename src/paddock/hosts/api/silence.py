"""For how long a Mac has been silent. Whoever acts on silence asks here, and nobody reads a Node's times for it. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import parse_rfc3339
from paddock.kube.builtin import Lease, Node

__all__ = ["ALIVE", "GATEWAY_LEASES", "SERVED_SINCE", "served_since", "silent_for"]

GATEWAY_LEASES: Final = "paddock-gateway-"
"""How the name of a gateway's Lease begins."""
SERVED_SINCE: Final = "tuist.dev/served-since"
"""On a gateway's Lease: since when some replica served, and requests from outside came through, without a gap."""
ALIVE: Final = timedelta(seconds=60)
"""A gateway whose Lease is older has died, or cannot reach the API server: it proves nothing any more. Nor does one that is as far
ahead: a clock was wrong when it was written, and while it lies ahead nobody can tell whether its gateway lives.
"""


def served_since(leases: Iterable[Lease], now: datetime) -> datetime | None:
    """Since when Macs could be heard; None where that is not known to be so now."""
    found: list[datetime] = []
    for lease in leases:
        if not lease.metadata.name.startswith(GATEWAY_LEASES):
            continue
        try:
            renewed = parse_rfc3339(lease.spec.renew_time or "")
            since = parse_rfc3339(lease.metadata.annotations.get(SERVED_SINCE, ""))
        except ValueError:
            continue  # what cannot be read proves nothing
        if abs(now - renewed) <= ALIVE:
            found.append(since)
    return min(found, default=None)


def silent_for(node: Node, leases: Iterable[Lease], now: datetime) -> timedelta:
    """How long the Mac could have been heard and was not. Zero while its silence may be the gateway's own.

    A Node whose Ready is False is not silent: its agent said so.
    """
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status != "Unknown" or ready.last_transition_time is None:
        return timedelta()
    heard_from = served_since(leases, now)
    if heard_from is None:
        return timedelta()
    return max(timedelta(), now - max(ready.last_transition_time, heard_from))
