"""A simulated Mac with everything that a bootstrap of it needs."""

import dataclasses
from pathlib import Path
from typing import Any

from unit.hosts.bootstrap.fleets import example

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Password, Secret
from paddock.clients.ssh import AsyncSsh, KeyPair, Ssh
from paddock.hosts.bootstrap import Bootstrap, Failed, FleetConfig, Outcome, PerHost, Ready, StepProgress
from paddock.simulator.mac import SimulatedMac

KUBECONFIG = "apiVersion: v1\nkind: Config\nusers:\n- name: node\n  user:\n    token: marked-token-of-the-node\n"


class Rig:
    def __init__(self, mac: SimulatedMac, key: KeyPair, folder: Path) -> None:
        self.mac = mac
        self.key = key
        self.fleet = example(folder)
        self.progress: list[StepProgress] = []

    def host(self, **changes: Any) -> PerHost:
        target = self.mac.target(self.key.private)
        host = PerHost(
            address=target.address,
            port=target.port,
            key=self.key.private,
            node_name="mac-1",
            provider_id="scw-applesilicon://fr-par-1/11111111",
            password=Password(self.mac.password),
            kubeconfig=Secret(KUBECONFIG),
        )
        return dataclasses.replace(host, **changes)

    def bootstrap(self, ssh: Ssh | None = None, **limits: float) -> Bootstrap:
        limits = {"reach_for": 0.0, "dial_timeout": 0.5, "between_dials": 0.05} | limits
        return Bootstrap(ssh or self.mac.ssh(), SystemClock(), seeded("bootstrap"), **limits)

    def over_sockets(self) -> Bootstrap:
        return self.bootstrap(AsyncSsh(), dial_timeout=5.0)

    async def note(self, progress: StepProgress) -> None:
        self.progress.append(progress)

    async def run(self, host: PerHost | None = None, fleet: FleetConfig | None = None) -> Outcome:
        return await self.bootstrap().run(host or self.host(), fleet or self.fleet, self.note)

    async def ready(self, host: PerHost | None = None, fleet: FleetConfig | None = None) -> Ready:
        outcome = await self.run(host, fleet)
        assert isinstance(outcome, Ready), outcome
        assert not self.mac.violations
        return outcome

    async def failed(self, host: PerHost | None = None, fleet: FleetConfig | None = None) -> Failed:
        outcome = await self.run(host, fleet)
        assert isinstance(outcome, Failed), outcome
        assert not self.mac.violations
        return outcome

    async def update(self, host: PerHost | None = None, fleet: FleetConfig | None = None) -> Ready:
        outcome = await self.bootstrap().update(host or self.host(), fleet or self.fleet, self.note)
        assert isinstance(outcome, Ready), outcome
        assert not self.mac.violations
        return outcome

    def lines(self) -> list[str]:
        """Every call of a tool so far, as one line each."""
        return [call.line for call in self.mac.calls]
