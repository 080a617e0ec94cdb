"""Where tasks wait, as text: the report of a deadlock."""

import asyncio
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any

__all__ = ["where_tasks_wait"]


def where_tasks_wait(tasks: Sequence[asyncio.Task[Any]]) -> str:
    """The stack of each task, outermost call first and innermost wait last; asyncio's own report shows one frame only."""
    return "\n".join(f"task {task.get_name()!r}\n{_stack(task)}" for task in tasks) or "(no task is left)"


def _stack(task: asyncio.Task[Any]) -> str:
    lines: list[str] = []
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame: FrameType | None = (
            getattr(waiting, "cr_frame", None)
            or getattr(waiting, "ag_frame", None)
            or getattr(waiting, "gi_frame", None)
        )
        if frame is None:
            lines.append(f"    waits for {type(waiting).__name__}")
            break
        lines += [f"  {line}" for line in "".join(traceback.format_stack(frame, limit=1)).rstrip().splitlines()]
        waiting = (
            getattr(waiting, "cr_await", None)
            or getattr(waiting, "ag_await", None)
            or getattr(waiting, "gi_yieldfrom", None)
        )
    return "\n".join(lines)
