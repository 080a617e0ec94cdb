"""The encoding of /etc/kcpassword, against files that macOS itself wrote and against the arithmetic of its key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.secrets import Password, UnusablePasswordError
from paddock.hosts.bootstrap import kcpassword
from paddock.simulator.mac.login import decoded

VECTORS = [
    # "abcd" as a Mac wrote it begins with these bytes; what follows the NUL is noise there and zeros here.
    ("abcd", "1ceb3147d2bcddeaa3b91f"),
    ("password", "0de82150a5d3af8ea3b91f"),
    ("vagrant", "0be83551b3d2a9eaa3b91f"),
    # One short of the key's length: exactly one NUL.
    ("0123456789", "4db8601 0e68 9ebdd9b801f".replace(" ", "")),
    # The key's length itself: a whole block of NULs follows, else nothing would end the password.
    ("0123456789a", "4db86010e689ebdd9b807e" + "7d895223d2bcddeaa3b91f"),
    # Longer than the key: it starts over.
    ("correct horse", "1ee62051b7dfa9cacbd66d" + "0eec5223d2bcddeaa3b91f"),
    # Not ASCII: the bytes of UTF-8.
    ("pässword", "0d4af65 0a1cbb298c7b91f".replace(" ", "")),
]


@pytest.mark.parametrize(("text", "expected"), VECTORS)
def test_known_passwords_have_their_known_files(text: str, expected: str):
    assert kcpassword.encode(Password(text)).hex() == expected


def test_a_file_that_macos_wrote_is_read_up_to_its_first_nul_whatever_follows():
    assert decoded(bytes.fromhex("1ceb3147d2172f1140ff63bf")) == "abcd"


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=60))
def test_what_is_written_is_what_loginwindow_reads(text: str):
    if Password.usable(text) is None:
        return
    content = kcpassword.encode(Password(text))
    assert decoded(content) == text
    assert len(content) % 11 == 0
    assert len(content) > len(text.encode())


@pytest.mark.parametrize("text", ["", "<sealed>"])
def test_no_broken_file_can_be_written(text: str):
    with pytest.raises(UnusablePasswordError):
        kcpassword.encode(Password(text))


def test_a_sealed_file_begins_with_the_marker():
    assert decoded(kcpassword.sealed_start() + kcpassword.encode(Password("x"))[8:]).startswith("<sealed>")
