"""A simulator of GitHub as a fleet of runners sees it: App, runners, jobs, webhooks and bad habits, on an injected clock."""

from paddock.simulator.github.app_keys import new_app_key
from paddock.simulator.github.behaviour import GitHubBehaviour
from paddock.simulator.github.faults import Fault, FaultKind
from paddock.simulator.github.front import AuditEntry
from paddock.simulator.github.github import SimulatedGitHub
from paddock.simulator.github.sessions import Assignment, RunnerGoneError, RunnerRefusedError, RunnerSession
from paddock.simulator.github.state import (
    Attempt,
    Run,
    SimulatedAccount,
    SimulatedJob,
    SimulatedRepository,
    SimulatedRunner,
)
from paddock.simulator.github.webhooks import signature
from paddock.simulator.github.workload import Workload

__all__ = [
    "Assignment",
    "Attempt",
    "AuditEntry",
    "Fault",
    "FaultKind",
    "GitHubBehaviour",
    "Run",
    "RunnerGoneError",
    "RunnerRefusedError",
    "RunnerSession",
    "SimulatedAccount",
    "SimulatedGitHub",
    "SimulatedJob",
    "SimulatedRepository",
    "SimulatedRunner",
    "Workload",
    "new_app_key",
    "signature",
]
