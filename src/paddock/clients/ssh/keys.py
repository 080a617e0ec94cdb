"""Key pairs and fingerprints, in the forms that OpenSSH prints."""

import base64
import hashlib
from dataclasses import dataclass

from paddock.base.secrets import Secret
from paddock.clients.ssh.errors import KeyUnusable

__all__ = ["KeyPair", "fingerprint", "new_key_pair", "public_key_of"]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ed25519 pair: the private key as an OpenSSH PEM text, the public key as one line of `authorized_keys`."""

    private: Secret
    public: str


def new_key_pair(comment: str = "") -> KeyPair:
    """A fresh pair from the operating system's generator: a key must never be repeatable from a seed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return KeyPair(private=Secret(private), public=f"{public} {comment}".strip())


def public_key_of(private_key: Secret, comment: str = "") -> str:
    """The line for `authorized_keys` that belongs to a private key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    try:
        key = load_ssh_private_key(private_key.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The parser's own message may quote the text, so it is not passed on.
        raise KeyUnusable("the private key is not an OpenSSH private key without a passphrase") from error
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return f"{public} {comment}".strip()


def fingerprint(public_key: str) -> str:
    """`SHA256:…` of a public key line, as `ssh-keygen -l` prints it."""
    words = public_key.split()
    if len(words) < 2:
        raise ValueError("a public key is a line of two or three words: type, base64, comment")
    digest = hashlib.sha256(base64.b64decode(words[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
