"""The incidents of the runner subsystem are told on a real Postgres."""

from integration.conftest import bench, schemas, server
from integration.runners.dispatch.conftest import rig

__all__ = ["bench", "rig", "schemas", "server"]
