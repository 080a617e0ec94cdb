"""The key pair of the simulated App."""

import functools

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["new_app_key", "public_key_of", "throwaway_app_key"]


def new_app_key() -> str:
    """A fresh private key for an App, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


@functools.cache
def throwaway_app_key() -> str:
    """One key a process: making it takes longer than many a simulation, and no behaviour depends on which it is."""
    return new_app_key()


@functools.lru_cache(maxsize=8)
def public_key_of(pem: str) -> rsa.RSAPublicKey:
    """The public key, which verifies. Remembered, because a run of many seeds asks for the same one each time."""
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("the App's key must be an RSA key, because GitHub takes RS256 only")
    return key.public_key()
