"""The first SSH key of a Mac: pinned before anything secret is on its way to it."""

from typing import Any

import pytest
from simulation.hosts.interrupting import quick, small_fleet

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.controllers.host_keys import HostKeys
from paddock.simulator.fake_macs import FakeBootstrap
from paddock.simulator.process import World, simulate


def test_a_key_is_pinned_before_the_bootstrap_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap, pinned = FakeBootstrap.bootstrap, list[tuple[str, str]]()

    async def not_yet(_: HostKeys) -> None:
        """The cycle that pins has not come round to this host."""

    async def scenario(world: World) -> None:
        fleet = small_fleet(world, hosts=1, settings=quick(bootstrap_spread=1.0))

        async def seen(self: FakeBootstrap, machine: Any, host: Host, credentials: Any, progress: Any) -> Any:
            stored = await fleet.api.get(Host, host.metadata.name, host.metadata.namespace)
            pinned.append((host.status.host_key, stored.status.host_key))
            return await bootstrap(self, machine, host, credentials, progress)

        monkeypatch.setattr(FakeBootstrap, "bootstrap", seen)
        await fleet.machine("m")
        await fleet.all_ready(1, within=900)

    monkeypatch.setattr(HostKeys, "cycle", not_yet)
    simulate(scenario, seed=1)
    assert pinned
    assert all(given and given == stored for given, stored in pinned)
