"""Faults on order: each is used up as it strikes, and nothing meets more than one.

For faults between two ends that know nothing of the service, wrap the transport in
`paddock.simulator.faulty_transport.FaultyTransport`; these happen inside, where what is asked for is known by its name.
"""

import random
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

__all__ = ["OrderedFault", "OrderedFaults"]


class OrderedFault(msgspec.Struct, kw_only=True):
    """One thing that goes wrong: what it meets, when, and how often. A service's own fault also says what it is.

    Without `operations` it meets every one. `skip` lets the first few pass, `times` is how often it strikes (None for
    ever), `probability` how likely each time. `after_effect` lets the service do its work first and spoils only the answer.
    """

    operations: tuple[str, ...] = ()
    after_effect: bool = False
    times: int | None = 1
    skip: int = 0
    probability: float = 1.0
    delay: float = 0.0

    def strikes(self, rng: random.Random) -> bool:
        """Whether it happens to what it meets now; counts down what it lets pass and what it strikes."""
        if self.skip > 0:
            self.skip -= 1
            return False
        # A certain fault draws nothing, so that ordering one leaves the rest of a seeded run alone.
        if self.probability < 1.0 and rng.random() >= self.probability:
            return False
        if self.times is not None:
            self.times -= 1
        return True

    @property
    def spent(self) -> bool:
        return self.times is not None and self.times <= 0


F = TypeVar("F", bound=OrderedFault)


class OrderedFaults(Generic[F]):
    """The faults on order. Whatever is asked of a service meets at most one: the oldest that fits and strikes."""

    def __init__(self) -> None:
        self.pending: list[F] = []

    def take(self, operation: str, rng: random.Random, fits: Callable[[F], bool]) -> F | None:
        """The fault that this operation meets, if any; it is taken off the book once it is spent."""
        for fault in self.pending:
            if fault.operations and operation not in fault.operations:
                continue
            if fits(fault) and fault.strikes(rng):
                self.pending = [other for other in self.pending if not other.spent]
                return fault
        return None
