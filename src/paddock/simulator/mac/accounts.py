"""Who is who on a simulated Mac."""

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["dscl", "groups", "identity", "whoami"]


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
