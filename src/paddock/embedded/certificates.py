"""A certificate authority for one machine: made once, kept in the data folder, good for loopback and for the names it is told."""

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates", "private_file"]

_YEAR = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the authority and the serving certificate are. Keys are readable by their owner alone."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def ensure(cls, folder: Path, now: datetime, *also: str) -> "Certificates":
        """The certificates of a data folder, made where they are missing; the serving one is renewed at every start.

        `also` holds host names or addresses under which the server is reached besides loopback.

        The authority stays the same across restarts, so that a kubeconfig handed out once keeps working.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = cls(folder / "ca.crt", folder / "server.crt", folder / "server.key")
        authority_key_file = folder / "ca.key"
        if not made.authority.exists() or not authority_key_file.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            # Without its key a certificate is made anew, so it comes first: died in between, no pair is left that does not fit.
            authority_key_file.unlink(missing_ok=True)
            private_file(made.authority, _authority(key, now).public_bytes(serialization.Encoding.PEM))
            private_file(authority_key_file, _pem(key))
        authority_key = serialization.load_pem_private_key(authority_key_file.read_bytes(), None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
        authority = x509.load_pem_x509_certificate(made.authority.read_bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        private_file(made.key, _pem(key))
        served = _serving(key, authority, authority_key, now, also)
        made.certificate.write_bytes(served.public_bytes(serialization.Encoding.PEM))
        return made


def private_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all, even if the power fails right after it."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(_named("paddock-ca"))
        .issuer_name(_named("paddock-ca"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + 10 * _YEAR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )


def _serving(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    also: Iterable[str],
) -> x509.Certificate:
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    names += [_alternative(name) for name in dict.fromkeys(also) if name]
    return (
        x509.CertificateBuilder()
        .subject_name(_named("paddock-api"))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _YEAR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
