from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from integration.hosts.bootstrap.rig import Rig
from unit.hosts.bootstrap.conftest import client, cluster

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.ssh import new_key_pair
from paddock.simulator.mac import MacSettings, Pace, SimulatedMac

__all__ = ["client", "cluster", "rig"]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    key = new_key_pair("fleet")
    files = tmp_path / "payloads"
    files.mkdir()
    mac = SimulatedMac(
        clock=SystemClock(),
        rng=seeded("mac"),
        settings=MacSettings(
            password="pa55 \"w'ord$",
            keys=[key.public],
            # The tailnet address that is the guard's second path.
            address="100.64.0.7",
            pace=Pace(speed=2000.0),
        ),
    )
    async with mac:
        yield Rig(mac, key, files)
