"""Client certificates: whom one speaks for, and how a request for one is signed. Pure given the authority's key.

A certificate cannot be revoked. So what it is good for is looked up at every request (`access`), and none of those that
are signed here lives longer than a day.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.base.secrets import Secret
from paddock.embedded.api.calls import User

__all__ = ["LONGEST", "CertifiedUser", "ClientAuthority", "UnusableRequestError", "read_request", "subject_of"]

LONGEST: Final = timedelta(days=1)
SHORTEST: Final = timedelta(minutes=10)
_AUTHENTICATED = "system:authenticated"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
_FEWEST_RSA_BITS = 2048


class UnusableRequestError(ValueError):
    """The request is not PKCS#10 in PEM, has a key of an unknown kind, or is not signed by the key that it names."""


@dataclass(frozen=True, slots=True)
class CertifiedUser:
    """Who showed a certificate that we signed and that is in force, and since when it is."""

    user: User
    since: datetime


def read_request(pem: bytes) -> x509.CertificateSigningRequest:
    """The request, once it proved that its sender has the key."""
    try:
        request = x509.load_pem_x509_csr(pem)
        proven = request.is_signature_valid
    except UnsupportedAlgorithm as error:
        raise UnusableRequestError(f"the request's key is of a kind that is unknown here ({error})") from None
    except (ValueError, TypeError, InvalidSignature) as error:
        raise UnusableRequestError(f"the request is not PKCS#10 in PEM ({type(error).__name__})") from None
    if not proven:
        raise UnusableRequestError("the request is not signed by the key that it names")
    return request


def subject_of(name: x509.Name) -> tuple[str, tuple[str, ...]]:
    """Common name and organisations: user and groups, in Kubernetes' reading."""
    users = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (str(users[0].value) if len(users) == 1 else ""), tuple(str(group.value) for group in groups)


class ClientAuthority:
    """Knows its own certificates, and makes them. Its repr hides the key."""

    def __init__(self, certificate_pem: bytes, key_pem: Secret) -> None:
        key = serialization.load_pem_private_key(key_pem.reveal().encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._certificate = x509.load_pem_x509_certificate(certificate_pem)

    @classmethod
    def of_folder(cls, folder: Path) -> "ClientAuthority":
        """The authority that `Certificates.ensure` keeps in a data folder."""
        return cls((folder / "ca.crt").read_bytes(), Secret((folder / "ca.key").read_text(encoding="ascii")))

    @classmethod
    def made(cls, now: datetime) -> "ClientAuthority":
        """One that lives as long as this process, for an API without a data folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paddock-clients")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - LONGEST)
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM), Secret(pem.decode()))

    def __repr__(self) -> str:
        return f"ClientAuthority({self._certificate.subject.rfc4514_string()})"

    def identify(self, der: bytes, now: datetime) -> CertifiedUser | None:
        """The holder of a certificate, or None for one that is not ours, not in force, or not for clients."""
        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self._certificate)
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            name, groups = subject_of(certificate.subject)
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return None
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            return None
        if ExtendedKeyUsageOID.CLIENT_AUTH not in usage or not name:
            return None
        shown = f"X509SHA256={hashlib.sha256(der).hexdigest()}"
        user = User(name, (*groups, _AUTHENTICATED), extra={_CREDENTIAL: [shown]})
        return CertifiedUser(user, certificate.not_valid_before_utc)

    def sign(self, request: x509.CertificateSigningRequest, lifetime: timedelta, now: datetime) -> bytes:
        """A client certificate in PEM for the subject that was asked for; extensions of the request are not copied.

        It begins now, not a little earlier as others' do: only this API reads it, and `since` must tell the truth.
        """
        key = request.public_key()
        weak = isinstance(key, rsa.RSAPublicKey) and key.key_size < _FEWEST_RSA_BITS
        if weak or not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise UnusableRequestError("the key is neither RSA of at least 2048 bits nor on an elliptic curve")
        now = now.replace(microsecond=0)
        return (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + min(max(lifetime, SHORTEST), LONGEST))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=False,
                    crl_sign=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
