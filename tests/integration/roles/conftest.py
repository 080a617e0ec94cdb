"""Quiet logs: a whole life with its disturbances would write more than it does."""

from simulation.conftest import quiet_logs

__all__ = ["quiet_logs"]
