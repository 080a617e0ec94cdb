"""Hosts that nobody owns, that are set aside, or that are not given back."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.orphans import HostState
from paddock.hosts.why import why_host
from paddock.views.folding import Found
from paddock.views.problems.conditions import ready_since
from paddock.views.problems.impact import ASIDE, ORPHANED, POD

__all__ = ["of_hosts"]

_WIPING = timedelta(minutes=45)


def of_hosts(
    hosts: Sequence[ScalewayAppleSiliconHost], machines: Sequence[ScalewayAppleSiliconMachine], now: datetime
) -> Iterable[Found]:
    for host in hosts:
        release = host.spec.release
        if host.spec.quarantine:
            # Since when is written nowhere: the age of its condition is another's.
            why = partial(why_host, host, machines, now)
            yield Found(ASIDE, "quarantined", None, why, f"paddock why host {host.metadata.name}")
        elif release is not None:
            if (asked := release.requested_at) is not None and now - asked > _WIPING:
                yield _host_found(host, machines, now, POD, "being given back", "PaddockPoolRunningDry", asked)
        elif host.status.state == HostState.ORPHANED:
            yield _host_found(host, machines, now, ORPHANED, "stranded", "PaddockStrandedHosts")


def _host_found(
    host: ScalewayAppleSiliconHost,
    machines: Sequence[ScalewayAppleSiliconMachine],
    now: datetime,
    impact: int,
    kind: str,
    runbook: str = "",
    since: datetime | None = None,
) -> Found:
    began, why = since or ready_since(host.status.conditions), partial(why_host, host, machines, now)
    return Found(impact, kind, began, why, f"paddock why host {host.metadata.name}", runbook)
