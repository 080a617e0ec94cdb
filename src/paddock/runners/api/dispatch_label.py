"""Which of several pools keeps a dispatch label that they share. Routing, scale sets, the condition and doctor ask this.  (pure)

Whoever makes a second pool, or gives one the label of another, must not stop the first: the pool that has had the label
longest keeps it, and gets every job that carries it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from paddock.runners.api.runner_pool import RunnerPool

__all__ = ["another_keeps", "had_label_since", "label_keeper"]

_EVER = datetime.min.replace(tzinfo=UTC)
_JUST_NOW = datetime.max.replace(tzinfo=UTC)


def had_label_since(pool: RunnerPool) -> datetime:
    """Since when the pool has its dispatch label: by its status; before that says anything, since it was made."""
    status, made = pool.status, pool.metadata.creation_timestamp or _EVER
    if not status.dispatch_label:
        return made
    if status.dispatch_label.lower() != pool.spec.dispatch_label.lower():
        return _JUST_NOW
    return status.dispatch_label_since or made


def label_keeper(pools: Iterable[RunnerPool], label: str) -> RunnerPool | None:
    """The pool that jobs with this label go to; None where no pool that stands has it. Labels do not differ by case."""
    wanted = label.lower()
    having = [
        pool
        for pool in pools
        if pool.metadata.deletion_timestamp is None and pool.spec.dispatch_label.lower() == wanted
    ]
    return min(having, key=_rank, default=None)


def another_keeps(pool: RunnerPool, keeper: RunnerPool) -> str:
    """What it means for a pool that another has had its label for longer."""
    return (
        f"pool {keeper.metadata.name} has had the dispatch label {pool.spec.dispatch_label!r} for longer and gets its jobs, "
        f"pool {pool.metadata.name} gets none of them: give {pool.metadata.name} another dispatchLabel"
    )


def _rank(pool: RunnerPool) -> tuple[datetime, datetime, str]:
    return had_label_since(pool), pool.metadata.creation_timestamp or _EVER, pool.metadata.name
