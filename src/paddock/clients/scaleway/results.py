"""Answers that are no failure, although the server did not do what was asked just now."""

from datetime import datetime

import msgspec

from paddock.clients.scaleway.model import Server

__all__ = ["AlreadyUnderWay", "BelowBillingFloor", "Done", "Gone", "StillThere", "Unknown"]


class Done(msgspec.Struct, frozen=True):
    """The cloud accepted the request. `server` is its answer (without credentials), where it sends one."""

    server: Server | None = None


class AlreadyUnderWay(msgspec.Struct, frozen=True):
    """The cloud is busy with the very thing that was asked for, or with something that includes it."""

    current_state: str


class Gone(msgspec.Struct, frozen=True):
    """There is no such server any more, proven: `evidence` says how, `listed` how many servers the proving list held.

    `listed` is None where the API itself said `not_found` of this server. A caller about to act on many of these at
    once should distrust a list that is suddenly empty.
    """

    evidence: str
    listed: int | None = None


class StillThere(msgspec.Struct, frozen=True):
    """The server exists."""

    server: Server


class Unknown(msgspec.Struct, frozen=True):
    """Nothing could be proven either way: nothing destructive may follow."""

    reason: str


class BelowBillingFloor(msgspec.Struct, frozen=True):
    """The server cannot be deleted yet: schedule the deletion, or keep the server in use until `deletable_at`."""

    message: str
    deletable_at: datetime | None = None
