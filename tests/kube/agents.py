"""The node agents of simulated Macs at a real API server: the shipped agent's code, with a Tart that is simulated."""

from __future__ import annotations

import random
from typing import NoReturn

from paddock.base.clock import Clock
from paddock.cli.simulated_world import agent_command
from paddock.simulator.agents import Addresses, AgentWorld, SimulatedAgents, dispatch_clients
from paddock.simulator.github.sessions import RunnerRefusedError
from paddock.simulator.mac import Fleet
from paddock.simulator.pods import RunnerFaults, RunnerPace


def agents_of(macs: Fleet, api: str, clock: Clock, rng: random.Random, *, speed: float) -> SimulatedAgents:
    """Agents for the Macs of a fleet whose cluster has no dispatch: no VM ever gets a job."""
    faults = RunnerFaults()
    world = AgentWorld(
        Addresses(api, "http://127.0.0.1:1"),
        agent_command,
        dispatch_clients(faults),
        _no_github,
        faults,
        clock,
        rng,
        RunnerPace(speed=speed),
    )
    return SimulatedAgents(macs, tuple, world)


def _no_github(config: str) -> NoReturn:
    del config
    raise RunnerRefusedError("there is no GitHub here")
