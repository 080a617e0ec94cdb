"""When a certificate is made anew, and what a person is told who has a wrong one."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from doubles.clocks import NOON

from paddock.base.secrets import Secret
from paddock.runners.tls.authority import (
    AUTHORITY_LIFE,
    SERVING_LIFE,
    KeyPair,
    issued,
    new_authority,
    why_new_authority,
    why_new_certificate,
)
from paddock.runners.tls.problems import refused_token, tls_problem

NAMES = ["paddock-dispatch.macs.svc", "paddock-dispatch.macs.svc.cluster.local"]
AUTHORITY = new_authority(NOON)
PAIR = issued(AUTHORITY, NAMES, NOON)


def test_what_was_just_made_will_do() -> None:
    assert why_new_authority(AUTHORITY, NOON) == ""
    assert why_new_certificate(PAIR, AUTHORITY, NAMES, NOON) == ""


@pytest.mark.parametrize(("share", "renewed"), [(0.5, False), (0.66, False), (0.67, True), (1.1, True)])
def test_a_certificate_is_renewed_in_the_last_third_of_its_life(share: float, renewed: bool) -> None:
    at = NOON - timedelta(hours=1) + share * (SERVING_LIFE + timedelta(hours=1))
    assert bool(why_new_certificate(PAIR, AUTHORITY, NAMES, at)) is renewed
    at = NOON - timedelta(hours=1) + share * (AUTHORITY_LIFE + timedelta(hours=1))
    assert bool(why_new_authority(AUTHORITY, at)) is renewed


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (None, "there is none"),
        (KeyPair(b"junk", Secret("junk")), "cannot be read"),
        (KeyPair(PAIR.certificate, AUTHORITY.key, PAIR.trusted), "cannot be read"),
        (issued(new_authority(NOON), NAMES, NOON), "another authority"),
        (issued(AUTHORITY, NAMES[:1], NOON), f"not for {NAMES[1]}"),
        (issued(AUTHORITY, NAMES, NOON + timedelta(days=2)), "the clock that made it was ahead"),
    ],
)
def test_a_certificate_that_will_not_do_is_replaced_and_the_reason_said(pair: KeyPair | None, why: str) -> None:
    assert why in why_new_certificate(pair, AUTHORITY, NAMES, NOON)


def test_who_trusts_the_older_authority_is_not_cut_off_by_a_newer_one() -> None:
    newer = new_authority(NOON)
    trusted = issued(newer, NAMES, NOON, before=PAIR.trusted).trusted
    assert x509.load_pem_x509_certificates(trusted) == x509.load_pem_x509_certificates(
        newer.certificate + AUTHORITY.certificate
    )
    newest = new_authority(NOON)
    assert len(x509.load_pem_x509_certificates(issued(newest, NAMES, NOON, before=trusted).trusted)) == 2


def test_a_certificate_of_dispatch_serves_dispatch_and_makes_no_others() -> None:
    served = x509.load_pem_x509_certificate(PAIR.certificate)
    assert served.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usages = served.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [usage.dotted_string for usage in usages] == ["1.3.6.1.5.5.7.3.1"]
    assert AUTHORITY.key.reveal() not in "".join(value.decode() for value in PAIR.data.values())


def test_no_key_shows_in_what_is_printed() -> None:
    assert "PRIVATE" not in repr(PAIR)


@pytest.mark.parametrize(
    ("code", "said"),
    [(10, "has expired"), (9, "NTP"), (62, "another name"), (20, "--dispatch-ca-file"), (99, "code 99")],
)
def test_each_refused_certificate_is_explained(code: int, said: str) -> None:
    refused = ssl.SSLCertVerificationError("certificate verify failed")
    refused.verify_code = code
    wrapped = ConnectionError("connect failed")
    wrapped.__cause__ = refused
    assert said in tls_problem(wrapped)


def test_other_failures_are_none_of_tls() -> None:
    assert tls_problem(ConnectionRefusedError()) == ""


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Mon, 01 Jun 2026 12:00:05 GMT", "audience paddock-dispatch-operator"),
        ("", "audience paddock-dispatch-operator"),
        ("Mon, 01 Jun 2026 11:50:00 GMT", "600 s ahead of dispatch's"),
        ("Mon, 01 Jun 2026 13:00:00 GMT", "3600 s behind dispatch's"),
    ],
)
def test_a_refused_token_is_explained_by_audience_or_clock(date: str, said: str) -> None:
    assert said in refused_token(date, datetime(2026, 6, 1, 12, tzinfo=UTC))
