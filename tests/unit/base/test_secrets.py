"""A secret has one way out, and that way has a name."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.secrets import SEALED, Password, Secret, UnusablePasswordError

TEXT = "correct-horse"


@pytest.mark.parametrize("secret", [Secret(TEXT), Password(TEXT)])
def test_no_way_of_showing_a_secret_shows_its_text(secret: Secret) -> None:
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>40}", f"{secret!s}", f"{secret!r}", "%s" % secret]  # noqa: UP031
    shown += [str([secret]), str({"key": secret}), "{}".format(secret), "{0:x}".format(secret)]  # noqa: UP030, UP032
    assert not [text for text in shown if TEXT in text]
    assert secret.reveal() == TEXT


def test_what_holds_a_secret_does_not_show_it_either() -> None:
    @dataclass
    class Login:
        user: str
        password: Password

    assert TEXT not in repr(Login("m1", Password(TEXT)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_secret_is_never_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="never serialised"):
        pickle.dumps(Secret(TEXT), protocol=protocol)


def test_a_secret_is_never_encoded_and_the_refusal_does_not_tell_it() -> None:
    for encode in (json.dumps, msgspec.json.encode):
        with pytest.raises(TypeError) as refusal:
            encode({"password": Secret(TEXT)})
        assert TEXT not in str(refusal.value)
    with pytest.raises(TypeError):
        copy.copy(Secret(TEXT))


def test_a_secret_has_no_dictionary_to_look_into() -> None:
    assert not hasattr(Secret(TEXT), "__dict__")
    with pytest.raises(TypeError):
        vars(Password(TEXT))


@pytest.mark.parametrize("text", ["", SEALED])
def test_a_password_that_cannot_be_used_cannot_be_made(text: str) -> None:
    with pytest.raises(UnusablePasswordError):
        Password(text)
    assert Password.usable(text) is None


def test_the_reason_for_refusing_a_password_tells_which_it_was() -> None:
    with pytest.raises(UnusablePasswordError, match="empty"):
        Password("")
    with pytest.raises(UnusablePasswordError, match="sealed"):
        Password(SEALED)


def test_no_password_yet_is_none() -> None:
    assert Password.usable(None) is None


@given(st.text(min_size=1).filter(lambda text: text != SEALED))
def test_every_other_text_is_a_password(text: str) -> None:
    usable = Password.usable(text)
    assert usable is not None
    assert usable.reveal() == text


@given(st.text(), st.text())
def test_secrets_are_equal_exactly_when_their_texts_are(one: str, other: str) -> None:
    assert (Secret(one) == Secret(other)) is (one == other)
    assert Secret(one) != one
    if one == other:
        assert hash(Secret(one)) == hash(Secret(other))


def test_a_traceback_through_a_secret_does_not_show_it() -> None:
    secret = Secret(TEXT)

    def log_in() -> None:
        raise RuntimeError(f"cannot log in with {secret}")

    with pytest.raises(RuntimeError) as failure:
        log_in()
    assert TEXT not in "".join(traceback.format_exception(failure.value))
