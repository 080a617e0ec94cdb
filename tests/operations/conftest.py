"""Operations are tried on a real Postgres, whose answers take no virtual time."""

from collections.abc import Iterator

import pytest
from simulation.conftest import quiet_logs

from paddock.simulator.instant_postgres import pools_closed_at_the_end

__all__ = ["quiet_logs"]


@pytest.fixture(autouse=True)
def _closed_pools() -> Iterator[None]:
    with pools_closed_at_the_end():
        yield
