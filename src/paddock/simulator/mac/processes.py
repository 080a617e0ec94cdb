"""The processes of a simulated Mac, as far as launchd knows them."""

import re

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.launchd import LoadedJob

_LOGINWINDOW = "com.apple.loginwindow"
_VIRTUAL_MACHINE = (
    "/System/Library/Frameworks/Virtualization.framework/Versions/A/XPCServices/"
    "com.apple.Virtualization.VirtualMachine.xpc/Contents/MacOS/com.apple.Virtualization.VirtualMachine"
)
_GOES_AFTER = 1.0
_FIRST_PID_OF_VMS = 6_000_000

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
    found = [str(job.pid) for job in _matching(mac, call)]
    pattern = next((word for word in reversed(call.arguments) if not word.startswith("-")), "")
    if pattern and "-f" in call.arguments and re.search(pattern, _VIRTUAL_MACHINE):
        found += [str(_FIRST_PID_OF_VMS + number) for number in range(mac.virtual_machines())]
    return ok("\n".join(found)) if found else ToolResult(1)


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
        if job.label == _LOGINWINDOW:
            _loginwindow_ended(mac, job, hangs_up=any(word in {"-HUP", "-1"} for word in call.arguments))
        elif job.kept_alive:
            mac.launchd.start(job)
    return ok()


def _loginwindow_ended(mac: Mac, job: LoadedJob, *, hangs_up: bool) -> None:
    """The session goes with it, a moment later. launchd starts it again, and it logs in as at a kick; but not after a
    hang-up, as was seen in production: then it stays dead.
    """
    mac.later(_GOES_AFTER, mac.end_graphical_session)
    if hangs_up:
        return

    def anew() -> None:
        mac.launchd.start(job)
        mac.log_in()

    mac.later(_GOES_AFTER + mac.pace.of("loginwindow"), anew)


async def ps(mac: Mac, call: ToolCall) -> ToolResult:
    if "-p" in call.arguments:
        wanted = call.arguments[call.arguments.index("-p") + 1]
        found = [job for job in _running(mac) if str(job.pid) == wanted]
        return ok(f"{wanted} ??         0:00.10 {_command(found[0])}") if found else ToolResult(1)
    return ok(
        "  PID TTY           TIME CMD\n"
        + "".join(f"{job.pid} ??         0:00.10 {_command(job)}\n" for job in _running(mac))
    )
