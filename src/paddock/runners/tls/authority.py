"""A small certificate authority for one server, dispatch: what to make, and when. Pure but for the making of keys.

The authority's key is in a Secret that only the operator reads, so that whoever takes dispatch can serve as dispatch until
its certificate ends, and can make no certificate for anybody else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.base.explanation import utc
from paddock.base.secrets import Secret

__all__ = [
    "AUTHORITY_LIFE",
    "SERVING_LIFE",
    "KeyPair",
    "issued",
    "new_authority",
    "why_new_authority",
    "why_new_certificate",
]

AUTHORITY_LIFE: Final = timedelta(days=5 * 365)
SERVING_LIFE: Final = timedelta(days=30)
_SKEW: Final = timedelta(hours=1)
"""How far behind a clock may be that reads a certificate just made."""
_LAST_PART: Final = 3
"""Renewed in the last third of its life."""


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


def why_new_authority(pair: KeyPair | None, now: datetime) -> str:
    """Why another authority has to be made; empty while this one will do."""
    if pair is None:
        return "there is none"
    found = _read(pair)
    if found is None:
        return "what is there cannot be read"
    return _old(found, now)


def why_new_certificate(pair: KeyPair | None, authority: KeyPair, names: Sequence[str], now: datetime) -> str:
    """Why another serving certificate has to be made; empty while this one will do."""
    if pair is None:
        return "there is none"
    found, above = _read(pair), _read(authority)
    if found is None or above is None:
        return "what is there cannot be read"
    if not _signed_by(found, above) or authority.certificate not in pair.trusted:
        return "it is of another authority"
    if missing := sorted(set(names) - _names(found)):
        return f"it is not for {missing[0]}"
    return _old(found, now)


def new_authority(now: datetime) -> KeyPair:
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
    """A serving certificate for these host names. `before` holds the authorities that were trusted so far: the last of them
    stays trusted, so that who has not read the newer one yet is not cut off by an older certificate that is still served.
    """
    signing = serialization.load_pem_private_key(authority.key.reveal().encode(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    above = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paddock-dispatch")])
    made = (
        _builder(subject, above.subject, key, now, min(SERVING_LIFE, above.not_valid_after_utc - now))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return KeyPair(
        made.public_bytes(serialization.Encoding.PEM),
        _pem(key),
        authority.certificate + _latest_other(before, authority),
    )


def _latest_other(before: bytes, authority: KeyPair) -> bytes:
    try:
        kept = [
            pem
            for each in (x509.load_pem_x509_certificates(before) if before else ())
            if (pem := each.public_bytes(serialization.Encoding.PEM)) != authority.certificate
        ]
    except ValueError:
        return b""
    return kept[0] if kept else b""


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _read(pair: KeyPair) -> x509.Certificate | None:
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
    return set(names.get_values_for_type(x509.DNSName))


def _old(found: x509.Certificate, now: datetime) -> str:
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    if begins > now:
        return f"it begins only at {utc(begins)}: the clock that made it was ahead"
    if now >= ends - (ends - begins) / _LAST_PART:
        return f"it ends at {utc(ends)}"
    return ""


def _pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Secret(text.decode())
