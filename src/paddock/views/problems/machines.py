"""Machines that are not Ready and not young."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.why import why_machine
from paddock.kube.conditions import get_condition
from paddock.views.folding import Found
from paddock.views.problem import Ties
from paddock.views.problems.conditions import ready_since
from paddock.views.problems.impact import FAILED, NOT_READY
from paddock.views.under_way import is_on_its_way

__all__ = ["of_machines"]

_OUT_OF_SERVICE = frozenset({"HostInTrouble", "NodeMissing"})
"""Why a machine that was Ready is not."""
_RUNBOOKS = {"NoAvailableHost": "PaddockNoAvailableHost"}


def of_machines(
    machines: Sequence[ScalewayAppleSiliconMachine], hosts: Sequence[ScalewayAppleSiliconHost], now: datetime
) -> Iterable[Found]:
    for machine in machines:
        meta, status = machine.metadata, machine.status
        if status.ready or PAUSED in meta.annotations:
            continue
        ready = get_condition(status.conditions, "Ready")
        reason = ready.reason if ready is not None else ""
        since = meta.deletion_timestamp or ready_since(status.conditions) or meta.creation_timestamp
        if is_on_its_way(machine, now):
            continue
        yield Found(
            FAILED if status.failure_reason else NOT_READY,
            status.failure_reason or ("Deleting" if meta.deletion_timestamp else reason),
            since,
            partial(why_machine, machine, hosts, now),
            f"paddock why machine {meta.name}",
            "PaddockMachineFailed" if status.failure_reason else _RUNBOOKS.get(reason, "PaddockFleetBelowSize"),
            Ties(
                fleet=machine.spec.fleet_name,
                node=meta.name,
                lacks_host=not status.host_name,
                was_in_service=reason in _OUT_OF_SERVICE,
            ),
        )
