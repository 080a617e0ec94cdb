from collections.abc import AsyncIterator

import pytest
from unit.hosts.bootstrap.clusters import Cluster, running_cluster

from paddock.kube.client import Client


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as made:
        yield made


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.client() as made:
        yield made
