"""A waiting Pod's token is renewed in place: the VM waits on, and dispatch is never shown a token that has ended."""

import base64
import json
from typing import Any

import pytest
from simulation.node.node_world import Dispatch, NodeWorld, over_kubernetes

from paddock.simulator.faults import Fail
from paddock.simulator.process import World, simulate

HOUR = 3600.0
pytestmark = over_kubernetes  # a Mac behind a gateway shows its own key, and no Pod's token


class _Witness(Dispatch):
    """Remembers when each token that it was shown would have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, int] = {}
        self.left: list[float] = []
        self.now = lambda: 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        shown = {key.decode().lower(): value.decode() for key, value in scope["headers"]}["authorization"].split()[1]
        part = shown.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        self.tokens[shown] = claims["exp"]
        self.left.append(claims["exp"] - self.now())
        await super().__call__(scope, receive, send)


@pytest.mark.slow
def test_a_vm_that_waits_for_an_hour_shows_a_fresh_token_each_time_and_is_not_disturbed() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        witness = mac.dispatch = _Witness()
        witness.now = lambda: mac.clock.now().timestamp()
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.clock.sleep(HOUR)
        mac.safe()
        assert len(witness.tokens) > 5, "it is renewed every ten minutes"
        assert min(witness.left) > HOUR, "no token comes near its end"
        assert mac.tart.running() == [mac.vm(uid)]
        witness.jobs.append("job-1")
        await mac.phase_is("p1", "Succeeded")
        assert mac.ran == ["job-1"]
        assert mac.tart.ledger.runs == [mac.vm(uid)], "one VM for the whole time"

    simulate(scenario, seed=4)


def test_half_an_hour_without_new_tokens_costs_no_vm_its_place() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        witness = mac.dispatch = _Witness()
        witness.now = lambda: mac.clock.now().timestamp()
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        world.faults.inject(Fail(), process="agent", where=lambda call: call.path.endswith("/token"))
        await mac.clock.sleep(HOUR / 2)
        shown = len(witness.tokens)
        assert min(witness.left) > 0, "the old token still holds"
        world.faults.clear()
        await mac.eventually("a new token is shown", lambda: len(witness.tokens) > shown, within=120.0)
        assert mac.tart.running() == [mac.vm(uid)]

    simulate(scenario, seed=4)
