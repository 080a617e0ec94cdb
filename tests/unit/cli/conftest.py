from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.cluster import Cluster, running_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as running:
        yield running
