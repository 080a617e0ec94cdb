"""Whether an operator leads. Where none does every object merely stays as it is, and none of them says so.  (pure)"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import parse_rfc3339
from paddock.base.explanation import span
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Lease, LeaseSpec
from paddock.runners.api import RunnerPool

__all__ = ["leading", "nobody_leads", "observed"]

_SKEW: Final = timedelta(seconds=5)
_LEASE: Final = 15


def nobody_leads(leases: Sequence[Lease], now: datetime, *, observed: bool = False) -> str:
    """Why no operator leads, by all leases of an operator that there are; empty where one does.

    Several namespaces may hold one, of an operator that was moved: whoever renewed last counts. `observed`: some object shows that
    an operator looked at it; then one may lead without a lease, and that there is none proves nothing.
    """
    elected = [lease for lease in leases if _was_held(lease)]
    if not elected:
        return "" if observed or leases else "none has ever led"
    held = [lease.spec for lease in elected if lease.spec.holder_identity and lease.spec.renew_time]
    if not held:
        return "the last one gave its lease back"
    newest = max(held, key=lambda spec: parse_rfc3339(spec.renew_time or ""))
    if (silent := _silent(newest, now)) is not None:
        return f"{(newest.holder_identity or '').partition('_')[0]} was last heard of {span(silent)} ago"
    return ""


def leading(leases: Sequence[Lease], now: datetime) -> list[Lease]:
    """The leases of operators that lead now: by an election that still holds, or without any."""
    return [
        lease
        for lease in leases
        if not _was_held(lease)
        or (lease.spec.holder_identity and lease.spec.renew_time and _silent(lease.spec, now) is None)
    ]


def _was_held(lease: Lease) -> bool:
    """Whether anybody was ever elected by it; an operator that leads without an election only writes notes on it."""
    return bool(lease.spec.renew_time or lease.spec.acquire_time)


def _silent(spec: LeaseSpec, now: datetime) -> timedelta | None:
    """For how long its holder has been silent; None while it holds."""
    silent = now - parse_rfc3339(spec.renew_time or "")
    return silent if silent > timedelta(seconds=spec.lease_duration_seconds or _LEASE) + _SKEW else None


def observed(objects: Iterable[ScalewayAppleSiliconMachine | MacFleet | RunnerPool]) -> bool:
    """Whether an operator has ever looked at one of them."""
    return any(each.status.observed_generation or each.status.conditions for each in objects)
