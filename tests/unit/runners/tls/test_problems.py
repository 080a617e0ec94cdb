"""What a person is told whose operator and dispatch cannot speak."""

import ssl
from datetime import UTC, datetime

import pytest

from paddock.runners.tls.problems import refused_token, tls_problem


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
