"""The simulated GitHub, and a receiver of its webhooks, behind real HTTP servers on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from integration.served import served
from unit.simulator.github.rig import Receiver

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.simulator.github import GitHubBehaviour, SimulatedGitHub


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def github(receiver: Receiver) -> AsyncIterator[SimulatedGitHub]:
    """In real time, with GitHub's own work done at once, and driven."""
    behaviour = GitHubBehaviour(assignment=(0.0, 0.0), delivery=(0.0, 0.0))
    async with SimulatedGitHub(SystemClock(), seeded("github"), behaviour=behaviour) as github:
        github.add_organization("acme", "app", "web")
        github.add_user("bob", "toy")
        async with served(receiver) as address:
            github.deliver_to(f"{address}/webhooks/github")
            running = asyncio.create_task(github.run())
            yield github
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.fixture
async def api_url(github: SimulatedGitHub) -> AsyncIterator[str]:
    async with served(github.app) as address:
        yield address
