"""Running other programs: always with a deadline, never with a pipe that outlives it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Ended", "ProgramTimeoutError", "run_program"]

_LARGEST_OUTPUT = 8 * 1024 * 1024


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

    The program leads a session of its own. At the deadline the whole session is killed: a grandchild that inherited the
    pipes would otherwise keep them open, and us waiting.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(env) if env is not None else None,
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=_LARGEST_OUTPUT,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin or None)
    except TimeoutError:
        raise ProgramTimeoutError(f"{command[0]} {' '.join(command[1:3])} did not end within {seconds:.0f} s") from None
    finally:
        # Also when we are cancelled; a program that has ended may have left children in its session.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            _close_pipes(process)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, out, err)


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    transport = getattr(process, "_transport", None)
    for number in (0, 1, 2):
        pipe = transport.get_pipe_transport(number) if transport is not None else None
        if pipe is not None:
            pipe.close()
