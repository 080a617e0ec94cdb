"""Certificates: whom one speaks for, and for how long."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.embedded.api.client_authority import ClientAuthority

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = [(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:mac-1")]


def request_of(subject: list[tuple[x509.ObjectIdentifier, str]]) -> x509.CertificateSigningRequest:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    key = ec.generate_private_key(ec.SECP256R1())
    return x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def test_a_certificate_speaks_for_its_common_name_and_organisations():
    authority = ClientAuthority.made(NOW)
    shown = authority.identify(der(authority.sign(request_of(NODE), timedelta(hours=1), NOW)), NOW)
    assert shown is not None
    assert (shown.user.name, shown.user.groups) == ("system:node:mac-1", ("system:nodes", "system:authenticated"))
    assert shown.since == NOW


def test_no_certificate_lives_longer_than_a_day_whatever_is_asked_for():
    authority = ClientAuthority.made(NOW)
    shown = der(authority.sign(request_of(NODE), timedelta(days=365), NOW))
    assert authority.identify(shown, NOW + timedelta(days=1)) is not None
    assert authority.identify(shown, NOW + timedelta(days=1, seconds=1)) is None
    assert authority.identify(shown, NOW - timedelta(seconds=1)) is None


def test_a_certificate_of_another_authority_of_the_same_name_speaks_for_nobody():
    shown = der(ClientAuthority.made(NOW).sign(request_of(NODE), timedelta(hours=1), NOW))
    assert ClientAuthority.made(NOW).identify(shown, NOW) is None
    assert ClientAuthority.made(NOW).identify(b"junk", NOW) is None


def test_a_subject_with_two_common_names_speaks_for_nobody():
    authority = ClientAuthority.made(NOW)
    two = [*NODE, (NameOID.COMMON_NAME, "system:node:mac-2")]
    assert authority.identify(der(authority.sign(request_of(two), timedelta(hours=1), NOW)), NOW) is None
