"""When a host's SSH key may be believed without having been seen before. (pure)

A Mac's host key is made by its install, and the cloud does not say which one it is. So the first key that is seen is believed only
within a window after an install that we asked for (or after a host came to us), and pinned then; the window and its reason
are kept on the Host. A host that was not spoken to in that time is not believed later: whoever answers at its address by
then may be anybody. Nothing secret is sent before a key is pinned, and the pinned key is checked before anything is.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import span, utc
from paddock.hosts.api import FirstContact, ScalewayAppleSiliconHost

__all__ = ["EXPIRED", "TRUSTED_KEY", "WINDOW", "Believe", "Known", "Refuse", "first_contact", "opened"]

Host = ScalewayAppleSiliconHost
WINDOW: Final = timedelta(hours=2)
EXPIRED: Final = "FirstContactExpired"
"""The reason of a machine whose host is not dialled, because nobody knows its key."""
TRUSTED_KEY: Final = "tuist.dev/trust-host-key"
"""On a Host: the fingerprint that a person vouches for (`SHA256:…`)."""


@dataclass(frozen=True, slots=True)
class Known:
    """A key is pinned, or a person vouches for one: no other is accepted."""

    host_key: str


@dataclass(frozen=True, slots=True)
class Believe:
    """The first key that is seen now is the host's."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Refuse:
    message: str


def opened(now: datetime, evidence: str) -> FirstContact:
    """A window that begins now."""
    now = now.replace(microsecond=0)
    return FirstContact(opened_at=now, until=now + WINDOW, evidence=evidence)


def first_contact(host: Host, now: datetime) -> Known | Believe | Refuse:
    """Whether the host may be dialled, and which key it must show."""
    if host.status.host_key:
        return Known(host.status.host_key)
    contact = host.status.first_contact
    if contact is not None and contact.until is not None and now < contact.until:
        return Believe(contact.until)
    if vouched := host.metadata.annotations.get(TRUSTED_KEY, ""):
        return Known(vouched)
    if contact is None or contact.until is None:
        return Refuse(f"no install of host {host.metadata.name} is on record, so that {_remedy(host)}")
    return Refuse(
        f"host {host.metadata.name} showed no SSH key before {utc(contact.until)}, "
        f"{_window(contact)} after {contact.evidence}, so that {_remedy(host)}"
    )


def _window(contact: FirstContact) -> str:
    if contact.opened_at is None or contact.until is None:
        return "some time"
    return span(contact.until - contact.opened_at)


def _remedy(host: Host) -> str:
    name = host.metadata.name
    return (
        "whoever answers there now is not believed: release it, which reinstalls it, or read its fingerprint on the Mac's "
        f"console and say `kubectl annotate sash {name} {TRUSTED_KEY}=SHA256:…`"
    )
