"""The cloud is tested through the client that the product uses."""

from unit.clients.scaleway.conftest import client, clock, cloud

__all__ = ["client", "clock", "cloud"]
