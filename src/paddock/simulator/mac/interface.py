"""What the macOS tools and the ways into a simulated Mac may use of it: less than a test may."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from paddock.base.clock import Clock
from paddock.simulator.mac.calls import ToolCall, ToolResult
from paddock.simulator.mac.launchd import Launchd, LaunchdHost
from paddock.simulator.mac.pace import Pace
from paddock.simulator.mac.pf import PacketFilter
from paddock.simulator.mac.sshd import Sshd, SshdHost

__all__ = ["Mac", "Tool"]


class Mac(LaunchdHost, SshdHost, Protocol):
    """One Mac as its tools see it; what an attribute means is said in `SimulatedMac`."""

    name: str
    address: str
    token: str
    clock: Clock
    rng: random.Random
    pace: Pace
    boots: int
    powered: bool
    product_version: str
    pf: PacketFilter
    launchd: Launchd
    sshd: Sshd
    downloads: dict[str, bytes]
    open_ports: set[str]
    commands_as_root: Counter[str]
    session_number: int
    session_creator: str
    virtual_machines: Callable[[], int]

    @property
    def hostname(self) -> str: ...

    @property
    def host_key(self) -> str: ...

    async def pause(self, seconds: float) -> None: ...

    async def called(self, call: ToolCall, tool: "Tool") -> ToolResult: ...

    def effect(self, call: ToolCall) -> None: ...

    def check_password(self, user: str, password: str) -> bool: ...

    def reboot(self) -> None: ...

    def power_off(self) -> None: ...

    def later(self, seconds: float, what: Callable[[], None]) -> None: ...

    def kick_loginwindow(self) -> None: ...

    def end_graphical_session(self) -> None: ...

    def log_in(self) -> None: ...

    def revive_sshd(self) -> None: ...


Tool = Callable[[Mac, ToolCall], Awaitable[ToolResult]]
