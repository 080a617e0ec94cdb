"""Where a job belongs: its pool, and the size that it is counted as."""

from dataclasses import dataclass

from paddock.runners.ledger import Platform, Session
from paddock.runners.webhooks.payload import storable
from paddock.runners.webhooks.routing import Chosen

__all__ = ["Place", "place_in", "place_of", "platform_of"]


@dataclass(frozen=True, slots=True)
class Place:
    account_id: int
    pool: str
    platform: Platform
    vcpus: int
    memory_mb: int
    label: str


def place_in(chosen: Chosen, account_id: int) -> Place:
    """By the pool that its labels choose now."""
    pool = chosen.pool
    return Place(
        account_id,
        pool.metadata.name,
        pool.platform,
        pool.vcpus,
        pool.spec.pod_memory_mb,
        storable(chosen.label),
    )


def place_of(runner: Session) -> Place:
    """By the runner of ours that it was given to."""
    platform = platform_of(runner.platform)
    return Place(runner.account_id, runner.pool, platform, runner.vcpus, runner.memory_mb, "")


def platform_of(text: str) -> Platform:
    return "linux" if text == "linux" else "macos"
