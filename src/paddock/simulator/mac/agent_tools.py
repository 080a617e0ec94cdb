"""What the node agent's program does on a simulated Mac beside running: the shipped code, on that Mac's disk."""

from pathlib import Path
from typing import Final

import msgspec

from paddock.node.take_key import NoKeyError, held_keys, take_key
from paddock.simulator.mac.calls import ToolCall, ToolResult, fail, ok
from paddock.simulator.mac.interface import Mac

__all__ = ["machine_id_of", "paddock_take_key"]

_DATA: Final = "--data="


def machine_id_of(name: str) -> str:
    """The id of the simulated Mac of that name: the same over SSH and in its agent's reports."""
    return f"machine-of-{name}"


class _ThisMac:
    def __init__(self, mac: Mac) -> None:
        self._mac = mac

    async def machine_id(self) -> str:
        return machine_id_of(self._mac.name)


async def paddock_take_key(mac: Mac, call: ToolCall) -> ToolResult:
    """`paddock node-agent take-key`, as the command line puts it together."""
    data = next((each.removeprefix(_DATA) for each in call.arguments if each.startswith(_DATA)), "")
    if not data:
        return fail(2, "Error: the simulated agent needs --data")
    folder: Path = mac.disk.at(data)
    try:
        if "--ask" in call.arguments:
            answer = await held_keys(folder, _ThisMac(mac))
        else:
            answer = await take_key(folder, await call.standard_input(), _ThisMac(mac))
    except (NoKeyError, OSError) as error:
        return fail(1, f"paddock: {error}")
    mac.effect(call)
    return ok(msgspec.json.encode(answer).decode())
