"""A Mac's past from the ledger: the machines that it was, its jobs, its failures, how long it was up and what it cost. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.runners.ledger.mac_states import MacStretch, RanOnMac, Stay

__all__ = ["Life", "MacPast", "cost_of", "past_of", "stays_of"]

_UP = frozenset({"busy", "ready", "draining"})
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Life:
    """The time in which the Mac was one machine: from its claim until it was given back; `until` is None while it lasts."""

    machine: str
    fleet: str
    began: datetime
    until: datetime | None
    up: timedelta
    busy: timedelta
    recoveries: int
    """How often it had to be brought back."""
    jobs: int
    failed_jobs: int


@dataclass(frozen=True, slots=True)
class MacPast:
    """What is known since `since`, newest first. `cost` is in the currency of the host's price; 0 while that is not known."""

    since: datetime
    lives: tuple[Life, ...]
    jobs: tuple[RanOnMac, ...]
    known: timedelta
    up: timedelta
    busy: timedelta
    recoveries: int
    cost: float
    cost_busy: float
    price: float

    @property
    def uptime(self) -> float:
        """The part of the known time in which it could run a job, from 0 to 1."""
        return self.up / self.known if self.known else 0.0


def past_of(
    stretches: Sequence[MacStretch], ran: Sequence[RanOnMac], counts: Sequence[tuple[int, int]], now: datetime
) -> MacPast | None:
    """None where nothing was written down. `counts` are jobs and failed jobs of each stay, in the order of `stays_of`."""
    if not stretches:
        return None
    lasted = [((one.until or now) - one.at, one) for one in stretches]
    price = next((one.price for one in sorted(stretches, key=lambda one: one.at, reverse=True) if one.price), 0.0)
    return MacPast(
        since=min(one.at for one in stretches),
        lives=tuple(_life(run, *count, now) for run, count in zip(_runs(stretches), counts, strict=True)),
        jobs=tuple(ran),
        known=sum((length for length, _ in lasted), timedelta()),
        up=_sum(lasted, _UP),
        busy=_sum(lasted, frozenset({"busy"})),
        recoveries=sum(one.state == "failing" for one in stretches),
        cost=sum(cost_of(length, one.price) for length, one in lasted),
        cost_busy=sum(cost_of(length, one.price) for length, one in lasted if one.state == "busy"),
        price=price,
    )


def stays_of(stretches: Sequence[MacStretch], now: datetime) -> list[Stay]:
    """Which Node the Mac was, from when until when."""
    return [(run[0].machine, run[0].at, run[-1].until or now) for run in _runs(stretches)]


def cost_of(length: timedelta, price: float) -> float:
    return length / _HOUR * price


def _runs(stretches: Sequence[MacStretch]) -> list[list[MacStretch]]:
    """Stretches of one machine, one after the other; newest machine first, within it oldest first."""
    runs: list[list[MacStretch]] = []
    for one in sorted(stretches, key=lambda stretch: stretch.at):
        if not one.machine:
            runs.append([])
        elif runs and runs[-1] and runs[-1][-1].machine == one.machine:
            runs[-1].append(one)
        else:
            runs.append([one])
    return [run for run in reversed(runs) if run]


def _life(run: Sequence[MacStretch], jobs: int, failed: int, now: datetime) -> Life:
    began, until = run[0].at, run[-1].until
    lasted = [((one.until or now) - one.at, one) for one in run]
    return Life(
        machine=run[0].machine,
        fleet=run[-1].fleet,
        began=began,
        until=until,
        up=_sum(lasted, _UP),
        busy=_sum(lasted, frozenset({"busy"})),
        recoveries=sum(one.state == "failing" for one in run),
        jobs=jobs,
        failed_jobs=failed,
    )


def _sum(lasted: Sequence[tuple[timedelta, MacStretch]], states: frozenset[str]) -> timedelta:
    return sum((length for length, one in lasted if one.state in states), timedelta())
