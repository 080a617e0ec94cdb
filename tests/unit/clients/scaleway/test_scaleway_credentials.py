import msgspec
import pytest

from paddock.base.secrets import SEALED, Password
from paddock.clients.scaleway import Server
from paddock.clients.scaleway.credentials import SealedFields, credentials_of, password_in_vnc_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", None),
        ("vnc://m1:Examp1e@62.210.193.228:59010", "Examp1e"),
        ("vnc://m1:p%40ss%3Aw%2Frd@62.210.193.228:59010", "p@ss:w/rd"),
        ("vnc://m1:with:colon@62.210.193.228:59010", "with:colon"),
        ("vnc://62.210.193.228:59010", None),
        ("vnc://m1@62.210.193.228:59010", None),
        ("vnc://m1:@62.210.193.228:59010", None),
        ("vnc://[broken", None),
        ("no url at all", None),
        (SEALED, None),
        (f"vnc://m1:{SEALED}@62.210.193.228:59010", None),
        ("vnc://m1:%3Csealed%3E@62.210.193.228:59010", None),
    ],
)
def test_the_password_inside_a_vnc_url(url: str, expected: str | None):
    password = password_in_vnc_url(url)
    assert (password.reveal() if password else None) == expected


@pytest.mark.parametrize(
    ("sudo_password", "vnc_url", "expected"),
    [
        ("fromfield", "vnc://m1:fromurl@h:1", "fromfield"),
        ("", "vnc://m1:fromurl@h:1", "fromurl"),
        (SEALED, "vnc://m1:fromurl@h:1", "fromurl"),
        ("", "", None),
        (SEALED, SEALED, None),
        (SEALED, f"vnc://m1:{SEALED}@h:1", None),
        ("fromfield", SEALED, "fromfield"),
    ],
)
def test_the_password_field_wins_when_it_is_usable_and_a_marker_never_does(
    sudo_password: str, vnc_url: str, expected: str | None
):
    credentials = credentials_of(SealedFields(ssh_username="m1", sudo_password=sudo_password, vnc_url=vnc_url))
    assert credentials.password == (None if expected is None else Password(expected))


def test_a_server_has_no_field_that_could_hold_a_password():
    shown = msgspec.json.encode({"id": "1", "name": "a", "sudo_password": "hunter2", "vnc_url": "vnc://m1:hunter2@h:1"})
    server = msgspec.json.decode(shown, type=Server)
    assert "hunter2" not in repr(server)
    assert {"sudo_password", "vnc_url"}.isdisjoint(Server.__struct_fields__)


def test_credentials_never_show_their_password():
    fields = SealedFields(sudo_password="hunter2", vnc_url="vnc://m1:hunter2@h:1")
    assert "hunter2" not in repr(fields)
    assert "hunter2" not in repr(credentials_of(fields))
    assert credentials_of(fields).ssh_username == "m1"
