"""The way from the public addresses of simulated Macs to the Macs themselves."""

import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from paddock.base.clock import Clock
from paddock.base.rng import seeded
from paddock.clients.ssh import AsyncSsh, Ssh
from paddock.clients.ssh.client import tcp_connection
from paddock.simulator.cloud import Host, ServerHealth, SimulatedCloud
from paddock.simulator.mac.in_process import InProcessSsh
from paddock.simulator.mac.mac import SimulatedMac
from paddock.simulator.mac.pace import Pace
from paddock.simulator.mac.scenarios import BREAKAGES, Breakage
from paddock.simulator.mac.settings import MacSettings
from paddock.simulator.mac.stand_ins import StandIns

__all__ = ["Fleet", "SimulatedNetwork"]

_NO_ANSWER = 15.0
_RECORDS = 1000
"""What each Mac of a fleet remembers: a fleet may run for days."""


class SimulatedNetwork:
    """`find` gives the Mac that has an address and answers there, or None where no Mac does."""

    def __init__(self, find: Callable[[str], SimulatedMac | None], clock: Clock, pace: Pace | None = None) -> None:
        self._find = find
        self._clock = clock
        self._pace = pace or Pace()

    def ssh(self, *, wire: bool = False) -> Ssh:
        """A client for these addresses: in the process, or with `wire` the real client over real sockets."""
        if wire:
            return AsyncSsh(dial=self._dialed)
        return InProcessSsh(lambda address, _port: self._find(address), self._no_answer)

    async def _no_answer(self, seconds: float) -> None:
        await self._clock.sleep(seconds / self._pace.speed)

    async def _dialed(self, address: str, port: int) -> socket.socket:
        del port  # a Mac has one SSH port in public, and another one on loopback
        mac = self._find(address)
        if mac is None or not mac.powered:
            await self._no_answer(_NO_ANSWER)
            raise TimeoutError
        await mac.start()
        return await tcp_connection("127.0.0.1", mac.sshd.port)


class Fleet:
    """One Mac behind every host of a simulated cloud.

    Macs are made when they are first dialled. A reboot in the cloud clears a Mac's volatile state, a reinstall gives it
    an empty disk, a new host key, the host's new password and the keys the project has at that time; the cloud's health
    probes see the Mac. With `folder` the disks outlive the process, and a Mac found there comes up as after a reboot;
    without it they go with `stop()`. `broken` is the probability that an install turns out to be in one of the states
    of `kinds`.
    """

    def __init__(
        self,
        cloud: SimulatedCloud,
        *,
        clock: Clock,
        rng: random.Random,
        pace: Pace | None = None,
        folder: Path | None = None,
        broken: float = 0.0,
        kinds: Sequence[Breakage] = BREAKAGES,
        prepare: Callable[[SimulatedMac], None] | None = None,
    ) -> None:
        self._cloud = cloud
        self._clock = clock
        self._salt = rng.getrandbits(64)
        self._pace = pace or Pace()
        self._folder = folder
        self._broken = broken
        self._kinds = kinds
        self._prepare = prepare
        self._stand_ins = StandIns()
        self._macs: dict[str, SimulatedMac] = {}
        self._drawn: dict[str, int] = {}
        self._gone: list[SimulatedMac] = []
        self.network = SimulatedNetwork(self.at, clock, self._pace)
        cloud.on_reinstall.append(self._on_reinstall)
        cloud.on_power.append(self._on_power)
        cloud.on_delete.append(self._on_delete)
        cloud.health_of = self.health

    def ssh(self, *, wire: bool = False) -> Ssh:
        return self.network.ssh(wire=wire)

    @property
    def macs(self) -> list[SimulatedMac]:
        """Those that were dialled or asked for so far."""
        return list(self._macs.values())

    def mac(self, host_id: str) -> SimulatedMac:
        """The Mac behind a host; raises KeyError for a host that is gone."""
        host = self._cloud.host(host_id)
        mac = self._macs.get(host_id)
        if mac is None:
            mac = self._macs[host_id] = self._made(host)
        if _up(host) and not mac.powered:
            mac.power_on()  # an order that ended: the cloud tells of no power change where there was none
        if self._drawn.get(host_id) != host.install and mac.powered:
            self._drawn[host_id] = host.install
            mac.break_with(self._broken, self._kinds)
            if self._prepare is not None:
                self._prepare(mac)
        return mac

    def at(self, address: str) -> SimulatedMac | None:
        """The Mac that answers at a public address now."""
        for host in self._cloud.hosts():
            if host.ip == address:
                return self.mac(host.id) if _up(host) else None
        return None

    def health(self, host: Host) -> ServerHealth:
        mac = self._macs.get(host.id)
        up = _up(host)
        ssh = up and (mac is None or mac.sshd.mode == "up")
        return ServerHealth(server_alive=up, agent_alive=up, mdm_alive=up, ssh_port_up=ssh, vnc_port_up=up)

    async def stop(self) -> None:
        """End every Mac and everything that runs on it."""
        for mac in [*self._macs.values(), *self._gone]:
            await mac.stop()
        self._macs.clear()
        self._gone.clear()
        await self._stand_ins.stop()

    def _made(self, host: Host) -> SimulatedMac:
        mac = SimulatedMac(
            name=f"mac-{host.id[:8]}",
            clock=self._clock,
            rng=seeded(f"{self._salt}/{host.id}"),
            settings=MacSettings(
                username=host.ssh_username,
                password=host.password,
                keys=host.authorized_keys,
                address=host.ip,
                pace=self._pace,
                install=host.install,
                records=_RECORDS,
            ),
            folder=None if self._folder is None else self._folder / host.id,
            stand_ins=self._stand_ins,
        )
        if not _up(host):
            mac.power_off()
        return mac

    # What the cloud tells. The hooks run inside the cloud's own calls, so they only change state.

    def _on_reinstall(self, host: Host) -> None:
        if (mac := self._macs.get(host.id)) is not None:
            mac.power_off()
            mac.wipe(password=host.password, keys=host.authorized_keys, install=host.install)

    def _on_power(self, host: Host, on: bool) -> None:
        if (mac := self._macs.get(host.id)) is not None:
            (mac.power_on if on else mac.power_off)()

    def _on_delete(self, host: Host) -> None:
        if (mac := self._macs.pop(host.id, None)) is not None:
            mac.power_off()
            self._gone.append(mac)


def _up(host: Host) -> bool:
    return host.powered and host.activity is None
