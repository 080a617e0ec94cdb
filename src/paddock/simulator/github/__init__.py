"""A twin of GitHub as a fleet of runners sees it: App, runners, jobs, webhooks and bad habits, on an injected clock."""

from paddock.simulator.github.app_keys import new_app_key
from paddock.simulator.github.behaviour import Behaviour
from paddock.simulator.github.faults import Fault, FaultKind
from paddock.simulator.github.front import AuditEntry
from paddock.simulator.github.github import SimulatedGitHub
from paddock.simulator.github.sessions import Assignment, RunnerGoneError, RunnerRefusedError, RunnerSession
from paddock.simulator.github.state import Account, Attempt, Job, Repository, Run, Runner
from paddock.simulator.github.webhooks import signature
from paddock.simulator.github.workload import Workload

__all__ = [
    "Account",
    "Assignment",
    "Attempt",
    "AuditEntry",
    "Behaviour",
    "Fault",
    "FaultKind",
    "Job",
    "Repository",
    "Run",
    "Runner",
    "RunnerGoneError",
    "RunnerRefusedError",
    "RunnerSession",
    "SimulatedGitHub",
    "Workload",
    "new_app_key",
    "signature",
]
