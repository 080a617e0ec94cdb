"""A Mac's key for the gateway: given over SSH, then written into the claim; the one before ends once the new one is used.

The decision is `paddock.hosts.mac_key`. Nothing is done while the operator is told of no gateway.

| it ends after | what is left | healed by |
|---|---|---|
| the Host is read | nothing | the next pass |
| the Mac took the key, its answer lost or not | a key that no claim has | the next pass, where the claim has none; else the Mac goes on with the one before, or is silent, and asked |
| somebody else wrote the Host | a conflict, and the same | another key at once |
| the claim is written | the Mac's key | nothing to heal |
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from paddock.clients.gateway.mac_key import KeyAnswer, hash_of
from paddock.hosts.api import HostClaim, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.contract import BootstrapFailed, KeyOffer
from paddock.hosts.controllers.context import ReconcileContext, condition
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost
from paddock.hosts.mac_key import (
    KEY_USED,
    KNOWN_TO_GATEWAY,
    AwaitUse,
    EndFormerKey,
    GiveKey,
    NoKeyNeeded,
    claim_after,
    key_step,
    number_for,
)
from paddock.kube.builtin import Lease
from paddock.kube.conditions import get_condition, without_condition
from paddock.kube.difference import merge_difference
from paddock.kube.errors import ConflictError

__all__ = ["Keyed", "MacKeys"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_LEASES: Final = "kube-node-lease"
_ATTEMPTS: Final = 4
_SOON: Final = 60.0


@dataclass(frozen=True, slots=True)
class Keyed:
    """Machine and Host as they are now; `again` is when to look at the key again, None where nothing is to come of it."""

    machine: Machine
    host: Host
    again: float | None = None


class MacKeys:
    """Keeps a bootstrapped Mac known to the gateway. It is safe on a live host, and climbs no tier: where the Mac cannot be
    reached, the machine says so, and it is tried again.
    """

    def __init__(self, context: ReconcileContext, prepare: BootstrapHost) -> None:
        self._context = context
        self._prepare = prepare

    async def run(self, machine: Machine, host: Host, *, silent: bool = False, deleting: bool = False) -> Keyed:
        """With `silent` the Mac is asked which keys it holds: a claim from a backup may know none of them."""
        if not self._context.settings.gateway:
            return Keyed(machine, host)
        outcome = await self._keep(machine, host, silent=silent, deleting=deleting)
        if isinstance(outcome, str):
            return Keyed(await self._waits(machine, outcome), host, _SOON)
        host, step = outcome
        if get_condition(machine.status.conditions, KNOWN_TO_GATEWAY) is not None:
            machine = await self._context.again(machine)
            conditions = without_condition(machine.status.conditions, KNOWN_TO_GATEWAY)
            machine = await self._context.save(machine, replace(machine.status, conditions=conditions))
        return Keyed(machine, host, _SOON if isinstance(step, AwaitUse) else None)

    async def _keep(
        self, machine: Machine, host: Host, *, silent: bool, deleting: bool
    ) -> tuple[Host, NoKeyNeeded | AwaitUse] | str:
        """The Host, once nothing more can be done now; or why the Mac has no good key yet."""
        context, had, replaced = self._context, 0, False
        held: KeyAnswer | None = None
        for _ in range(_ATTEMPTS):
            # Read before the key is made, and before the Lease: what is decided on is what is written under.
            fresh = await context.fresh_host(host.metadata.name)
            claim = _own_claim(fresh, machine)
            if fresh is None or claim is None:
                return "its host is not its own any more"
            if silent and held is None:
                asked = await self._ssh(machine, fresh, None, deleting=deleting)
                if isinstance(asked, BootstrapFailed):
                    return _reason(asked)
                held, had = asked, asked.number
            match key_step(claim, await self._used(machine, claim), held, replaced=replaced):
                case GiveKey(why):
                    key, number = context.new_key(), number_for(claim, had)
                    answer = await self._ssh(machine, fresh, KeyOffer(number, key), deleting=deleting)
                    if isinstance(answer, BootstrapFailed):
                        return _reason(answer)
                    had, held = answer.number, answer if silent else None
                    if not answer.took:
                        continue  # a later key than ours is there: the claim is read anew before another is made
                    after = claim_after(claim, hash_of(key.reveal()), number, answer)
                    if not await self._write(fresh, claim, after):
                        replaced = True
                        continue
                    replaced = False
                    context.say(machine, "Normal", "KeyGiven", f"the Mac has key {number} for the gateway: {why}")
                case EndFormerKey(after):
                    await self._write(fresh, claim, after)
                case NoKeyNeeded() | AwaitUse() as step:
                    return fresh, step
        return f"its Host was written {_ATTEMPTS} times by others meanwhile"

    async def _used(self, machine: Machine, claim: HostClaim) -> str:
        """The digits of the key that the Mac used last; only where a key waits for that."""
        if not claim.next_key_hash:
            return ""
        lease = await self._context.fresh.get(Lease, machine.metadata.name, _LEASES)
        return lease.metadata.annotations.get(KEY_USED, "") if lease is not None else ""

    async def _ssh(
        self, machine: Machine, host: Host, offer: KeyOffer | None, *, deleting: bool
    ) -> KeyAnswer | BootstrapFailed:
        context = self._context
        credentials = await self._prepare.login(machine, host)
        give = partial(context.bootstrapper.give_key, offer=offer)
        return await context.on_host(give, machine, host, credentials, _quiet, although_deleted=deleting)

    async def _write(self, host: Host, before: HostClaim, after: HostClaim) -> bool:
        """Under the version that was read; False where somebody else wrote the Host since."""
        try:
            await self._context.patch_host(host, {"claim": merge_difference(before, after)})
        except ConflictError:
            return False
        return True

    async def _waits(self, machine: Machine, why: str) -> Machine:
        context, now = self._context, self._context.clock.now()
        machine = await context.again(machine)
        message = (
            f"its Mac has no key that the gateway knows, as far as is known; it is tried again in {_SOON:.0f} s: {why}"
        )
        context.say(machine, "Warning", "KeyNotGiven", message)
        status = condition(machine.status, KNOWN_TO_GATEWAY, False, "KeyNotGiven", message, now, severity="Warning")
        return await context.save(machine, status)


def _own_claim(host: Host | None, machine: Machine) -> HostClaim | None:
    if host is None or host.spec.release is not None or host.spec.claim is None:
        return None
    return host.spec.claim if host.spec.claim.machine_uid == machine.metadata.uid else None


def _reason(failed: BootstrapFailed) -> str:
    return f"step {failed.step}: {failed.message}" if failed.step else failed.message


async def _quiet(step: str) -> None:
    """One step, which its event tells of."""
