import subprocess

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh import (
    AuthRefused,
    CommandFailed,
    Hanging,
    HostKeyChanged,
    KeyUnusable,
    Refused,
    SshError,
    TimedOut,
    Unreachable,
    fingerprint,
    new_key_pair,
    public_key_of,
)

# From the OpenSSH test suite's habit of fixed keys: the fingerprint was computed by ssh-keygen -l.
KNOWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f comment"


def test_a_new_pair_belongs_together():
    pair = new_key_pair("fleet")
    assert public_key_of(pair.private, "fleet") == pair.public
    assert pair.public.startswith("ssh-ed25519 ")
    assert pair.public.endswith(" fleet")


def test_two_pairs_are_two_pairs():
    assert new_key_pair().public != new_key_pair().public


def test_a_fingerprint_reads_as_asyncssh_prints_it():
    import asyncssh

    assert fingerprint(KNOWN) == asyncssh.import_public_key(KNOWN).get_fingerprint("sha256")


def test_a_text_that_is_no_key_is_refused_without_being_quoted():
    with pytest.raises(KeyUnusable) as caught:
        public_key_of(Secret("not a key at all"))
    assert "not a key at all" not in str(caught.value)


def test_a_pair_never_shows_its_private_half():
    pair = new_key_pair()
    assert pair.private.reveal().splitlines()[1] not in repr(pair)


@pytest.mark.parametrize(
    "error",
    [
        Refused("192.0.2.1", 22),
        TimedOut("192.0.2.1", 22, 15),
        Hanging("192.0.2.1", 22, 15),
        AuthRefused("192.0.2.1", "m1"),
        HostKeyChanged("192.0.2.1", expected="SHA256:a", seen="SHA256:b"),
        CommandFailed("sudo", 1, "no"),
    ],
)
def test_every_error_says_what_to_do(error):
    assert isinstance(error, SshError)
    assert len(error.advice) > 40
    assert "\n" not in error.advice


def test_what_says_nothing_about_credentials_is_unreachable():
    assert all(issubclass(kind, Unreachable) for kind in (Refused, TimedOut, Hanging))
    assert not issubclass(AuthRefused, Unreachable)


def test_the_package_does_not_import_asyncssh_until_it_is_needed():
    code = "import sys, paddock.clients.ssh; sys.exit('asyncssh' in sys.modules)"
    import sys

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
