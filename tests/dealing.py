"""The order of a session: what takes longest begins first, one on each worker, so that nobody waits for it at the end.

`--dist worksteal` deals each worker a stretch of the collected tests, all of one length, and an idle worker takes the end of
another's stretch. So the long ones are dealt in turn to the heads of the stretches.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

__all__ = ["LONGEST", "dealt"]

T = TypeVar("T")

LONGEST: Final = (
    "operations/test_soak.py",
    "operations/test_shares.py",
    "operations/",
    "acceptance/test_world.py",
    "unit/project/test_bug_museum.py",
    "unit/hosts/test_model_of_claim_and_release.py",
    "integration/runners/ledger/test_model.py",
    "integration/embedded/store/test_model.py",
)
"""Paths below `tests`, the longest first; each test of them is dealt by itself."""


def dealt(tests: Sequence[T], path: Callable[[T], str], workers: int) -> list[T]:
    """The same tests: at the head of each worker's stretch its share of the longest, then the others as they were."""
    ranks = {
        place: next((rank for rank, start in enumerate(LONGEST) if path(test).startswith(start)), len(LONGEST))
        for place, test in enumerate(tests)
    }
    order = sorted(ranks, key=lambda place: (ranks[place], place))
    first = sum(rank < len(LONGEST) for rank in ranks.values())
    heads = [order[:first][worker::workers] for worker in range(workers)]
    others = order[first:]
    found: list[int] = []
    for worker, head in enumerate(heads):
        # What is left is divided by the workers that are left, as the scheduler does it.
        stretch = (len(tests) - len(found)) // (workers - worker)
        rest = max(0, stretch - len(head))
        found += [*head, *others[:rest]]
        others = others[rest:]
    return [tests[place] for place in found]
