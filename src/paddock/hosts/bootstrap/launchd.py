"""The property lists of our launchd jobs, as texts.  (pure)"""

import plistlib
from typing import Any

from paddock.hosts.bootstrap.plan import FleetConfig, LaunchdJob, PerHost, fill

__all__ = ["daemon_plist", "job_plist"]


def daemon_plist(label: str, program: str, *, every: int = 0) -> str:
    """A root job that runs once when it is loaded, thus at every start of the Mac, and then every so many seconds."""
    content: dict[str, Any] = {"Label": label, "ProgramArguments": [program], "RunAtLoad": True}
    if every:
        content["StartInterval"] = every
    return _text(content)


def job_plist(job: LaunchdJob, host: PerHost, fleet: FleetConfig) -> str:
    """A job that launchd keeps running, with this host's values in its arguments."""
    content: dict[str, Any] = {
        "Label": job.label,
        "ProgramArguments": [fill(argument, host, fleet) for argument in job.arguments],
        "RunAtLoad": True,
        "KeepAlive": True,
        # launchd's own default; written down because the check that a start is stable counts on it.
        "ThrottleInterval": 10,
        # Without it launchd gives what the job starts, and so the machines, the CPU and disk of a background job.
        "ProcessType": "Interactive",
        "UserName": host.username if job.run_as == "login" else "root",
    }
    if job.log:
        content |= {"StandardOutPath": job.log, "StandardErrorPath": job.log}
    if job.environment:
        content["EnvironmentVariables"] = {name: fill(value, host, fleet) for name, value in job.environment}
    return _text(content)


def _text(content: dict[str, Any]) -> str:
    return plistlib.dumps(content, sort_keys=True).decode().rstrip("\n")
