"""What dispatch says of its own ways in and out, and what `doctor` makes of it."""

from datetime import timedelta
from pathlib import Path

import pytest
from doubles.clocks import NOON

from paddock.base.certificates import SERVING_LIFE, issued, new_authority
from paddock.runners.http.concerns import certificate_concern, database_concern

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
