from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.cluster import Cluster, running_cluster
from unit.cli.ledger_service import LedgerService, running_ledger
from unit.cli.scene import Scene, set_up


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pki")


@pytest.fixture
def cluster(tmp_path: Path, pki: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, pki) as running:
        yield running


@pytest.fixture
def ledger() -> Iterator[LedgerService]:
    with running_ledger() as service:
        yield service


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory, pki: Path) -> Iterator[Scene]:
    """One of everything, for tests that only look."""
    with running_cluster(tmp_path_factory.mktemp("scene"), pki) as cluster, running_ledger() as service:
        yield set_up(cluster, service)


@pytest.fixture
def scene(cluster: Cluster, ledger: LedgerService) -> Scene:
    """One of everything, for tests that change it."""
    return set_up(cluster, ledger)
