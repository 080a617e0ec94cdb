"""When a bootstrap keeps failing: wait, reboot once, give the host back. Pure.

Tier 2 is judged before tier 1, so that it wins even when the reboot never succeeded. Thresholds of zero disable a tier.
A threshold is compared with >=, so that an API error at the threshold is tried again rather than skipped.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.base.explanation import span
from paddock.hosts.api import BOOTSTRAPPED, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.errors import FailureKind
from paddock.hosts.breaker import Halt
from paddock.hosts.waits import pause_left

__all__ = [
    "GiveBack",
    "Reboot",
    "Recovery",
    "Retry",
    "Tiers",
    "after_failure",
    "sealed_for_too_long",
    "seconds_until_retry",
    "wiped_for_its_key",
]


@dataclass(frozen=True, slots=True)
class Tiers:
    """The operator's thresholds."""

    reboot_after: int = 3
    max_attempts: int = 8
    sealed_timeout: timedelta = timedelta(minutes=15)
    retry_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again on the same host after a while."""

    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class Reboot:
    """Ask for the one reboot of this host: it clears lock-outs, hung daemons and half-open sessions."""

    message: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give the host back to be wiped, and claim another."""

    message: str


Recovery = Retry | Reboot | GiveBack


def after_failure(attempts: int, *, reboot_issued: bool, can_release: bool, tiers: Tiers) -> Recovery:
    """What follows the `attempts`-th failure in a row on one host."""
    if tiers.max_attempts > 0 and attempts >= tiers.max_attempts and can_release:
        return GiveBack(
            f"{attempts} bootstraps failed in a row: the host is given back and wiped, another one is claimed"
        )
    if tiers.reboot_after > 0 and attempts >= tiers.reboot_after and not reboot_issued:
        return Reboot(f"{attempts} bootstraps failed in a row: the host is rebooted once")
    return Retry(
        tiers.retry_seconds, _what_next(attempts, reboot_issued=reboot_issued, can_release=can_release, tiers=tiers)
    )


def wiped_for_its_key(
    machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost, halt: Halt | None, reason: str
) -> str:
    """Why a host that refuses the fleet's key is installed anew at once; empty where it is not.

    The keys of the project are put on a disk when it is installed, so one that was wiped before this fleet had its key
    refuses it for ever, and no waiting and no reboot helps. Only one on which this machine never worked, and once for each
    claim: where the key is not with the cloud, another wipe would change nothing. None while the fleet is halted.
    """
    worked = machine.status.host_config_hash or machine.metadata.annotations.get(BOOTSTRAPPED)
    if (
        reason != FailureKind.AUTH_REFUSED
        or worked
        or machine.status.reinstalled_at
        or host.status.unwipeable
        or halt is not None
    ):
        return ""
    return (
        "it was installed before the fleet's SSH key was with the cloud, and refuses it; nothing ran there for this machine, "
        "so it is installed anew, which puts the key on it"
    )


def _what_next(attempts: int, *, reboot_issued: bool, can_release: bool, tiers: Tiers) -> str:
    """The sentence that tells a person what will happen by itself."""
    plans = []
    if tiers.reboot_after > 0 and not reboot_issued:
        plans.append(f"rebooted after {tiers.reboot_after}")
    if tiers.max_attempts > 0 and can_release:
        plans.append(f"given back after {tiers.max_attempts}")
    after = (
        f"; it is {' and '.join(plans)} failures" if plans else "; no recovery tier is left, so it is tried for ever"
    )
    return f"attempt {attempts} failed, the next is in {span(tiers.retry_seconds)}{after}"


def seconds_until_retry(failed_at: datetime | None, now: datetime, tiers: Tiers) -> float:
    """How long the next bootstrap must still wait; zero when it may begin.

    The distance is kept by the time of the failure and not by a timer, because writing the failure down already wakes
    the controller, and because a new leader has no timers.
    """
    return (
        0.0 if failed_at is None else pause_left(failed_at, timedelta(seconds=tiers.retry_seconds), now).total_seconds()
    )


def sealed_for_too_long(missing_since: datetime | None, now: datetime, tiers: Tiers) -> bool:
    """Whether a password has been missing for so long that it counts as a failed bootstrap. Sudo is never tried."""
    return missing_since is not None and now - missing_since >= tiers.sealed_timeout
