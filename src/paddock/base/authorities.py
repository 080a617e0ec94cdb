"""The authorities of one listener over the years: each is named to its callers long before it signs. Pure but for making keys.

| the one that signs | what is done |
|---|---|
| is in the last third of its five years | the next one is made, and named beside it; nothing else changes |
| and the next one was named for ninety days | the next one signs; the former is trusted until it ends |
| has ended, cannot be read, or is lost | the next one signs, or a new one, at once: callers that know none of it begin anew |

So whoever asks once within ninety days always knows the authority by which it is answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from paddock.base.certificates import SKEW, KeyPair, certificates_in, new_authority, readable, why_old
from paddock.base.secrets import Secret

__all__ = ["NAMED_FOR", "Authorities", "in_pem", "plan"]

NAMED_FOR: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Authorities:
    """`signing` makes certificates, `following` will, `former` did (a certificate alone)."""

    signing: KeyPair
    following: KeyPair | None = None
    former: bytes = b""

    @classmethod
    def of(cls, data: Mapping[str, bytes]) -> "Authorities | None":
        """As a Secret holds them; None where there is no authority that signs."""
        signing = KeyPair.of(data)
        if signing is None:
            return None
        certificate, key = data.get("next.crt", b""), data.get("next.key", b"")
        following = KeyPair(certificate, Secret(key.decode("utf-8", "replace"))) if certificate and key else None
        return cls(replace(signing, trusted=b""), following, data.get("former.crt", b""))

    @property
    def data(self) -> dict[str, bytes]:
        found = {"tls.crt": self.signing.certificate, "tls.key": self.signing.key.reveal().encode()}
        if self.following is not None:
            found |= {"next.crt": self.following.certificate, "next.key": self.following.key.reveal().encode()}
        return found | ({"former.crt": self.former} if self.former else {})

    @property
    def in_force(self) -> bytes:
        """The certificates by which callers check a listener of ours, the one that signs first."""
        return self.signing.certificate + (self.following.certificate if self.following else b"") + self.former


def plan(stored: Authorities | None, now: datetime) -> tuple[Authorities, str]:
    """What should be stored, and why it differs from what is; the reason is empty where nothing changes."""
    if stored is None:
        return Authorities(new_authority(now)), "there is none"
    following = stored.following if stored.following is not None and readable(stored.following) is not None else None
    signing = readable(stored.signing)
    if signing is None:
        return Authorities(following or new_authority(now)), "what is there cannot be read"
    why = why_old(signing, now)
    if not why:
        return _without_the_ended(stored, now)
    if now < signing.not_valid_before_utc or now >= signing.not_valid_after_utc:
        # Nothing that it signs is accepted now, so there is nobody to wait for.
        former = stored.signing.certificate if now < signing.not_valid_after_utc else b""
        return Authorities(following or new_authority(now), None, former), why
    if following is None:
        return replace(stored, following=new_authority(now)), f"{why}, so that the next one is named from now on"
    begins = certificates_in(following.certificate)[0].not_valid_before_utc + SKEW
    if now - begins >= NAMED_FOR:
        return Authorities(following, None, stored.signing.certificate), f"{why}, and the next one is known"
    return _without_the_ended(stored, now)


def _without_the_ended(stored: Authorities, now: datetime) -> tuple[Authorities, str]:
    former = certificates_in(stored.former)
    if stored.former and not (former and now < former[0].not_valid_after_utc):
        return replace(stored, former=b""), "the one before it has ended"
    return stored, ""


def in_pem(trusted: bytes) -> tuple[str, ...]:
    """Each certificate alone, as the answers to Macs name them."""
    end = "-----END CERTIFICATE-----\n"
    return tuple(f"{each}{end}" for each in trusted.decode("ascii", "replace").split(end) if each.strip())
