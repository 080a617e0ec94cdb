"""By what a program of ours is known to what only people's browsers must not read."""

from typing import Final

__all__ = ["CLIENT_HEADER"]

CLIENT_HEADER: Final = "Sec-Paddock-Client"
"""Proof that no page in a browser asks: Fetch forbids scripts to set a header whose name starts with `Sec-`."""
