"""The network as a simulated Mac sees it: its own ports, one interface, and the downloads a test has put there."""

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["curl", "ifconfig", "ipconfig", "nc", "route"]

_TAKES = {
    "-o", "--output", "--retry", "--retry-delay", "--retry-max-time", "--max-time", "-m", "--connect-timeout", "-H",
    "--header", "-w", "--write-out", "--proto", "-K", "--config", "-A", "--user-agent",
}  # fmt: skip


async def curl(mac: Mac, call: ToolCall) -> ToolResult:
    values: dict[str, str] = {}
    urls: list[str] = []
    rest = list(call.arguments)
    fails = False
    while rest:
        word = rest.pop(0)
        if word in _TAKES:
            values[word] = rest.pop(0) if rest else ""
        elif word.startswith("-") and not word.startswith("--"):
            fails = fails or "f" in word
            if word.endswith("o") and rest:
                values["-o"] = rest.pop(0)
        elif word.startswith("--"):
            fails = fails or word == "--fail"
        else:
            urls.append(word)
    if not urls:
        return fail(2, "curl: (2) no URL specified")
    data = mac.downloads.get(urls[0])
    if data is None:
        known = any(url.split("/")[2] == urls[0].split("/")[2] for url in mac.downloads if urls[0].count("/") > 2)
        if not known:
            return fail(6, f"curl: (6) Could not resolve host: {[*urls[0].split('/'), '', '', ''][2]}")
        return fail(22, "curl: (22) The requested URL returned error: 404") if fails else ok("404 page not found")
    target = values.get("-o") or values.get("--output")
    if target is None:
        return ToolResult(0, data.decode(errors="replace"))
    place = mac.disk.at(call.beside(target))
    if not place.parent.is_dir():
        return fail(23, f"curl: (23) Failure writing output to destination, {target}")
    place.write_bytes(data)
    return ok()


async def nc(mac: Mac, call: ToolCall) -> ToolResult:
    words: list[str] = []
    rest = list(call.arguments)
    while rest:
        word = rest.pop(0)
        if word in {"-G", "-w", "-i"}:
            rest = rest[1:]
        elif not word.startswith("-"):
            words.append(word)
    port = words[-1] if words else ""
    if port == "22":
        return (
            ok("SSH-2.0-OpenSSH_10.0" if "-z" not in call.arguments else "") if mac.sshd.mode == "up" else ToolResult(1)
        )
    return ok() if port in mac.open_ports else ToolResult(1)


async def ifconfig(mac: Mac, call: ToolCall) -> ToolResult:
    del call
    return ok(
        "lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384\n\tinet 127.0.0.1 netmask 0xff000000\n"
        f"en0: flags=8863<UP,BROADCAST,RUNNING> mtu 1500\n\tinet {mac.address} netmask 0xffffff00\n"
    )


async def ipconfig(mac: Mac, call: ToolCall) -> ToolResult:
    if call.arguments == ["getifaddr", "en0"]:
        return ok(mac.address)
    return ToolResult(1)


async def route(mac: Mac, call: ToolCall) -> ToolResult:
    if "get" not in call.arguments:
        return fail(64, "usage: route [-n] get destination")
    return ok(f"   route to: default\ndestination: default\n    gateway: {mac.address}\n  interface: en0\n")
