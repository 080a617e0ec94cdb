"""What dispatch says of its own ways in and out, and what `doctor` makes of it."""

from datetime import timedelta
from pathlib import Path

import pytest
from doubles.clocks import NOON

from paddock.base.certificates import SERVING_LIFE, issued, new_authority
from paddock.runners.http.concerns import certificate_concern, database_concern, unopened_concern
from paddock.runners.ledger.opening import Unopened

CERTIFICATE = issued(new_authority(NOON), ["d.svc"], NOON).certificate


@pytest.mark.parametrize(
    ("later", "found", "well"),
    [
        (timedelta(0), "TLS, by a certificate until", True),
        (SERVING_LIFE - timedelta(days=2), "is not renewed", False),
        (SERVING_LIFE + timedelta(days=1), "has expired", False),
        (-timedelta(days=1), "begins only at", False),
    ],
)
def test_a_certificate_is_told_by_its_times(tmp_path: Path, later: timedelta, found: str, well: bool) -> None:
    file = tmp_path / "tls.crt"
    file.write_bytes(CERTIFICATE)
    concern = certificate_concern(file, NOON + later)
    assert found in concern.found
    assert bool(concern.fix) is not well


def test_a_missing_certificate_and_a_missing_listener_are_told_with_their_remedies(tmp_path: Path) -> None:
    assert "no certificate that can be read" in certificate_concern(tmp_path / "tls.crt", NOON).found
    assert "dispatch.tls.enabled" in certificate_concern(None, NOON).fix


def test_the_database_is_told_without_its_password() -> None:
    concern = database_concern("postgresql://p:hunter2@db.example.com/p?sslmode=require")
    assert "sslmode=require" in concern.found
    assert "sslmode=verify-full" in concern.fix
    assert "hunter2" not in f"{concern}"
    assert database_concern("dbname=p").fix == ""


def test_a_ledger_that_was_not_opened_yet_is_told_with_its_reason_since_when_and_what_comes_next() -> None:
    assert unopened_concern(None, NOON) == []
    first = unopened_concern(Unopened(NOON), NOON)[0]
    assert (first.about, first.weight, first.since) == ("database", "stops", NOON)
    assert "the ledger's database does not answer" in first.found
    assert "the first attempt is under way" in first.found
    later = Unopened(NOON, "password authentication failed", NOON + timedelta(seconds=13))
    found = unopened_concern(later, NOON + timedelta(seconds=10))[0]
    assert found.found.endswith(": password authentication failed")
    assert "tries again by itself (in 3 s)" in found.fix
    assert found.since == NOON
