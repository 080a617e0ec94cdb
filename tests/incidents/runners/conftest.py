"""The incidents of the runner half are told on a real Postgres."""

from integration.conftest import bench, server
from integration.dispatch.conftest import rig

__all__ = ["bench", "rig", "server"]
