"""Operations are tried on a real Postgres, whose answers take no virtual time."""

from collections.abc import Iterator

import pytest
from integration.conftest import schemas, server
from simulation.conftest import quiet_logs

from paddock.simulator.instant_postgres import pools_closed_at_the_end

__all__ = ["quiet_logs", "schemas", "server"]


@pytest.fixture(autouse=True)
def _closed_pools() -> Iterator[None]:
    with pools_closed_at_the_end():
        yield
