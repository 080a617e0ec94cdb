"""Certificates that we make for our own listeners: what to make, and when. Pure but for the making of keys.

Whoever takes a serving key can serve under its names until its certificate ends, and can make no certificate for anybody else: the
authority's key lies elsewhere (`paddock.base.authorities`).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.base.secrets import Secret

__all__ = [
    "AUTHORITY_LIFE",
    "SERVING_LIFE",
    "SKEW",
    "KeyPair",
    "certificates_in",
    "issued",
    "misfit",
    "new_authority",
    "readable",
    "why_new_certificate",
    "why_old",
]

AUTHORITY_LIFE: Final = timedelta(days=5 * 365)
SERVING_LIFE: Final = timedelta(days=30)
SKEW: Final = timedelta(hours=1)
"""How far behind a clock may be that reads a certificate just made."""
_LAST_PART: Final = 3
"""Renewed in the last third of its life."""
_MOST_TRUSTED: Final = 4


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (PEM) and its key. `trusted` holds the authorities by which it is to be checked, newest first."""

    certificate: bytes
    key: Secret
    trusted: bytes = b""

    @classmethod
    def of(cls, data: Mapping[str, bytes]) -> "KeyPair | None":
        """As a Secret of the type `kubernetes.io/tls` holds it; None where a part is missing."""
        certificate, key = data.get("tls.crt", b""), data.get("tls.key", b"")
        if not certificate or not key:
            return None
        return cls(certificate, Secret(key.decode("utf-8", "replace")), data.get("ca.crt", b""))

    @property
    def data(self) -> dict[str, bytes]:
        return {"tls.crt": self.certificate, "tls.key": self.key.reveal().encode(), "ca.crt": self.trusted}


def why_new_certificate(
    pair: KeyPair | None, authority: KeyPair, names: Sequence[str], now: datetime, *, in_force: bytes = b""
) -> str:
    """Why another serving certificate has to be made; empty while this one will do. It is for exactly these names and addresses,
    and is handed out with every authority that is `in_force`.
    """
    if pair is None:
        return "there is none"
    found, above = readable(pair), readable(authority)
    if found is None or above is None:
        return "what is there cannot be read"
    trusted = certificates_in(pair.trusted)
    if not _signed_by(found, above) or above not in trusted:
        return "it is of another authority"
    if any(each not in trusted for each in certificates_in(in_force)):
        return "there is a new authority beside its own"
    wanted, has = {_canonical(name) for name in names}, _names(found)
    if missing := sorted(wanted - has):
        return f"it is not for {missing[0]}"
    if surplus := sorted(has - wanted):
        return f"it is also for {surplus[0]}"
    return why_old(found, now)


def misfit(certificate: bytes, address: str) -> str:
    """Why a certificate (PEM) does not fit the host name or IP address under which it is served, in one sentence; empty where it
    fits.
    """
    found = certificates_in(certificate)
    if not found:
        return "what is served there is no certificate that can be read"
    wanted, has = _canonical(address), _names(found[0])
    if wanted in has or (not _is_address(wanted) and f"*.{wanted.partition('.')[2]}" in has):
        return ""
    of = ", ".join(sorted(has)) or "no name at all"
    return (
        f"the certificate that is served under {wanted} is for {of}: whatever ends TLS in between is not ours, and must pass the "
        "connection through"
    )


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """The certificates in their order; none where one of them cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem) if pem else []
    except ValueError:
        return []


def new_authority(now: datetime) -> KeyPair:
    """Each has a key identifier of its own, so that of two with one name the right one is found."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paddock-dispatch-ca")])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    made = (
        _builder(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(made.public_bytes(serialization.Encoding.PEM), _pem(key))


def issued(authority: KeyPair, names: Sequence[str], now: datetime, *, before: bytes = b"") -> KeyPair:
    """A serving certificate for exactly these host names and IP addresses. `before` holds other authorities that are trusted, now
    or so far: they are handed out with it until they end, so that who has read one of them is not cut off.
    """
    signing = serialization.load_pem_private_key(authority.key.reveal().encode(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    above = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paddock-dispatch")])
    made = (
        _builder(subject, above.subject, key, now, min(SERVING_LIFE, above.not_valid_after_utc - now))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return KeyPair(
        made.public_bytes(serialization.Encoding.PEM),
        _pem(key),
        authority.certificate + _others(before, authority, now),
    )


def _others(before: bytes, authority: KeyPair, now: datetime) -> bytes:
    seen, kept = {authority.certificate}, list[bytes]()
    for each in certificates_in(before):
        pem = each.public_bytes(serialization.Encoding.PEM)
        if pem not in seen and now < each.not_valid_after_utc:
            kept.append(pem)
        seen.add(pem)
    return b"".join(kept[: _MOST_TRUSTED - 1])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _canonical(name: str) -> str:
    return str(ipaddress.ip_address(name)) if _is_address(name) else name.lower().removesuffix(".")


def _alternative(name: str) -> x509.GeneralName:
    name = _canonical(name)
    return x509.IPAddress(ipaddress.ip_address(name)) if _is_address(name) else x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )


def readable(pair: KeyPair) -> x509.Certificate | None:
    """The certificate, if its key is the one beside it."""
    try:
        found = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key.reveal().encode(), None)
    except (ValueError, TypeError):
        return None
    return found if isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == found.public_key() else None


def _signed_by(found: x509.Certificate, above: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(found: x509.Certificate) -> set[str]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    return {name.lower() for name in names.get_values_for_type(x509.DNSName)} | addresses


def why_old(found: x509.Certificate, now: datetime) -> str:
    """Why a certificate is to be followed by another; empty before the last third of its life."""
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    if begins > now:
        return f"it begins only at {begins:%Y-%m-%d %H:%M} UTC: the clock that made it was ahead"
    if now >= ends - (ends - begins) / _LAST_PART:
        return f"it ends at {ends:%Y-%m-%d %H:%M} UTC"
    return ""


def _pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Secret(text.decode())
