"""A whole bootstrap, over SSH, of a Mac that is given its key: the key is on that Mac's disk, and nowhere else."""

import asyncio
import base64
import io
from dataclasses import replace
from pathlib import Path

from doubles.clocks import WITHIN
from integration.hosts.fleet.rig import SETTINGS, Rig, rig

from paddock.base import logs
from paddock.clients.gateway.mac_key import hash_of
from paddock.hosts.api import HostClaim
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.bootstrap import FleetConfig
from paddock.node.key_file import KeyFile
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.mac.agent_tools import machine_id_of


async def _known(here: Rig) -> HostClaim:
    async with asyncio.timeout(WITHIN):
        while True:
            for host in (await here.client.list(Host, "default")).items:
                if host.spec.claim is not None and host.spec.claim.key_hash:
                    return host.spec.claim
            await asyncio.sleep(0.1)


async def test_the_key_of_a_bootstrapped_mac_is_on_its_disk_and_nowhere_else(tmp_path: Path) -> None:
    log = io.StringIO()
    logs.set_up(level="debug", json=True, stream=log)
    fleet = with_node_agent(FleetConfig(virtual_machines=None), tmp_path)
    async with rig(settings=replace(SETTINGS, gateway="macs.example:8443"), fleet=fleet) as here:
        claim = await _known(here)
        await here.ready()
        (mac,) = here.macs.macs
        held = KeyFile.of_agent(mac.disk.at(f"/Users/{mac.username}/.paddock/node")).read()
        assert (held.number, held.proven) == (claim.key_number, "")
        assert claim.key_hash == hash_of(held.newest)
        assert claim.machine_id == machine_id_of(mac.name)
        stored = [change.record.value.decode() for change in here.store._state._history]
        left = [*stored, log.getvalue(), *(call.line for call in mac.calls), *mac.commands, *map(str, mac.effects)]
        everything = "\n".join(left)
        assert claim.key_hash in everything
        assert "KeyGiven" in everything
        assert "take-key" in everything
        for shape in (held.newest, base64.b64encode(held.newest.encode()).decode().rstrip("="), held.newest[4:-4]):
            assert shape not in everything
        holding = [
            path for path in mac.disk.root.rglob("*") if path.is_file() and held.newest.encode() in _content(path)
        ]
        assert [path.name for path in holding] == ["keys.json"]
        assert not mac.violations


def _content(path: Path) -> bytes:
    return b"" if path.is_symlink() else path.read_bytes()
