"""Which SSH keys the project hands to new installs: decided by content. No key is ever deleted: it may be a rival's."""

from collections.abc import Iterable

import msgspec

from paddock.clients.scaleway.errors import InvalidArguments, PreconditionFailed
from paddock.clients.scaleway.model import SSHKey

__all__ = ["KeepKey", "RegisterKey", "decide_ssh_key", "normalised_public_key"]


class KeepKey(msgspec.Struct, frozen=True):
    """The key is registered already."""

    key_id: str


class RegisterKey(msgspec.Struct, frozen=True):
    """The project does not have this key."""


def normalised_public_key(text: str) -> str:
    """`type base64` without the comment and line ends; raises InvalidArguments for what is not a public key."""
    parts = text.split()
    if len(parts) < 2 or not parts[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise InvalidArguments(
            "not an SSH public key: expected something like 'ssh-ed25519 AAAA…'",
            details={"fields": {"public_key": "expected 'type base64 [comment]'"}},
        )
    return f"{parts[0]} {parts[1]}"


def decide_ssh_key(registered: Iterable[SSHKey], public_key: str) -> KeepKey | RegisterKey:
    """Keep the key of this content, whatever its name; otherwise register it beside those that are there.

    A key of the same name with other content belongs to another cluster of the project, or to an older pair: every key of
    the project is put on new installs, so it locks nobody out, and deleting it would lock out whoever uses it. A key that an
    administrator disabled is not ours to enable: that raises, because hosts installed from now on would not know us.
    """
    wanted = normalised_public_key(public_key)
    same = [key for key in registered if _same(key.public_key, wanted)]
    for key in same:
        if not key.disabled:
            return KeepKey(key.id)
    if same:
        raise PreconditionFailed(
            f"the SSH key {same[0].name!r} is disabled in IAM: enable it, or give the fleet another"
        )
    return RegisterKey()


def _same(registered: str, wanted: str) -> bool:
    try:
        return normalised_public_key(registered) == wanted
    except InvalidArguments:
        return False
