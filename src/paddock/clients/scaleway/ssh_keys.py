"""Which SSH keys the project hands to new installs: decided by name and content."""

from collections.abc import Iterable

import msgspec

from paddock.clients.scaleway.errors import InvalidArguments, PreconditionFailed
from paddock.clients.scaleway.model import SSHKey

__all__ = ["KeepKey", "ReplaceKeys", "decide_ssh_key", "normalised_public_key"]


class KeepKey(msgspec.Struct, frozen=True):
    """The key is registered already."""

    key_id: str


class ReplaceKeys(msgspec.Struct, frozen=True):
    """Delete these, then register ours. With nothing stale, only register."""

    stale: tuple[str, ...]


def normalised_public_key(text: str) -> str:
    """`type base64` without the comment and line ends; raises InvalidArguments for what is not a public key."""
    parts = text.split()
    if len(parts) < 2 or not parts[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise InvalidArguments(
            "not an SSH public key: expected something like 'ssh-ed25519 AAAA…'",
            details={"fields": {"public_key": "expected 'type base64 [comment]'"}},
        )
    return f"{parts[0]} {parts[1]}"


def decide_ssh_key(registered: Iterable[SSHKey], name: str, public_key: str) -> KeepKey | ReplaceKeys:
    """Keep the key of exactly this name and content; a key of this name with other content is stale.

    A stale key means that a host will let in another user and lock us out, so it goes. A key that an administrator
    disabled is not ours to enable: that raises, because hosts installed from now on would not know us.
    """
    wanted = normalised_public_key(public_key)
    namesakes = [key for key in registered if key.name == name]
    for key in namesakes:
        if _same(key.public_key, wanted):
            if key.disabled:
                raise PreconditionFailed(f"the SSH key {name!r} is disabled in IAM: enable it, or choose another name")
            return KeepKey(key.id)
    return ReplaceKeys(tuple(key.id for key in namesakes))


def _same(registered: str, wanted: str) -> bool:
    try:
        return normalised_public_key(registered) == wanted
    except InvalidArguments:
        return False
