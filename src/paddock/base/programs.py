"""Running other programs: always with a deadline, never with a pipe that outlives it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddock.base.tasks import end

__all__ = ["Ended", "ProgramTimeoutError", "run_program"]

_LARGEST_OUTPUT = 8 * 1024 * 1024
_LOOK_EVERY = 1.0
_LAST_WORDS = 1.0
"""So long what a program that has ended wrote may take to reach us."""


class ProgramTimeoutError(Exception):
    """The program did not end within its deadline and was killed, with all that it had started."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: bytes
    err: bytes


async def run_program(
    command: Sequence[str], *, seconds: float | None, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Ended:
    """Run it to its end; OSError where it cannot be started.

    The program leads a session of its own. What is left of the session is killed at the deadline, and a moment after the end of
    a program that left a child with its pipes: that child would otherwise keep them open, and us waiting.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(env) if env is not None else None,
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    readers = [
        asyncio.create_task(_collect(process.stdout, out)),
        asyncio.create_task(_collect(process.stderr, err)),
    ]
    feeder, waiter = asyncio.create_task(_feed(process.stdin, stdin)), asyncio.create_task(process.wait())
    try:
        async with asyncio.timeout(seconds):
            while process.returncode is None:
                # In some versions of Python `wait` waits for the pipes, too: the code is there before.
                await asyncio.wait([waiter], timeout=_LOOK_EVERY)
        await asyncio.wait(readers, timeout=_LAST_WORDS)
    except TimeoutError:
        raise ProgramTimeoutError(f"{command[0]} {' '.join(command[1:3])} did not end within {seconds:.0f} s") from None
    finally:
        # Also when we are cancelled.
        if process.returncode is None or not all(reader.done() for reader in readers):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            _close_pipes(process)
        for task in (waiter, feeder, *readers):
            await end(task)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, bytes(out), bytes(err))


async def _collect(stream: asyncio.StreamReader, into: bytearray) -> None:
    """All of it is read, and the first megabytes are kept: a program whose output nobody reads would stand still."""
    while part := await stream.read(1 << 16):
        into += part[: max(0, _LARGEST_OUTPUT - len(into))]


async def _feed(stream: asyncio.StreamWriter | None, content: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.write(content)
            await stream.drain()
            stream.close()


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    transport = getattr(process, "_transport", None)
    for number in (0, 1, 2):
        pipe = transport.get_pipe_transport(number) if transport is not None else None
        if pipe is not None:
            pipe.close()
