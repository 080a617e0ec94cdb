"""The Macs of a simulated fleet as they speak to a gateway: each tries its keys, and hears what the gateway's own code says of them."""

from dataclasses import dataclass, field

from paddock.base.names import RUNTIME_LABEL
from paddock.clients.gateway.mac_key import digits_of, hash_of
from paddock.gateway.identity import MacIdentity, Presented, identify
from paddock.hosts.api import HostClaim
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.mac_key import KEY_USED
from paddock.kube.builtin import Lease
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.node.keys import Keys
from paddock.simulator.fleet_world import FleetWorld

__all__ = ["GATEWAY", "Speaking", "everything"]

GATEWAY = "macs.example:8443"
_EVERY = 3.0


def everything(fleet: FleetWorld) -> str:
    """Every version of every object that was stored lately, as it lay there."""
    return "\n".join(change.record.value.decode() for change in fleet.store._state._history)


@dataclass
class Speaking:
    """Run `run` beside a scenario. `locked_out` names each Mac that was answered once and then had no good key, while its claim stood."""

    fleet: FleetWorld
    locked_out: list[str] = field(default_factory=list)
    _noted: dict[str, str] = field(default_factory=dict)
    _answered: set[tuple[str, int, str]] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            for server in self.fleet.cloud.hosts():
                if server.powered:
                    await self._speak(server.id, server.install)
            await self.fleet.clock.sleep(_EVERY)

    async def _speak(self, server: str, install: int) -> None:
        macs = self.fleet.macs
        keys = macs.keys.get((server, install), Keys())
        claim = self.claim_of(server)
        if claim is None:
            return
        for key in keys.to_try:
            if self.taken(key, claim) is None:
                continue
            if key == keys.proven:
                await self._note(claim.machine_name, digits_of(key))
            macs.keys[server, install] = macs.keys[server, install].answered(key)
            self._answered.add((server, install, claim.machine_uid))
            return
        if (server, install, claim.machine_uid) in self._answered:
            self.locked_out.append(f"{server}, install {install}, at {self.fleet.clock.monotonic():.0f} s")

    def claim_of(self, server: str) -> HostClaim | None:
        """What stands: no claim whose release is recorded."""
        found = [each.spec for each in self.fleet.store.present(Host) if each.spec.server_id == server]
        return found[0].claim if found and found[0].release is None else None

    def taken(self, key: str, claim: HostClaim) -> MacIdentity | None:
        """Whether the gateway takes a request with this key for the Mac of that claim."""
        shown = Presented(claim.machine_namespace, claim.machine_name, hash_of(key))
        machine = next((each for each in self.fleet.store.present(Machine)), None)
        return identify(shown, machine, self.fleet.store.present(Host))

    def speaks(self) -> bool:
        """Whether every claimed Mac has a key that was answered, and that is the only one which its claim knows."""
        claimed = [each for each in self.fleet.store.present(Host) if each.spec.claim and not each.spec.release]
        for host in claimed:
            server, claim = host.spec.server_id, host.spec.claim
            keys = self.fleet.macs.keys.get((server, self.fleet.cloud.host(server).install), Keys())
            if claim is None or not keys.proven or keys.newest or claim.next_key_hash:
                return False
            if claim.key_hash != hash_of(keys.proven) or claim.machine_id != f"machine-of-{server}":
                return False
        return bool(claimed)

    def safe(self) -> None:
        """No Mac was locked out, and of all keys that were ever given each claim knows its Mac's own alone."""
        assert not self.locked_out, self.locked_out
        held = {
            key
            for (server, install), keys in self.fleet.macs.keys.items()
            if install == self.fleet.cloud.host(server).install
            for key in keys.to_try
        }
        for host in self.fleet.store.present(Host):
            if host.spec.claim is None:
                continue
            for key in {*self.fleet.macs.keys_given} - held:
                assert self.taken(key, host.spec.claim) is None, "a key that no Mac has is taken"

    async def _note(self, node: str, digits: str) -> None:
        if self._noted.get(node) == digits:
            return
        self._noted[node] = digits
        noted = {"metadata": {"annotations": {KEY_USED: digits}}}
        try:
            await self.fleet.api.merge_patch(Lease, node, noted, namespace="kube-node-lease")
        except NotFoundError:
            meta = ObjectMeta(
                name=node,
                namespace="kube-node-lease",
                labels={RUNTIME_LABEL: "tart"},
                annotations={KEY_USED: digits},
            )
            await self.fleet.api.create(Lease(metadata=meta))
