"""Registered runners: their names, who of them is idle, what lists have shown of each, and when one is forgotten."""

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from paddock.base.rng import new_uuid
from paddock.simulator.github.state import GitHubState, Sighting, SimulatedJob, SimulatedRepository, SimulatedRunner
from paddock.simulator.github.timers import Timers

__all__ = ["RunnerRegister", "lowered"]

_FORGOTTEN_AFTER = 600.0  # lists that lag still show a runner that has left


class RunnerRegister:
    """Owns the runners. `nudged` is told of a runner that something happened to, `stir` of every change at all."""

    def __init__(
        self,
        state: GitHubState,
        timers: Timers,
        rng: random.Random,
        nudged: Callable[[int], None],
        stir: Callable[[], None],
    ) -> None:
        self.state = state
        self._timers = timers
        self._rng = rng
        self._nudged = nudged
        self._stir = stir
        self._idle: dict[tuple[str, int, frozenset[str], int], dict[int, None]] = {}

    def restore(self, runner: SimulatedRunner, now: datetime) -> None:
        """Take up a runner of a saved state."""
        if runner.removed:
            self._forget_later(runner, now)
        else:
            self._drop_if_unused(runner, self._unused_until(runner))

    def mint(self, place: str, name: str, labels: list[str], now: datetime, group_id: int = 1) -> SimulatedRunner:
        runner = SimulatedRunner(
            id=self.state.fresh_id(self._rng.randint(1, 9)),
            name=name,
            place=place,
            group_id=group_id,
            labels=labels,
            credential=new_uuid(self._rng),
            created_at=now,
        )
        self.state.runners[runner.id] = runner
        self.state.names.setdefault(place, {})[name.lower()] = runner.id
        self.sighted(runner, now)
        self._drop_if_unused(runner, self._unused_until(runner))
        self._stir()
        return runner

    def remove(self, runner: SimulatedRunner, now: datetime) -> None:
        """Unregister a runner that has nothing to do."""
        if runner.removed:
            return
        self.not_idle(runner)
        self._free_name(runner)
        runner.removed, runner.online = True, False
        self.sighted(runner, now)
        self._forget_later(runner, now)
        self._nudged(runner.id)

    def delist(self, runner: SimulatedRunner, now: datetime) -> None:
        """GitHub no longer shows the runner and offers it nothing, though its process lives and its job goes on."""
        runner.delisted = True
        self.not_idle(runner)
        self.sighted(runner, now)

    def move(self, former: str, place: str) -> None:
        """Runners registered at a place are at this one from now on: its owner or its repository has another name."""
        self.state.names[place] = self.state.names.pop(former, {})
        for runner in self.state.runners.values():
            if runner.place == former:
                runner.place = place
        for key in [key for key in self._idle if key[0] == former]:
            self._idle[place, *key[1:]] = self._idle.pop(key)

    def sees(self, place: str, group_id: int, repository: SimulatedRepository) -> bool:
        """Whether a runner registered there, in that group, serves that repository."""
        if place.lower() == f"repos/{repository.full_name}".lower():
            return True
        owner = self.state.account(repository.owner)
        group = owner.group(group_id) if owner is not None else None
        return place.lower() == f"orgs/{repository.owner}".lower() and group is not None and group.open_to(repository)

    def idle(self, runner: SimulatedRunner) -> None:
        """The runner has nothing to do."""
        self._idle.setdefault(_kind(runner), {})[runner.id] = None

    def not_idle(self, runner: SimulatedRunner) -> None:
        key = _kind(runner)
        if (group := self._idle.get(key)) is not None:
            group.pop(runner.id, None)
            if not group:
                del self._idle[key]

    def sighted(self, runner: SimulatedRunner, now: datetime) -> None:
        gone = runner.removed or runner.delisted
        runner.observations.append(Sighting(at=now, online=runner.online, busy=runner.busy, gone=gone))

    def fitting(self, job: SimulatedJob) -> list[int]:
        """Idle runners that may be offered the job."""
        repository, wanted = self.state.repository(job.repository), lowered(job.labels)
        return [
            runner_id
            for (place, group_id, offered, scale_set_id), idle in self._idle.items()
            if repository is not None
            and scale_set_id == job.scale_set_id
            and wanted <= offered
            and self.sees(place, group_id, repository)
            for runner_id in idle
        ]

    def _unused_until(self, runner: SimulatedRunner) -> datetime:
        return runner.created_at + timedelta(seconds=self.state.behaviour.unused_runner)

    def _drop_if_unused(self, runner: SimulatedRunner, moment: datetime) -> None:
        self._timers.at(moment, partial(self._drop_unused, runner), lambda: not runner.removed)

    def _drop_unused(self, runner: SimulatedRunner, now: datetime) -> None:
        if runner.removed:
            return
        if runner.online or runner.busy:
            self._drop_if_unused(runner, now + timedelta(seconds=self.state.behaviour.unused_runner))
        else:
            self.remove(runner, now)

    def _forget_runner(self, runner: SimulatedRunner, now: datetime) -> None:
        del now
        self.state.runners.pop(runner.id, None)
        self._free_name(runner)

    def _free_name(self, runner: SimulatedRunner) -> None:
        """A name is taken for as long as its runner is registered, and no longer."""
        names = self.state.names.get(runner.place, {})
        if names.get(runner.name.lower()) == runner.id:
            del names[runner.name.lower()]

    def _forget_later(self, runner: SimulatedRunner, now: datetime) -> None:
        after = timedelta(seconds=_FORGOTTEN_AFTER / self.state.behaviour.speed)
        self._timers.at(now + after, partial(self._forget_runner, runner))


def _kind(runner: SimulatedRunner) -> tuple[str, int, frozenset[str], int]:
    return runner.place, runner.group_id, lowered(runner.labels), runner.scale_set_id


def lowered(labels: Iterable[str]) -> frozenset[str]:
    """Labels as GitHub compares them."""
    return frozenset(label.lower() for label in labels)
