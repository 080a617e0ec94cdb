"""Is this webhook GitHub's? Decided over the raw bytes, before anything is parsed."""

import hashlib
import hmac
from collections.abc import Sequence

from paddock.base.secrets import Secret

__all__ = ["verify"]

_PREFIX = "sha256="


def verify(raw: bytes, header: str | None, secrets: Sequence[Secret]) -> bool:
    """True where `header` (X-Hub-Signature-256) is the HMAC-SHA256 of `raw` under one of the secrets.

    Every secret is tried, also after a match, and each comparison takes the same time wherever the first difference
    is: the time this takes says nothing about which secret is in use or how much of a guess was right. An empty secret
    matches nothing, since anybody could sign with it; SHA-1 signatures are not accepted.
    """
    given = (header or "").encode("utf-8", "surrogatepass")
    matched = False
    for secret in secrets:
        key = secret.reveal().encode()
        expected = (_PREFIX + hmac.new(key, raw, hashlib.sha256).hexdigest()).encode()
        matched |= hmac.compare_digest(given, expected) and bool(key)
    return matched
