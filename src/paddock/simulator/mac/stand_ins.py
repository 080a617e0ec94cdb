"""The macOS tools of every simulated Mac in the process: a folder of small programs, and the server behind them.

The programs are real executables that a real bash finds on its PATH; each connects to this server on loopback, names the
Mac by a token and is answered from that Mac's state. One folder and one listener serve any number of Macs.
"""

import asyncio
import base64
import os
import shutil
import tempfile
from importlib import resources
from pathlib import Path

from paddock.simulator.mac.calls import ToolCall, ToolResult, fail
from paddock.simulator.mac.interface import Mac
from paddock.simulator.mac.tools import TOOLS

__all__ = ["StandIns"]

_LONGEST = 512 * 1024 * 1024  # what a tool may be handed on its standard input, in base64
_OWN_PROGRAMS = ("sudo", "sed", "base64")
_REAL_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"


class StandIns:
    """Started on first use. `environment()` is what a shell of that Mac needs to find the tools and the server."""

    def __init__(self) -> None:
        self._macs: dict[str, Mac] = {}
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()
        self._talking: set[asyncio.Task[None]] = set()

    def register(self, mac: Mac) -> None:
        self._macs[mac.token] = mac

    def unregister(self, mac: Mac) -> None:
        self._macs.pop(mac.token, None)

    async def start(self) -> None:
        async with self._starting:
            if self._server is None:
                self._folder = _programs()
                self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512, limit=_LONGEST)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for task in self._talking:
                task.cancel()
            await asyncio.gather(*self._talking, return_exceptions=True)
            await server.wait_closed()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def environment(self, mac: Mac, user: str, session: str) -> dict[str, str]:
        """The whole environment of a shell: nothing of the account that runs the simulation leaks into it."""
        if self._server is None or self._folder is None:
            raise RuntimeError("the stand-ins are not started")
        port = self._server.sockets[0].getsockname()[1]
        root = str(mac.disk.root)
        return {
            "ROOT": root,
            "HOME": f"{root}/Users/{mac.username}",
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/zsh",
            "LANG": "C.UTF-8",
            "TMPDIR": f"{root}/private/tmp",
            "PATH": f"{self._folder}:{_REAL_PATH}",
            "SSH_CONNECTION": f"127.0.0.1 50022 {mac.address} 22",
            "SSH_CLIENT": "127.0.0.1 50022 22",
            "MAC_PATH": _REAL_PATH,
            "MAC_PORT": str(port),
            "MAC_TOKEN": mac.token,
            "MAC_SESSION": session,
            "MAC_USER": user,
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        try:
            await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the shell was killed in the middle of a call, as at a reboot
        finally:
            self._talking.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fields = [(await reader.readuntil(b"\0"))[:-1].decode(errors="surrogateescape") for _ in range(6)]
        token, session, tool, user, cwd, count = fields
        arguments = [(await reader.readuntil(b"\0"))[:-1].decode(errors="surrogateescape") for _ in range(int(count))]
        mac = self._macs.get(token)
        if mac is None:
            return

        async def standard_input() -> bytes:
            writer.write(b"i\n")
            await writer.drain()
            return base64.b64decode(await reader.readuntil(b"\n"))

        call = ToolCall(tool, arguments, user, mac.disk.shown(cwd), session, standard_input)
        boot = mac.boots
        handler = TOOLS.get(tool)
        answer = fail(127, f"{tool}: command not found") if handler is None else await mac.called(call, handler)
        if mac.boots != boot or not mac.powered:
            return  # the Mac went down under the call; the connection breaks without an answer
        writer.write(_rendered(answer))
        await writer.drain()


def _rendered(answer: ToolResult) -> bytes:
    lines: list[str] = []
    pieces = answer.out.split("\n")
    lines.extend(f"o{piece}" for piece in pieces[:-1])
    if pieces[-1]:
        lines.append(f"O{pieces[-1]}")
    lines.extend(f"e{piece}" for piece in answer.err.removesuffix("\n").split("\n") if answer.err)
    lines.append(f"x{answer.status}")
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _programs() -> Path:
    """A new folder with every stand-in in it."""
    folder = Path(tempfile.mkdtemp(prefix="paddock-mac-"))
    source = resources.files("paddock.simulator.mac") / "programs"
    for name in ("stand-in", *_OWN_PROGRAMS):
        program = folder / name
        program.write_text((source / f"{name}.bash").read_text())
        program.chmod(0o755)
    for tool in TOOLS:
        if tool not in _OWN_PROGRAMS:
            os.link(folder / "stand-in", folder / tool)
    return folder
