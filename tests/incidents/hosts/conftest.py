"""Quiet logs: these stories go wrong on purpose."""

from simulation.conftest import quiet_logs

__all__ = ["quiet_logs"]
