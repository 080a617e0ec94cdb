import base64

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh import CommandFailed, Completed, Redactor
from paddock.clients.ssh.capture import Head, Tail


def test_every_secret_disappears_plain_and_in_base64():
    redact = Redactor([Secret("hunter2-hunter2"), Secret("other")])
    text = f"sudo: hunter2-hunter2 other {base64.b64encode(b'hunter2-hunter2').decode()}"
    assert redact(text) == "sudo: *** *** ***"


def test_single_lines_of_a_long_secret_disappear_too():
    redact = Redactor([Secret("apiVersion: v1\ntoken: abcdefghijkl\n")])
    assert "abcdefghijkl" not in redact("bad line 'token: abcdefghijkl' in file")


def test_a_secret_that_contains_another_one_disappears_as_a_whole():
    redact = Redactor([Secret("pass"), Secret("pass-word-long")])
    assert redact("x pass-word-long y pass") == "x *** y ***"


def test_an_empty_secret_hides_nothing():
    assert Redactor([Secret(""), Secret("  ")])("a b") == "a b"


def test_a_failed_command_names_what_its_status_and_the_end_of_stderr():
    done = Completed(3, "", "\n".join(f"line {number}" for number in range(500)))
    with pytest.raises(CommandFailed) as caught:
        done.check("firewall")
    assert caught.value.exit_status == 3
    assert str(caught.value).startswith("firewall ended with exit status 3: …")
    assert str(caught.value).endswith("line 499")
    assert len(caught.value.stderr) <= 601


def test_a_good_command_checks_as_itself():
    done = Completed(0, "out", "noise")
    assert done.check() is done


def test_the_head_of_an_output_keeps_the_first_bytes():
    head = Head(5)
    head.add(b"abc")
    head.add(b"defg")
    assert (head.text(), head.truncated) == ("abcde", True)


def test_the_tail_of_an_output_keeps_the_last_bytes():
    tail = Tail(5)
    for piece in (b"abc", b"defg", b"hi"):
        tail.add(piece)
    assert (tail.text(), tail.truncated) == ("efghi", True)


def test_a_short_output_is_kept_whole():
    head, tail = Head(5), Tail(5)
    head.add(b"abcde")
    tail.add(b"abcde")
    assert (head.text(), head.truncated, tail.text(), tail.truncated) == ("abcde", False, "abcde", False)
