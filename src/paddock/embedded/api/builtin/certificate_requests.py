"""CertificateSigningRequests: what one must say, and what no client changes afterwards."""

import base64
import binascii
from typing import Any

from cryptography import x509

from paddock.embedded.api.status import Cause

__all__ = ["CERTIFICATES", "csr_causes", "default_csr", "keep_csr"]

_Json = dict[str, Any]

CERTIFICATES = "certificates.k8s.io"
_SHORTEST_SECONDS = 600
_USAGES = frozenset(
    {
        "signing",
        "digital signature",
        "content commitment",
        "key encipherment",
        "key agreement",
        "data encipherment",
        "cert sign",
        "crl sign",
        "encipher only",
        "decipher only",
        "any",
        "server auth",
        "client auth",
        "code signing",
        "email protection",
        "s/mime",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "timestamping",
        "ocsp signing",
        "microsoft sgc",
        "netscape sgc",
    }
)


def default_csr(request: _Json) -> None:
    """A request has no status of its own at first; who asks is written by the server, not here."""
    request.setdefault("spec", {})


def keep_csr(old: _Json, new: _Json) -> None:
    """What was asked for, and by whom, never changes: an approval must mean what was approved."""
    new["spec"] = old.get("spec") or {}


def csr_causes(request: _Json) -> list[Cause]:
    spec = request.get("spec") or {}
    causes: list[Cause] = []
    if not spec.get("signerName") or "/" not in spec["signerName"]:
        causes.append(_wrong("spec.signerName", spec.get("signerName", ""), "must be a domain, a slash and a path"))
    for index, usage in enumerate(spec.get("usages") or ()):
        if usage not in _USAGES:
            causes.append(_wrong(f"spec.usages[{index}]", usage, "is not a known usage"))
    if not spec.get("usages"):
        causes.append(Cause("FieldValueRequired", "Required value", "spec.usages"))
    if (seconds := spec.get("expirationSeconds")) is not None and seconds < _SHORTEST_SECONDS:
        causes.append(_wrong("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds"))
    try:
        x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or "", validate=True))
    except (ValueError, TypeError, binascii.Error):
        causes.append(_wrong("spec.request", "…", "PEM block type must be CERTIFICATE REQUEST"))
    return causes


def _wrong(field: str, value: object, why: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)
