"""Who may become root on a simulated Mac: its sudoers files, and the count of wrong passwords that locks an account.

Modelled on what was seen: a wrong password is answered by "Sorry, try again."; after a handful of them the directory
service locks the account, and then the right password is refused too, until a reboot clears the count.
"""

import re
import stat

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["grants", "sudo", "sudoers_problem", "visudo"]

PASSWORD_FIRST = 42
_TRIES = 3
_GRANT = re.compile(
    r"^(?P<who>%?[A-Za-z_][\w.-]*)\s+(?P<hosts>\S+)\s*=\s*(\((?P<runas>[^)]*)\)\s*)?(?P<tags>(?:[A-Z_]+:\s*)*)(?P<what>!?(?:ALL|/\S|[A-Z]\w*\b).*)$"
)
_DEFAULTS = re.compile(r"^Defaults([:@>!]\S+)?\s+\S.*$")
_INCLUDE = re.compile(r"^[#@]include(dir)?\s+\S+$")
_ALIAS = re.compile(r"^(User|Runas|Host|Cmnd)_Alias\s+[A-Z]\w*\s*=\s*\S.*$")


def sudoers_problem(text: str) -> int | None:
    """The number of the first line that sudo cannot read, or None."""
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or (plain.startswith("#") and not _INCLUDE.match(plain)):
            continue
        if not any(form.match(plain) for form in (_GRANT, _DEFAULTS, _INCLUDE, _ALIAS)):
            return number
    if text and not text.endswith("\n"):
        return text.count("\n") + 1  # the last line has no end: sudo's parser asks for one
    return None


def _files(mac: Mac) -> list[str]:
    folder = mac.disk.at("/etc/sudoers.d")
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    # sudo passes over names with a dot or a tilde, where editors and package tools leave copies.
    return ["/etc/sudoers", *(f"/etc/sudoers.d/{name}" for name in names if "." not in name and not name.endswith("~"))]


def grants(mac: Mac, user: str) -> tuple[bool, list[str]]:
    """Whether the user needs no password, and what sudo complains of (in which case no user may do anything)."""
    free, problems = False, []
    for path in _files(mac):
        place = mac.disk.at(path)
        if not place.is_file():
            continue
        if stat.S_IMODE(place.stat().st_mode) & 0o022:
            problems.append(f"sudo: {path} is world writable")
            continue
        if mac.disk.owner(path)[0] != "root":
            problems.append(f"sudo: {path} is owned by uid {mac.uid(mac.disk.owner(path)[0])}, should be 0")
            continue
        text = place.read_text(errors="replace")
        if (number := sudoers_problem(text)) is not None:
            problems.append(f">>> {path}: syntax error near line {number} <<<")
            problems.append(f"sudo: parse error in {path} near line {number}")
            problems.append("sudo: no valid sudoers sources found, quitting")
            continue
        for line in text.splitlines():
            grant = _GRANT.match(line.strip())
            if grant and grant["who"] in {user, "%admin", "ALL"}:
                free = "NOPASSWD:" in grant["tags"]  # the last match wins
    return free, problems


async def sudo(mac: Mac, call: ToolCall) -> ToolResult:
    """The questions of the `sudo` stand-in: may I, is this the password, I am done."""
    question, *fields = call.arguments
    match question:
        case "may":
            answer = _may(mac, call, *fields[:3])
            return _granted(mac, call, answer, fields[2])
        case "try":
            answer = _tried(mac, call, int(fields[1]), fields[2])
            return _granted(mac, call, answer, fields[3])
        case "none":
            # An empty answer is a failed attempt too, but says nothing about the password: it is not counted.
            return fail(1, "", "sudo: no password was provided", "sudo: a password is required")
        case _:
            mac.files_changed_by(call.session, fields[0])
            mac.commands_as_root[call.session] -= 1
            return ok()


def _granted(mac: Mac, call: ToolCall, answer: ToolResult, action: str) -> ToolResult:
    """Note that a command is about to run as another user, until it says that it is done."""
    if answer.status == 0 and action == "run":
        mac.commands_as_root[call.session] += 1
    return answer


def _may(mac: Mac, call: ToolCall, mode: str, user: str, action: str) -> ToolResult:
    mac.files_changed_by(call.session, call.user)
    if user not in mac.disk.users:
        return fail(1, f"sudo: unknown user: {user}")
    if call.user == "root":
        return ok()
    free, problems = grants(mac, call.user)
    if problems:
        return fail(1, *problems)
    if free:
        return ok(_listed(call.user, mac) if action == "list" else "")
    if mode == "never":
        return fail(1, "sudo: a password is required")
    if mode == "tty":
        return fail(
            1,
            "sudo: a terminal is required to read the password; either use the -S option to read from standard input "
            "or configure an askpass helper",
            "sudo: a password is required",
        )
    return ToolResult(PASSWORD_FIRST)


def _tried(mac: Mac, call: ToolCall, tries: int, password: str) -> ToolResult:
    if mac.check_password(call.user, password):
        return ToolResult(0)
    if tries + 1 < _TRIES:
        return ToolResult(PASSWORD_FIRST, err="\nSorry, try again.\n")
    return fail(1, "", f"sudo: {tries + 1} incorrect password attempts")


def _listed(user: str, mac: Mac) -> str:
    return f"User {user} may run the following commands on {mac.hostname}:\n    (ALL) NOPASSWD: ALL"


async def visudo(mac: Mac, call: ToolCall) -> ToolResult:
    path = "/etc/sudoers"
    arguments = list(call.arguments)
    check = False
    while arguments:
        word = arguments.pop(0)
        if word.startswith("-") and word != "-" and not word.startswith("--"):
            check = check or "c" in word
            if word.endswith("f") and arguments:
                path = arguments.pop(0)
        elif word == "--check":
            check = True
        elif word.startswith("--file="):
            path = word.split("=", 1)[1]
    if not check:
        return fail(1, "visudo: no editor here; use -c -f")
    if path == "-":
        text = (await call.standard_input()).decode(errors="replace")
        path = "stdin"
    else:
        place = mac.disk.at(call.beside(path))
        if not place.is_file():
            return fail(1, f"visudo: unable to open {mac.disk.shown(path)}: No such file or directory")
        text = place.read_text(errors="replace")
        path = mac.disk.shown(path)
    if (number := sudoers_problem(text)) is not None:
        return fail(1, f"{path}:{number}:1: syntax error", text.splitlines()[number - 1], "^")
    return ok(f"{path}: parsed OK")
