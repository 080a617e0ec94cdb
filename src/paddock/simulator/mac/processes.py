"""The processes of a simulated Mac, as far as launchd knows them."""

import re

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.launchd import LoadedJob

__all__ = ["kill", "killall", "pgrep", "pkill", "ps"]


def _command(job: LoadedJob) -> str:
    return " ".join(job.program) if job.program else f"/System/Library/{job.label.rsplit('.', 1)[-1]}"


def _running(mac: Mac) -> list[LoadedJob]:
    return [job for job in mac.launchd.jobs.values() if job.pid is not None]


def _matching(mac: Mac, call: ToolCall) -> list[LoadedJob]:
    pattern = next((word for word in reversed(call.arguments) if not word.startswith("-")), "")
    whole = any(word.startswith("-") and "f" in word for word in call.arguments)
    exact = any(word.startswith("-") and "x" in word for word in call.arguments)
    found: list[LoadedJob] = []
    for job in _running(mac):
        text = _command(job) if whole else _command(job).split()[0].rsplit("/", 1)[-1]
        if re.fullmatch(pattern, text) if exact else re.search(pattern, text):
            found.append(job)
    return found


async def kill(mac: Mac, call: ToolCall) -> ToolResult:
    """What `sudo kill` runs; without sudo the shell's own `kill` answers, which knows none of these numbers."""
    words = [word for word in call.arguments if not word.startswith("-")]
    found = [job for job in _running(mac) if str(job.pid) in words]
    if len(found) != len(words):
        return fail(1, "kill: No such process")
    if "-0" in call.arguments:
        return ok()
    return _ended(mac, call, found)


async def pgrep(mac: Mac, call: ToolCall) -> ToolResult:
    found = _matching(mac, call)
    return ok("\n".join(str(job.pid) for job in found)) if found else ToolResult(1)


async def pkill(mac: Mac, call: ToolCall) -> ToolResult:
    return _ended(mac, call, _matching(mac, call))


async def killall(mac: Mac, call: ToolCall) -> ToolResult:
    name = call.arguments[-1] if call.arguments else ""
    found = [job for job in _running(mac) if _command(job).split()[0].rsplit("/", 1)[-1] == name]
    answer = _ended(mac, call, found)
    return answer if found else fail(1, "No matching processes belonging to you were found")


def _ended(mac: Mac, call: ToolCall, jobs: list[LoadedJob]) -> ToolResult:
    if not jobs:
        return ToolResult(1)
    mac.effect(call)
    for job in jobs:
        mac.launchd.stop(job, 15)
        if job.label == "com.apple.loginwindow":
            # Seen in production: after a signal launchd does not start loginwindow again, and the session is gone.
            mac.session_user = None
            mac.launchd.end_session()
        elif job.kept_alive:
            mac.launchd.start(job)
    return ok()


async def ps(mac: Mac, call: ToolCall) -> ToolResult:
    if "-p" in call.arguments:
        wanted = call.arguments[call.arguments.index("-p") + 1]
        found = [job for job in _running(mac) if str(job.pid) == wanted]
        return ok(f"{wanted} ??         0:00.10 {_command(found[0])}") if found else ToolResult(1)
    return ok(
        "  PID TTY           TIME CMD\n"
        + "".join(f"{job.pid} ??         0:00.10 {_command(job)}\n" for job in _running(mac))
    )
