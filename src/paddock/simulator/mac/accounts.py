"""Who is who on a simulated Mac."""

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["dscl", "fdesetup", "groups", "identity", "sysadminctl", "whoami"]


async def whoami(mac: Mac, call: ToolCall) -> ToolResult:
    del mac
    return ok(call.user)


async def groups(mac: Mac, call: ToolCall) -> ToolResult:
    del mac
    return ok("wheel" if call.root else "staff admin")


async def identity(mac: Mac, call: ToolCall) -> ToolResult:
    flags = "".join(word[1:] for word in call.arguments if word.startswith("-"))
    named = [word for word in call.arguments if not word.startswith("-")]
    user = named[0] if named else call.user
    if user not in mac.disk.users:
        return fail(1, f"id: {user}: no such user")
    uid = mac.uid(user)
    group, gid = ("wheel", 0) if uid == 0 else ("staff", 20)
    if "u" in flags:
        return ok(user if "n" in flags else str(uid))
    if "g" in flags:
        return ok(group if "n" in flags else str(gid))
    return ok(f"uid={uid}({user}) gid={gid}({group}) groups={gid}({group}),80(admin)")


async def dscl(mac: Mac, call: ToolCall) -> ToolResult:
    arguments = [word for word in call.arguments if word not in {".", "/Local/Default", "-q"}]
    verb, *rest = arguments or [""]
    match verb.lstrip("-"):
        case "list" | "ls":
            return ok("\n".join(sorted(mac.disk.users)))
        case "read" if rest:
            user = mac.disk.users.get(rest[0].removeprefix("/Users/"))
            if user is None:
                return fail(56, "<dscl_cmd> DS Error: -14136 (eDSRecordNotFound)")
            facts = {
                "UniqueID": str(user.uid),
                "NFSHomeDirectory": user.home,
                "UserShell": user.shell,
                "RecordName": user.name,
                "PrimaryGroupID": "0" if user.uid == 0 else "20",
            }
            wanted = rest[1:] or list(facts)
            if unknown := [key for key in wanted if key not in facts]:
                return ok(f"No such key: {unknown[0]}")
            return ok("\n".join(f"{key}: {facts[key]}" for key in wanted))
        case "authonly" if rest:
            password = rest[1] if len(rest) > 1 else (await call.standard_input()).decode().rstrip("\n")
            if mac.check_password(rest[0], password):
                return ok()
            return fail(1, "Authentication for node /Local/Default failed. (-14090, eDSAuthFailed)")
        case _:
            return fail(64, "dscl: this part of it is not simulated")


async def sysadminctl(mac: Mac, call: ToolCall) -> ToolResult:
    """The screen lock of whoever asks. What it says goes to standard error, and its status is 0 whatever it did."""
    words = call.arguments
    if words == ["-screenLock", "status"]:
        return ToolResult(
            0, err=f"sysadminctl[501:7] screenLock {'delay is immediate' if mac.disk.screen_lock else 'is off'}\n"
        )
    if words[:2] != ["-screenLock", "off"] or words[2:3] != ["-password"]:
        return ToolResult(
            0, err="Usage: sysadminctl -screenLock <status || immediate || off || seconds> -password <password>\n"
        )
    given = (await call.standard_input()).decode().splitlines() if words[3:] == ["-"] else words[3:]
    if not mac.check_password(call.user, given[0] if given else ""):
        return ToolResult(0, err="sysadminctl[501:7] screenLock could not be set: wrong password\n")
    mac.effect(call)
    mac.disk.screen_lock = False
    return ToolResult(0, err="sysadminctl[501:7] screenLock is off\n")


async def fdesetup(mac: Mac, call: ToolCall) -> ToolResult:
    if call.arguments != ["status"]:
        return fail(1, "Error: must be run as root, and only status is simulated.")
    return ok(f"FileVault is {'On' if mac.disk.filevault else 'Off'}.")
