"""What a simulated Mac says about itself, and its clock and power switch."""

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["hostname", "nothing", "reboot", "shutdown", "sleep", "sw_vers", "sysctl", "uname"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


async def nothing(mac: Mac, call: ToolCall) -> ToolResult:
    """A tool whose work leaves no trace that anybody looks at."""
    del mac, call
    return ok()


async def sleep(mac: Mac, call: ToolCall) -> ToolResult:
    try:
        seconds = sum(float(word.rstrip("smhd")) * _UNITS.get(word[-1:], 1.0) for word in call.arguments)
    except ValueError:
        return fail(1, "usage: sleep number[unit] [...]")
    await mac.pause(seconds)
    return ok()


async def uname(mac: Mac, call: ToolCall) -> ToolResult:
    facts = {
        "s": "Darwin",
        "n": mac.hostname,
        "r": "25.3.0",
        "m": "arm64",
        "p": "arm",
        "v": "Darwin Kernel Version 25.3.0",
    }
    flags = "".join(word.lstrip("-") for word in call.arguments) or "s"
    return ok(" ".join(facts.get(flag, "") for flag in ("snrvm" if flags == "a" else flags)))


async def sw_vers(mac: Mac, call: ToolCall) -> ToolResult:
    facts = {"ProductName": "macOS", "ProductVersion": mac.product_version, "BuildVersion": "25D125"}
    if call.arguments:
        wanted = call.arguments[0].lstrip("-").lower()
        return ok(next((value for key, value in facts.items() if key.lower() == wanted), ""))
    return ok("\n".join(f"{key}:\t\t{value}" for key, value in facts.items()))


async def sysctl(mac: Mac, call: ToolCall) -> ToolResult:
    facts = {
        "hw.ncpu": "10",
        "hw.logicalcpu": "10",
        "hw.physicalcpu": "10",
        "hw.memsize": str(24 * 1024**3),
        "hw.model": "Mac16,10",
        "kern.hostname": mac.hostname,
        "kern.osproductversion": mac.product_version,
        "kern.bootsessionuuid": f"00000000-0000-4000-8000-{mac.boots:012d}",
        "machdep.cpu.brand_string": "Apple M4",
    }
    plain = "-n" in call.arguments
    lines: list[str] = []
    for name in (word for word in call.arguments if not word.startswith("-")):
        if name not in facts:
            return fail(1, f"sysctl: unknown oid '{name}'")
        lines.append(facts[name] if plain else f"{name}: {facts[name]}")
    return ok("\n".join(lines))


async def hostname(mac: Mac, call: ToolCall) -> ToolResult:
    return ok(mac.hostname.split(".")[0] if "-s" in call.arguments else mac.hostname)


async def reboot(mac: Mac, call: ToolCall) -> ToolResult:
    if not call.root:
        return fail(1, "reboot: Operation not permitted")
    mac.effect(call)
    mac.reboot()
    return ok()


async def shutdown(mac: Mac, call: ToolCall) -> ToolResult:
    if not call.root:
        return fail(1, "shutdown: NOT super-user")
    mac.effect(call)
    then = mac.reboot if "-r" in call.arguments else mac.power_off
    minutes = next((int(word[1:]) for word in call.arguments if word.startswith("+") and word[1:].isdigit()), 0)
    if not minutes:
        then()
        return ok()
    mac.later(60.0 * minutes, then)
    return ok(f"Shutdown at: in {minutes} min")
