"""When a certificate is made anew, for whom it is, and when the next authority signs."""

from datetime import datetime, timedelta

import pytest
from cryptography import x509
from doubles.clocks import NOON

from paddock.base.authorities import Authorities, in_pem, plan
from paddock.base.certificates import (
    AUTHORITY_LIFE,
    SERVING_LIFE,
    KeyPair,
    certificates_in,
    issued,
    misfit,
    new_authority,
    why_new_certificate,
)
from paddock.base.secrets import Secret

NAMES = ["paddock-dispatch.macs.svc", "paddock-dispatch.macs.svc.cluster.local"]
AUTHORITY = new_authority(NOON)
PAIR = issued(AUTHORITY, NAMES, NOON)


def test_what_was_just_made_will_do() -> None:
    assert plan(Authorities(AUTHORITY), NOON) == (Authorities(AUTHORITY), "")
    assert why_new_certificate(PAIR, AUTHORITY, NAMES, NOON) == ""


@pytest.mark.parametrize(("share", "renewed"), [(0.5, False), (0.66, False), (0.67, True), (1.1, True)])
def test_a_certificate_is_renewed_in_the_last_third_of_its_life(share: float, renewed: bool) -> None:
    at = NOON - timedelta(hours=1) + share * (SERVING_LIFE + timedelta(hours=1))
    assert bool(why_new_certificate(PAIR, AUTHORITY, NAMES, at)) is renewed
    at = NOON - timedelta(hours=1) + share * (AUTHORITY_LIFE + timedelta(hours=1))
    assert bool(plan(Authorities(AUTHORITY), at)[1]) is renewed


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (None, "there is none"),
        (KeyPair(b"junk", Secret("junk")), "cannot be read"),
        (KeyPair(PAIR.certificate, AUTHORITY.key, PAIR.trusted), "cannot be read"),
        (issued(new_authority(NOON), NAMES, NOON), "another authority"),
        (issued(AUTHORITY, NAMES[:1], NOON), f"not for {NAMES[1]}"),
        (issued(AUTHORITY, [*NAMES, "z.svc"], NOON), "also for z.svc"),
        (issued(AUTHORITY, NAMES, NOON + timedelta(days=2)), "the clock that made it was ahead"),
    ],
)
def test_a_certificate_that_will_not_do_is_replaced_and_the_reason_said(pair: KeyPair | None, why: str) -> None:
    assert why in why_new_certificate(pair, AUTHORITY, NAMES, NOON)


def subjects(pem: bytes) -> list[int]:
    return [each.serial_number for each in certificates_in(pem)]


def test_who_trusts_the_older_authority_is_not_cut_off_by_a_newer_one() -> None:
    newer = new_authority(NOON)
    trusted = issued(newer, NAMES, NOON, before=PAIR.trusted).trusted
    assert certificates_in(trusted) == certificates_in(newer.certificate + AUTHORITY.certificate)
    for _ in range(9):
        trusted = issued(new_authority(NOON), NAMES, NOON, before=trusted).trusted
    assert len(certificates_in(trusted)) == 4


def test_an_authority_that_has_ended_is_handed_out_no_more() -> None:
    newer, later = new_authority(NOON), NOON + AUTHORITY_LIFE
    assert certificates_in(issued(newer, NAMES, later - timedelta(days=1), before=AUTHORITY.certificate).trusted)[1:]
    assert not certificates_in(issued(newer, NAMES, later, before=AUTHORITY.certificate).trusted)[1:]


@pytest.mark.parametrize("address", ["macs.example.com", "203.0.113.7", "2001:db8::7"])
def test_a_certificate_is_for_exactly_one_public_name_or_address(address: str) -> None:
    pair = issued(AUTHORITY, [address], NOON)
    assert why_new_certificate(pair, AUTHORITY, [address], NOON) == ""
    assert misfit(pair.certificate, address) == ""
    assert "not for" in why_new_certificate(pair, AUTHORITY, ["other.example.com"], NOON)
    assert "also for" in why_new_certificate(issued(AUTHORITY, [address, "x.y"], NOON), AUTHORITY, [address], NOON)


@pytest.mark.parametrize(
    ("names", "address", "fits"),
    [
        (["macs.example.com"], "MACS.example.com.", True),
        (["*.example.com"], "macs.example.com", True),
        (["*.example.com"], "a.macs.example.com", False),
        (["2001:db8::7"], "2001:0DB8:0:0::7", True),
        (["203.0.113.7"], "203.0.113.8", False),
        (["*.0.113.7"], "203.0.113.7", False),
    ],
)
def test_a_certificate_that_does_not_fit_its_address_is_named_in_a_sentence(
    names: list[str], address: str, fits: bool
) -> None:
    why = misfit(issued(AUTHORITY, names, NOON).certificate, address)
    assert (why == "") is fits
    if not fits:
        assert names[0] in why
        assert address in why
    assert "no certificate" in misfit(b"<html>", address)


# Two authorities


def at(days: float) -> datetime:
    return NOON + timedelta(days=days)


LAST_THIRD = 5 * 365 * 2 / 3 + 1


def test_the_next_authority_is_named_for_ninety_days_before_it_signs() -> None:
    first = Authorities(AUTHORITY)
    named, why = plan(first, at(LAST_THIRD))
    assert "the next one is named" in why
    assert named.signing == AUTHORITY
    assert named.following is not None
    assert subjects(named.in_force) == subjects(AUTHORITY.certificate + named.following.certificate)
    assert plan(named, at(LAST_THIRD + 89)) == (named, "")
    signs, why = plan(named, at(LAST_THIRD + 90.1))
    assert "is known" in why
    assert (signs.signing, signs.following, signs.former) == (named.following, None, AUTHORITY.certificate)
    assert plan(signs, at(5 * 365 - 1)) == (signs, "")
    alone, _ = plan(signs, at(5 * 365))
    assert alone == Authorities(signs.signing)


def test_who_asks_once_in_ninety_days_always_knows_the_authority_that_signs() -> None:
    """Over thirty years, with the certificate made anew as its keeper does, and a caller that stores what it is handed."""
    stored, pair = None, None
    known: set[int] = set()
    for day in range(0, 30 * 365, 8):
        stored, _ = plan(stored, at(day))
        if why_new_certificate(pair, stored.signing, ["m.x"], at(day), in_force=stored.in_force):
            before = stored.in_force + (pair.trusted if pair else b"")
            pair = issued(stored.signing, ["m.x"], at(day), before=before)
        assert pair is not None
        signer = subjects(stored.signing.certificate)[0]
        assert subjects(pair.trusted)[0] == signer
        if day % 88 == 0:
            assert not known or signer in known
            known = set(subjects(pair.trusted))


@pytest.mark.parametrize("named", [True, False])
def test_an_authority_that_ended_or_is_broken_is_followed_at_once(named: bool) -> None:
    following = new_authority(at(5 * 365 - 10)) if named else None
    for signing, day in ((AUTHORITY, 5 * 365), (KeyPair(b"junk", Secret("junk")), 5 * 365 - 5)):
        found, why = plan(Authorities(signing, following), at(day))
        assert why
        assert found.following is None
        assert not named or found.signing == following
        assert found.former == b""


def test_an_authority_of_a_clock_that_was_ahead_is_replaced_and_stays_trusted() -> None:
    ahead = new_authority(at(2))
    found, why = plan(Authorities(ahead), NOON)
    assert "ahead" in why
    assert found.former == ahead.certificate


def test_what_a_secret_holds_is_read_again() -> None:
    whole = Authorities(AUTHORITY, new_authority(NOON), PAIR.trusted)
    for each in (whole, Authorities(AUTHORITY)):
        assert Authorities.of(each.data) == each
    assert Authorities.of({}) is None
    assert Authorities.of({"tls.crt": b"x"}) is None
    broken = Authorities.of(whole.data | {"next.crt": b"x"})
    assert plan(broken, at(LAST_THIRD))[0].following is not None


def test_each_authority_is_named_alone() -> None:
    pems = in_pem(AUTHORITY.certificate + new_authority(NOON).certificate)
    assert [len(certificates_in(each.encode())) for each in pems] == [1, 1]
    assert in_pem(b"") == ()


def test_a_certificate_of_dispatch_serves_dispatch_and_makes_no_others() -> None:
    served = x509.load_pem_x509_certificate(PAIR.certificate)
    assert served.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    usages = served.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [usage.dotted_string for usage in usages] == ["1.3.6.1.5.5.7.3.1"]
    assert AUTHORITY.key.reveal() not in "".join(value.decode() for value in PAIR.data.values())


def test_no_key_shows_in_what_is_printed() -> None:
    assert "PRIVATE" not in repr(PAIR)
