"""Operations are tried on a real Postgres, whose answers take no virtual time."""

from integration.conftest import schemas, server
from simulation.conftest import quiet_logs

__all__ = ["quiet_logs", "schemas", "server"]
