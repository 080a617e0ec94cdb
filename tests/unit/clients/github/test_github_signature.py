import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.secrets import Secret
from paddock.clients.github import verify

RAW = b'{"action":"queued"}'
NEW, OLD = Secret("new secret"), Secret("old secret")


def signed(raw: bytes, secret: Secret) -> str:
    return "sha256=" + hmac.new(secret.reveal().encode(), raw, hashlib.sha256).hexdigest()


def test_githubs_own_example_is_accepted():
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert verify(b"Hello, World!", header, [Secret("It's a Secret to Everybody")])


@pytest.mark.parametrize("secret", [NEW, OLD])
def test_either_secret_is_accepted_while_they_are_rotated(secret: Secret):
    assert verify(RAW, signed(RAW, secret), [NEW, OLD])
    assert verify(RAW, signed(RAW, secret), [OLD, NEW])


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "sha256=",
        signed(RAW, Secret("third")),
        signed(RAW, NEW).upper(),
        signed(RAW, NEW)[7:],
        "sha256=é☃\udc80",
    ],
)
def test_what_is_no_signature_of_ours_is_refused(header: str | None):
    assert not verify(RAW, header, [NEW, OLD])


def test_sha1_is_refused():
    digest = hmac.new(NEW.reveal().encode(), RAW, hashlib.sha1).hexdigest()
    assert not verify(RAW, f"sha1={digest}", [NEW])


def test_without_a_secret_and_with_an_empty_one_nothing_is_accepted():
    assert not verify(RAW, signed(RAW, NEW), [])
    assert not verify(RAW, signed(RAW, Secret("")), [Secret("")])
    assert verify(RAW, signed(RAW, NEW), [Secret(""), NEW])


@given(bit=st.integers(0, len(RAW) * 8 - 1))
def test_one_flipped_bit_of_the_body_is_refused(bit: int):
    body = bytearray(RAW)
    body[bit // 8] ^= 1 << (bit % 8)
    assert not verify(bytes(body), signed(RAW, NEW), [NEW, OLD])


@given(place=st.integers(0, 70), bit=st.integers(0, 6))
def test_one_flipped_bit_of_the_header_is_refused(place: int, bit: int):
    header = signed(RAW, NEW)
    flipped = header[:place] + chr(ord(header[place]) ^ (1 << bit)) + header[place + 1 :]
    assert not verify(RAW, flipped, [NEW, OLD])


def test_every_secret_is_compared_even_after_a_match(monkeypatch: pytest.MonkeyPatch):
    compared: list[bytes] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or compare(a, b))
    assert verify(RAW, signed(RAW, NEW), [NEW, OLD])
    assert len(compared) == 2
