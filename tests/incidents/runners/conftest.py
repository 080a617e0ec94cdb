"""The incidents of the runner half are told on a real Postgres."""

from integration.conftest import bench, server

__all__ = ["bench", "server"]
