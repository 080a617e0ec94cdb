"""One TLS context for every client that trusts what this machine trusts: loading the authorities costs megabytes each time."""

import functools
import ssl

import httpx2

__all__ = ["default_tls"]


@functools.cache
def default_tls() -> ssl.SSLContext:
    """The context that httpx2 would make for each client, made once a process. Callers never change it."""
    return httpx2.create_ssl_context()
