"""Whether a Ready host needs the fleet's newer configuration now, later, or not until a person looks.  (pure)

Five failures in a row with one configuration stop the updates, so that a host that runs jobs is not worried for ever.
Two things arm them again: a configuration other than the one that failed (compared with the *failed* hash; compared
with the applied one the count would start over at every pass), or thirty quiet minutes.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from paddock.base.explanation import span
from paddock.hosts.api import MachineStatus
from paddock.hosts.waits import pause_left

__all__ = [
    "DriftLimits",
    "GaveUp",
    "UpToDate",
    "Update",
    "Verdict",
    "WaitUntil",
    "after_failed_update",
    "after_update",
    "decide",
    "given_up",
]


@dataclass(frozen=True, slots=True)
class DriftLimits:
    """`max_failures=0` never gives up; `rearm_after` of zero never re-arms by time alone."""

    max_failures: int = 5
    between_attempts: timedelta = timedelta(seconds=60)
    rearm_after: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The host carries the desired configuration; or nothing is desired."""


@dataclass(frozen=True, slots=True)
class Update:
    """Update now. `failures` is the count to go on from: zero where something re-armed it, and `reason` says what."""

    reason: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Try again at `moment`, not before."""

    moment: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Too many failures with this configuration. `rearms_at` is None where only a new configuration helps."""

    reason: str
    rearms_at: datetime | None = None


Verdict = UpToDate | Update | WaitUntil | GaveUp


def decide(
    *,
    applied: str,
    desired: str,
    failures: int,
    failed: str,
    last_failure: datetime | None,
    now: datetime,
    limits: DriftLimits = DriftLimits(),  # noqa: B008 - frozen
) -> Verdict:
    """What to do about a Ready host whose last applied hash is `applied`.

    An empty `applied` is a host from before hashes were kept: it is updated once. A `failed` hash without a time counts
    as due, because otherwise a record written by an older version would never be tried again.
    """
    if not desired or applied == desired:
        return UpToDate()
    if failures == 0:
        return Update("the fleet's configuration changed" if applied else "no configuration is recorded for this host")
    if failed and failed != desired:
        return Update("a newer configuration than the one that failed is there")
    exhausted = limits.max_failures > 0 and failures >= limits.max_failures
    if not exhausted:
        return _next_attempt(failures, last_failure, now, limits)
    if limits.rearm_after <= timedelta(0):
        return GaveUp(f"{failures} updates in a row failed; only a new configuration starts them again")
    rearms_at = now if last_failure is None else now + pause_left(last_failure, limits.rearm_after, now)
    if now >= rearms_at:
        return Update(f"{span(limits.rearm_after)} have passed since the last of {failures} failures")
    return GaveUp(
        f"{failures} updates in a row failed; the next try is {span(limits.rearm_after)} after the last one, "
        "or as soon as the configuration changes",
        rearms_at,
    )


# What becomes of a machine's status


def after_failed_update(status: MachineStatus, desired: str, failures: int, now: datetime) -> MachineStatus:
    """What failed is remembered beside what the host carries, never in its place: else it would pass for up to date."""
    return replace(
        status,
        update_attempts=failures + 1,
        failed_host_config_hash=desired,
        last_update_failure_time=now.replace(microsecond=0),
    )


def after_update(status: MachineStatus, applied: str) -> MachineStatus:
    """The host carries this configuration, and no failure stands against it."""
    return replace(
        status,
        phase="Ready",
        host_config_hash=applied,
        update_attempts=0,
        failed_host_config_hash="",
        failure_reason="",
        failure_message="",
    )


def given_up(status: MachineStatus, reason: str) -> MachineStatus:
    """Failed, for whoever counts phases, although its Mac works on: nothing more is tried by itself for a while."""
    return replace(status, phase="Failed", failure_reason="UpdateExceededRetries", failure_message=reason)


def _next_attempt(
    failures: int, last_failure: datetime | None, now: datetime, limits: DriftLimits
) -> Update | WaitUntil:
    if last_failure is not None and (left := pause_left(last_failure, limits.between_attempts, now)):
        return WaitUntil(now + left, f"the last update failed ({failures} of {limits.max_failures or 'any number of'})")
    return Update("the last update failed", failures)
