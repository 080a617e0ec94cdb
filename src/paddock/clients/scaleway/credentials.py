"""The login of a Mac: read only from a GET of one server, never from the answer of a mutation.

Every mutating call answers with `<sealed>` in place of the password, on a healthy host. A type that only `get_server`
returns makes the mistake of keeping such an answer impossible to write.
"""

from urllib.parse import unquote, urlsplit

import msgspec

from paddock.base.secrets import SEALED, Password
from paddock.clients.scaleway.model import Server

__all__ = ["Credentials", "FetchedServer", "SealedFields", "credentials_of", "password_in_vnc_url"]

DEFAULT_SSH_USERNAME = "m1"


class Credentials(msgspec.Struct, frozen=True):
    """How to log in. `password` is None while the cloud shows none: wait, GET again, and never make one up."""

    ssh_username: str
    password: Password | None


class FetchedServer(msgspec.Struct, frozen=True):
    """One server with its credentials, as one GET showed them."""

    server: Server
    credentials: Credentials


class SealedFields(msgspec.Struct, frozen=True):
    """The three fields of a server's JSON that hold credentials; lives only between the wire and `credentials_of`."""

    ssh_username: str = ""
    sudo_password: str = ""
    vnc_url: str = ""

    def __repr__(self) -> str:
        return "SealedFields(***)"


def credentials_of(fields: SealedFields) -> Credentials:
    """`sudo_password` where it is usable, else the password inside `vnc_url`, else nothing."""
    password = Password.usable(fields.sudo_password) or password_in_vnc_url(fields.vnc_url)
    return Credentials(ssh_username=fields.ssh_username or DEFAULT_SSH_USERNAME, password=password)


def password_in_vnc_url(url: str) -> Password | None:
    """The password of `vnc://user:password@host:port`, percent-decoded; None where there is nothing usable.

    The sealed marker counts as missing as the whole URL, as the password, and percent-encoded as the password.
    """
    if not url or url == SEALED:
        return None
    try:
        netloc = urlsplit(url).netloc
    except ValueError:
        return None
    userinfo, at, _host = netloc.rpartition("@")
    _user, colon, quoted = userinfo.partition(":")
    if not at or not colon:
        return None
    return Password.usable(unquote(quoted))
