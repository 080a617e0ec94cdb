"""What can go wrong with a simulation itself, as opposed to what it simulates."""

__all__ = [
    "BusyLoopError",
    "DeadlockError",
    "LeftoverTasksError",
    "NotRepeatableError",
    "RealWaitError",
    "SimulationError",
    "TimeLimitError",
    "UnhandledError",
]


class SimulationError(Exception):
    """The root of every error about a simulated run; the message says what to change, the notes name the seed."""


class DeadlockError(SimulationError):
    """Every task waits and no timer is set: nothing can ever happen again. The message shows where each task waits."""


class TimeLimitError(SimulationError):
    """The run would pass its limit of virtual seconds. Raise `limit`, or find what was awaited in vain in the message."""


class BusyLoopError(SimulationError):
    """A great many steps ran without any time passing: some task polls with `sleep(0)`. Let it wait for an event."""


class RealWaitError(SimulationError):
    """Simulated code reached for the real world: a thread, a socket, a child process or a blocking sleep.

    Such a wait takes no virtual time and ends in an order no seed decides. Put the effect behind its client Protocol and
    give the simulation a simulator of it. The run ends with this error even where the code under test swallows it.
    """


class LeftoverTasksError(SimulationError):
    """The main coroutine ended and others still waited. Cancel and await what was started, or pass `leftovers="cancel"`."""


class UnhandledError(SimulationError):
    """A callback failed, or a task failed and no code looked at it. The first such failure is the cause of this error."""


class NotRepeatableError(SimulationError):
    """A scenario made other calls when it was run again. It depends on something that the seed does not decide."""
