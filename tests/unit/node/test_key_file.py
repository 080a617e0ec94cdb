"""A Mac's keys on its disk: whole or as before, whoever writes, and shown to nobody."""

import stat
import threading
from pathlib import Path

import pytest

from paddock.node.files import write_whole
from paddock.node.key_file import KeyFile
from paddock.node.keys import Keys

FIRST, SECOND, THIRD = "a" * 43, "b" * 43, "c" * 43


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "keys.json"


def test_a_mac_that_was_given_no_key_has_none(path: Path):
    assert KeyFile(path).read() == Keys()


def test_a_key_is_taken_once_and_a_lower_number_never(path: Path):
    file = KeyFile(path)
    assert file.offer(FIRST, 1) == (True, Keys(1, FIRST))
    assert file.offer(THIRD, 3) == (True, Keys(3, THIRD))
    assert file.offer(SECOND, 2) == (False, Keys(3, THIRD))
    assert KeyFile(path).read() == Keys(3, THIRD)


def test_what_is_no_key_is_not_taken(path: Path):
    for junk in ("", "short", "é" * 43, "a" * 43 + "\n", "a" * 129):
        assert KeyFile(path).offer(junk, 1)[0] is False
    assert not path.exists()


def test_the_key_that_was_answered_stays_until_the_newest_is(path: Path):
    file = KeyFile(path)
    file.offer(FIRST, 1)
    file.answered(FIRST)
    file.offer(SECOND, 2)
    file.answered(FIRST)
    assert file.read() == Keys(2, SECOND, FIRST)
    file.answered(SECOND)
    assert file.read() == Keys(2, "", SECOND)


def test_only_its_owner_reads_the_file(path: Path):
    KeyFile(path).offer(FIRST, 1)
    KeyFile(path).offer(SECOND, 2)
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


@pytest.mark.parametrize("torn", [b"", b"{", b'{"number":"x"}', b"\xff", b"[" * 5000])
def test_where_the_file_is_torn_the_keys_before_it_count(path: Path, torn: bytes):
    file = KeyFile(path)
    file.offer(FIRST, 1)
    file.answered(FIRST)
    file.offer(SECOND, 2)
    path.write_bytes(torn)
    assert file.read() == Keys(1, "", FIRST)
    # And they are not lost by the next key that comes.
    file.offer(THIRD, 3)
    path.write_bytes(torn)
    assert file.read() == Keys(1, "", FIRST)


def test_a_crash_at_any_write_leaves_the_keys_before_or_after(path: Path, monkeypatch: pytest.MonkeyPatch):
    file = KeyFile(path)
    file.offer(FIRST, 1)
    left = [0]

    def dying(where: Path, content: bytes, mode: int = 0o600) -> None:
        if not left[0]:
            raise OSError("no space left on device")
        left[0] -= 1
        write_whole(where, content, mode)

    monkeypatch.setattr("paddock.node.key_file.write_whole", dying)
    for survives in (0, 1):
        left[0] = survives
        with pytest.raises(OSError, match="no space"):
            file.offer(SECOND, 2)
        assert file.read() == Keys(1, FIRST)
    left[0] = 2
    assert file.offer(SECOND, 2)[0]


def test_a_key_that_comes_while_another_is_answered_is_not_lost(path: Path):
    KeyFile(path).offer(FIRST, 1)

    def answers() -> None:
        for _ in range(50):
            KeyFile(path).answered(KeyFile(path).read().newest)

    def offers() -> None:
        for number in range(2, 52):
            KeyFile(path).offer("k" * 40 + f"{number:03d}", number)

    threads = [threading.Thread(target=each) for each in (answers, offers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    last = KeyFile(path).read()
    assert last.number == 51
    assert "k" * 40 + "051" in last.to_try


def test_no_key_shows_in_what_is_printed():
    shown = repr(Keys(2, FIRST, SECOND)) + str(Keys(2, FIRST, SECOND))
    assert FIRST not in shown
    assert SECOND not in shown
