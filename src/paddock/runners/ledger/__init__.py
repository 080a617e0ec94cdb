"""The ledger of CI jobs: who waits, who holds what, who was handed a runner, and how it ended. See docs/design/ledger.md.

What is promised, whoever calls, however many at once, and wherever a process dies:

- a Pod has at most one claim or fence, and at most one session in its life; a job has at most one claim;
- a finished job is never queued again;
- what an account holds never exceeds its limit through a claim;
- claim and job move together, release and requeue are one transaction, and each leaves a line in the log;
- a write under a claim that is not current changes nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paddock.runners.ledger.errors import (
    InvalidEntryError,
    JobGoneError,
    LedgerError,
    LedgerForbiddenError,
    LedgerUnavailableError,
    StaleClaimError,
    StaleDeliveryError,
    UnknownAccountError,
)
from paddock.runners.ledger.rows import (
    FINISHED,
    Account,
    Claim,
    ClaimState,
    Completion,
    Delivery,
    Ended,
    Execution,
    Fence,
    HeldPod,
    Job,
    Limit,
    Moved,
    NewJob,
    Outcome,
    Platform,
    Pod,
    Session,
    Tenant,
    Transition,
    Usage,
)

if TYPE_CHECKING:
    from paddock.runners.ledger.claims import LARGEST_BATCH, Scope
    from paddock.runners.ledger.database import Pool, make_pool, prepare
    from paddock.runners.ledger.heals import Heal
    from paddock.runners.ledger.kills import GivenUp, Kill
    from paddock.runners.ledger.ledger import SCHEMA, Ledger
    from paddock.runners.ledger.notifications import EVERY_POOL, Listener
    from paddock.runners.ledger.progress import LONGEST_MARK, ProgressMark
    from paddock.runners.ledger.recovery import PodStopped
    from paddock.runners.ledger.signals import PoolSignals

__all__ = [
    "EVERY_POOL",
    "FINISHED",
    "LARGEST_BATCH",
    "LONGEST_MARK",
    "SCHEMA",
    "Account",
    "Claim",
    "ClaimState",
    "Completion",
    "Delivery",
    "Ended",
    "Execution",
    "Fence",
    "GivenUp",
    "Heal",
    "HeldPod",
    "InvalidEntryError",
    "Job",
    "JobGoneError",
    "Kill",
    "Ledger",
    "LedgerError",
    "LedgerForbiddenError",
    "LedgerUnavailableError",
    "Limit",
    "Listener",
    "Moved",
    "NewJob",
    "Outcome",
    "Platform",
    "Pod",
    "PodStopped",
    "Pool",
    "PoolSignals",
    "ProgressMark",
    "Scope",
    "Session",
    "StaleClaimError",
    "StaleDeliveryError",
    "Tenant",
    "Transition",
    "UnknownAccountError",
    "Usage",
    "make_pool",
    "prepare",
]

# Imported when first used: whoever only reads what the ledger says, as each command does, need not load the database driver.
_LATER = {
    "claims": ("LARGEST_BATCH", "Scope"),
    "database": ("Pool", "make_pool", "prepare"),
    "heals": ("Heal",),
    "kills": ("GivenUp", "Kill"),
    "ledger": ("Ledger", "SCHEMA"),
    "notifications": ("EVERY_POOL", "Listener"),
    "progress": ("LONGEST_MARK", "ProgressMark"),
    "recovery": ("PodStopped",),
    "signals": ("PoolSignals",),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return value
