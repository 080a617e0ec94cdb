"""The command in front of launchd, with the statuses and texts of the real one."""

import re

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.launchd import LoadedJob, read_plist

__all__ = ["launchctl"]

_LOGINWINDOW = "com.apple.loginwindow"
_SSHD = "com.openssh.sshd"
_CRITICAL_SINCE = (14, 4)
"""Since this macOS launchd kills no critical process of the system on request."""


async def launchctl(mac: Mac, call: ToolCall) -> ToolResult:
    if not call.arguments:
        return fail(64, "Usage: launchctl <subcommand> ... | help [subcommand]")
    verb, *rest = call.arguments
    match verb:
        case "print":
            return _print(mac, rest)
        case "bootstrap":
            return _bootstrap(mac, call, rest)
        case "bootout":
            return _bootout(mac, call, rest)
        case "kickstart":
            return await _kickstart(mac, call, rest)
        case "enable" | "disable":
            return _toggle(mac, call, verb, rest)
        case "print-disabled":
            labels = "".join(f'\t\t"{label}" => disabled\n' for label in sorted(mac.disk.disabled_jobs))
            return ok(f"disabled services = {{\n{labels}}}\n")
        case "list":
            return _list(mac, call, rest)
        case "kill":
            return _kill(mac, call, rest)
        case "load" | "unload":
            return _legacy(mac, call, verb, rest)
        case "managername":
            return ok("System" if call.root else "Background")
        case "asuser":
            return fail(1, "launchctl: asuser is not simulated; use a domain such as gui/501")
        case _:
            return fail(64, f"Unrecognized subcommand: {verb}")


def _domain_of(target: str) -> tuple[str, str]:
    """`system/label` and `gui/501/label` as domain and label; the label is empty for a domain."""
    parts = target.split("/")
    if parts[0] == "system":
        return "system", "/".join(parts[1:])
    return "/".join(parts[:2]), "/".join(parts[2:])


def _domain_exists(mac: Mac, domain: str) -> bool:
    if domain == "system":
        return True
    kind, _, uid = domain.partition("/")
    if kind == "user":
        return uid == str(mac.uid(mac.username))
    return kind == "gui" and mac.session_user is not None and uid == str(mac.uid(mac.session_user))


def _missing(label: str, domain: str) -> ToolResult:
    kind, _, uid = domain.partition("/")
    where = "system" if kind == "system" else f"user {kind}: {uid}" if kind == "gui" else f"{kind}: {uid}"
    return fail(113, f'Could not find service "{label}" in domain for {where}')


def _allowed(call: ToolCall, domain: str) -> bool:
    return call.root or not domain.startswith("system")


def _print(mac: Mac, rest: list[str]) -> ToolResult:
    if not rest:
        return fail(64, "Usage: launchctl print <domain-target>")
    domain, label = _domain_of(rest[0])
    if not _domain_exists(mac, domain):
        return fail(113, "Bad request.", f"Could not find domain for {domain}")
    if label:
        job = mac.launchd.job(label, domain)
        return _missing(label, domain) if job is None else ok(_described(job))
    session = "Aqua" if domain.startswith("gui/") else "System" if domain == "system" else "Background"
    made = ""
    if session == "Aqua":
        made = f"\thandle = {100_000 + mac.session_number}\n\tcreator = {mac.session_creator}\n\tcreator euid = 0\n"
    services = "".join(
        f"\t\t{job.pid or 0:>6}      -\t{job.label}\n"
        for (where, _), job in mac.launchd.jobs.items()
        if where == domain
    )
    return ok(f"{rest[0]} = {{\n\ttype = login\n{made}\tsession = {session}\n\tservices = {{\n{services}\t}}\n}}\n")


def _described(job: LoadedJob) -> str:
    lines = [
        f"{job.domain}/{job.label} = {{",
        f"\tpath = {job.path or '(submitted by system)'}",
        "\ttype = LaunchDaemon",
    ]
    lines.append(f"\tstate = {job.state}")
    if job.program:
        lines += [f"\tprogram = {job.program[0]}", "\targuments = {", *(f"\t\t{word}" for word in job.program), "\t}"]
    lines.append(f"\truns = {job.runs}")
    if job.pid is not None:
        lines.append(f"\tpid = {job.pid}")
    lines.append(f"\tlast exit code = {'(never exited)' if job.exit_status is None else job.exit_status}")
    if job.reason:
        lines.append(f"\tlast exit reason = {job.reason}")
    return "\n".join([*lines, "}", ""])


def _bootstrap(mac: Mac, call: ToolCall, rest: list[str]) -> ToolResult:
    if len(rest) < 2:
        return fail(64, "Usage: launchctl bootstrap <domain-target> [service-path, ...]")
    domain = rest[0]
    mac.effect(call)
    if not _allowed(call, domain):
        return fail(1, "Bootstrap failed: 1: Operation not permitted")
    if not _domain_exists(mac, domain):
        return fail(125, "Bootstrap failed: 125: Domain does not support specified action")
    for path in rest[1:]:
        shown = mac.disk.shown(call.beside(path))
        place = mac.disk.at(shown)
        settings = read_plist(place) if place.is_file() else None
        if settings is None or not isinstance(label := settings.get("Label"), str):
            return fail(
                5, "Bootstrap failed: 5: Input/output error", f"Path had bad ownership, was missing or invalid: {shown}"
            )
        if domain == "system" and (mac.disk.owner(shown)[0] != "root" or place.stat().st_mode & 0o022):
            return fail(
                122,
                f"{shown}: Path had bad ownership/permissions",
                "Bootstrap failed: 122: Path had bad ownership/permissions",
            )
        if label in mac.disk.disabled_jobs:
            return fail(119, "Bootstrap failed: 119: Service is disabled")
        if mac.launchd.job(label, domain) is not None:
            return fail(
                5, "Bootstrap failed: 5: Input/output error", "Try re-running the command as root for richer errors."
            )
        if label == _SSHD:
            mac.revive_sshd()
        mac.launchd.load(domain, shown, settings)
    return ok()


def _bootout(mac: Mac, call: ToolCall, rest: list[str]) -> ToolResult:
    if not rest:
        return fail(64, "Usage: launchctl bootout <domain-target> [service-path, ...]")
    domain, label = _domain_of(rest[0])
    mac.effect(call)
    if not label and len(rest) > 1:
        settings = read_plist(mac.disk.at(call.beside(rest[1])))
        label = str(settings.get("Label", "")) if settings else ""
    if not _allowed(call, domain):
        return fail(1, "Boot-out failed: 1: Operation not permitted")
    job = mac.launchd.job(label, domain)
    if job is None:
        return fail(3, "Boot-out failed: 3: No such process")
    mac.launchd.unload(job)
    return ok()


async def _kickstart(mac: Mac, call: ToolCall, rest: list[str]) -> ToolResult:
    flags = "".join(word[1:] for word in rest if word.startswith("-"))
    targets = [word for word in rest if not word.startswith("-")]
    if not targets:
        return fail(64, "Usage: launchctl kickstart [-kp] <service-target>")
    domain, label = _domain_of(targets[0])
    mac.effect(call)
    if not _allowed(call, domain):
        return fail(1, f'Could not kickstart service "{label}": 1: Operation not permitted')
    job = mac.launchd.job(label, domain)
    if job is None:
        return _missing(label, domain)
    if label == _LOGINWINDOW:
        if "k" in flags and _version(mac.product_version) >= _CRITICAL_SINCE:
            return fail(1, f'Could not kickstart service "{label}": 1: Operation not permitted')
        if "k" in flags or job.pid is None:
            await mac.pause(mac.pace.of("loginwindow"))
            mac.kick_loginwindow()
    if "k" in flags or job.pid is None:
        mac.launchd.stop(job, 9)
        mac.launchd.start(job)
    return ok(f"service spawned with pid: {job.pid}" if "p" in flags else "")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _toggle(mac: Mac, call: ToolCall, verb: str, rest: list[str]) -> ToolResult:
    if not rest:
        return fail(64, f"Usage: launchctl {verb} <service-target>")
    domain, label = _domain_of(rest[0])
    if not _allowed(call, domain):
        return fail(1, f"Could not {verb} service: 1: Operation not permitted")
    mac.effect(call)
    (mac.disk.disabled_jobs.discard if verb == "enable" else mac.disk.disabled_jobs.add)(label)
    return ok()


def _list(mac: Mac, call: ToolCall, rest: list[str]) -> ToolResult:
    mine = "system" if call.root else f"gui/{mac.uid(call.user)}"
    jobs = [job for (domain, _), job in mac.launchd.jobs.items() if domain == mine]
    if not rest:
        return ok(
            "PID\tStatus\tLabel\n" + "".join(f"{job.pid or '-'}\t{job.exit_status or 0}\t{job.label}\n" for job in jobs)
        )
    job = next((job for job in jobs if job.label == rest[0]), None)
    if job is None:
        return fail(113, f'Could not find service "{rest[0]}" in domain for {"system" if call.root else "port"}')
    pid = f'\t"PID" = {job.pid};\n' if job.pid is not None else ""
    return ok(f'{{\n\t"Label" = "{job.label}";\n\t"LastExitStatus" = {job.exit_status or 0};\n{pid}}};\n')


def _kill(mac: Mac, call: ToolCall, rest: list[str]) -> ToolResult:
    if len(rest) != 2:
        return fail(64, "Usage: launchctl kill <signal> <service-target>")
    domain, label = _domain_of(rest[1])
    mac.effect(call)
    job = mac.launchd.job(label, domain)
    if job is None:
        return _missing(label, domain)
    if job.pid is None:
        return fail(3, f"No process to signal: {rest[1]}")
    mac.launchd.stop(job, 9 if re.search(r"KILL|9$", rest[0]) else 15)
    if job.kept_alive:
        mac.launchd.start(job)
    return ok()


def _legacy(mac: Mac, call: ToolCall, verb: str, rest: list[str]) -> ToolResult:
    paths = [word for word in rest if not word.startswith("-")]
    domain = "system" if call.root else f"gui/{mac.uid(call.user)}"
    for path in paths:
        answer = (_bootstrap if verb == "load" else _bootout)(mac, call, [domain, path])
        if answer.status != 0:
            # The old verbs say what went wrong and end well, which is why no script should use them.
            return ToolResult(0, err=f"{'Load' if verb == 'load' else 'Unload'} failed: 5: Input/output error\n")
    return ok()
