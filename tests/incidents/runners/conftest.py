"""The incidents of the runner subsystem are told to the dispatch over a real Postgres."""

from integration.runners.dispatch.conftest import rig

__all__ = ["rig"]
