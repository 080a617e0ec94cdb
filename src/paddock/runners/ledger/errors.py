"""What the ledger may answer instead of what was asked for. Match by class, never by text."""

__all__ = [
    "InvalidEntryError",
    "JobGoneError",
    "LedgerError",
    "LedgerForbiddenError",
    "LedgerSlowError",
    "LedgerUnavailableError",
    "StaleClaimError",
    "StaleDeliveryError",
    "UnknownAccountError",
]


class LedgerError(Exception):
    """The root of everything that `paddock.runners.ledger` raises."""


class InvalidEntryError(LedgerError):
    """A value cannot be written into the ledger: the message names the field and what it must be. Nothing was written."""


class UnknownAccountError(LedgerError):
    """The account is not enrolled: enrol it first (`ledger.accounts.enrol`), which also gives it its limits."""


class StaleClaimError(LedgerError):
    """The claim is not the Pod's current one any more: someone released it, with a reason that is in the log.

    Hand nothing out that was minted under it, and do not try again with it: its job belongs to another claim by now.
    """


class JobGoneError(LedgerError):
    """The claim stands, but its job finished or runs elsewhere: release the claim, and let the Pod wait for another."""


class StaleDeliveryError(LedgerError):
    """Another worker took this delivery over because this one was too slow: drop it, its outcome is recorded by the other."""


class LedgerForbiddenError(LedgerError):
    """The role that the ledger is opened with lacks a right: somebody has to give it, waiting does not mend it."""


class LedgerUnavailableError(LedgerError):
    """The database went away or did not answer in time, and whether the change was made is not known.

    Every operation of the ledger may be repeated: asked again, it finds what it did, or does it.
    """


class LedgerSlowError(LedgerUnavailableError):
    """The database answers, and did not finish this in the time that it was given."""
