"""Tart on one simulated Mac, in virtual time: its VMs, its disk, and a guest that keeps the share's contract.

Everything here belongs to the Mac: it survives the agent, and dies with power.
"""

from paddock.simulator.tart.disk import SimulatedDisk
from paddock.simulator.tart.guest import GuestPace, GuestProgram, Mishap, RunnerProgram
from paddock.simulator.tart.host import SimulatedHost
from paddock.simulator.tart.machines import SimulatedTart, TartPace
from paddock.simulator.tart.runner import SimulatedRunner

__all__ = [
    "GuestPace",
    "GuestProgram",
    "Mishap",
    "RunnerProgram",
    "SimulatedDisk",
    "SimulatedHost",
    "SimulatedRunner",
    "SimulatedTart",
    "TartPace",
]
