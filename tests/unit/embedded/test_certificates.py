"""An authority for one machine: made once, closed to others, good for loopback only."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509

from paddock.embedded import certificates
from paddock.embedded.certificates import Certificates, private_file

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    made = Certificates.ensure(tmp_path / "pki", NOW)
    assert mode(tmp_path / "pki") == 0o700
    assert mode(tmp_path / "pki" / "ca.key") == 0o600
    assert mode(made.key) == 0o600


def test_the_authority_stays_and_the_serving_certificate_is_renewed_at_every_start(tmp_path: Path) -> None:
    first = Certificates.ensure(tmp_path, NOW)
    authority, served = first.authority.read_bytes(), first.certificate.read_bytes()
    second = Certificates.ensure(tmp_path, NOW + timedelta(days=300))
    assert second.authority.read_bytes() == authority
    assert second.certificate.read_bytes() != served
    assert read(second.certificate).not_valid_after_utc > NOW + timedelta(days=600)
    read(second.certificate).verify_directly_issued_by(read(second.authority))


@pytest.mark.parametrize("died_before", ["ca.crt", "ca.key"])
def test_a_start_that_died_while_the_authority_was_written_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died_before: str
) -> None:
    write = certificates.private_file

    def dies(path: Path, content: bytes) -> None:
        if path.name == died_before:
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(certificates, "private_file", dies)
        with pytest.raises(KeyboardInterrupt):
            Certificates.ensure(tmp_path, NOW)
    made = Certificates.ensure(tmp_path, NOW)
    read(made.certificate).verify_directly_issued_by(read(made.authority))


def test_an_authority_whose_key_is_lost_is_made_anew(tmp_path: Path) -> None:
    before = Certificates.ensure(tmp_path, NOW).authority.read_bytes()
    (tmp_path / "ca.key").unlink()
    made = Certificates.ensure(tmp_path, NOW)
    assert made.authority.read_bytes() != before
    read(made.certificate).verify_directly_issued_by(read(made.authority))


def test_what_is_served_is_good_for_loopback_and_for_nothing_else(tmp_path: Path) -> None:
    served = read(Certificates.ensure(tmp_path, NOW).certificate)
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert {str(each) for each in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "::1"}
    assert not read(tmp_path / "ca.crt").extensions.get_extension_for_class(x509.BasicConstraints).value.path_length


def test_a_strict_client_accepts_the_pair(tmp_path: Path) -> None:
    made = Certificates.ensure(tmp_path, datetime.now(UTC))
    client = ssl.create_default_context(cafile=str(made.authority))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.certificate, made.key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ours.version() == "TLSv1.3"


@pytest.mark.parametrize("lost", ["ca.key", "ca.crt"])
def test_half_an_authority_is_made_anew(tmp_path: Path, lost: str) -> None:
    Certificates.ensure(tmp_path, NOW)
    (tmp_path / lost).unlink()
    again = Certificates.ensure(tmp_path, NOW)
    read(again.certificate).verify_directly_issued_by(read(again.authority))


def test_a_private_file_is_replaced_whole_even_after_a_draft_was_left_behind(tmp_path: Path) -> None:
    (tmp_path / ".kept.draft").write_bytes(b"half")
    private_file(tmp_path / "kept", b"one")
    private_file(tmp_path / "kept", b"two")
    assert (tmp_path / "kept").read_bytes() == b"two"
    assert mode(tmp_path / "kept") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_private_file_is_never_open_to_others_not_even_over_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o644)
    private_file(path, b"new")
    assert mode(path) == 0o600


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("paddock.example.com", x509.DNSName("paddock.example.com")),
        ("192.0.2.7", x509.IPAddress(ip_address("192.0.2.7"))),
    ],
)
def test_a_name_under_which_macs_reach_it_is_in_the_serving_certificate(tmp_path, name, found):
    served = read(Certificates.ensure(tmp_path, NOW, name).certificate)
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found in names
    assert x509.DNSName("localhost") in names


def test_each_of_several_names_is_in_it_once(tmp_path):
    served = read(Certificates.ensure(tmp_path, NOW, "a.example", "", "b.example", "a.example").certificate)
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "a.example", "b.example"]
