"""Logs: structlog, JSON for machines and coloured lines for people, and never a secret.

`Secret` values show as `***` by themselves; the masking below is the second net, for fields whose *name* says that they
hold one, should a plain string ever arrive in them.
"""

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

__all__ = ["Logger", "get_logger", "set_up"]

Logger = structlog.stdlib.BoundLogger

_MASKED_NAMES = ("password", "secret", "token", "authorization", "jit", "private_key", "kubeconfig")
_NAMES_THAT_ARE_SAFE = ("secret_name", "token_file", "token_audience", "token_kid")
_LOST_CONNECTION = ("discarding ", "closing returned connection", "rolling back returned connection")
"""The pool makes another; who used the connection has said what became of their statement."""


def _mask(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and key not in _NAMES_THAT_ARE_SAFE and any(name in key for name in _MASKED_NAMES):
            event[key] = "***"
    return event


class _Unfailing:
    """A stream whose lines may be lost and never fail the speaker: a full disk must not end the work that tells of it.

    Nothing is kept for later; as soon as the stream takes lines again, they are written again.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        # ValueError is what a closed stream says.
        with suppress(OSError, ValueError):
            self._out.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._out.flush()


def set_up(*, level: str = "info", json: bool | None = None, stream: TextIO | None = None) -> None:
    """Configure logging once, at the start of a process; `json=None` means JSON unless the stream is a terminal.

    No log call fails because its line cannot be written.
    """
    out = stream if stream is not None else sys.stderr
    as_json = json if json is not None else not out.isatty()
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    _hear_libraries()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _mask,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Unfailing(out))),
        cache_logger_on_first_use=False,
    )


class _Libraries(logging.Handler):
    """What the libraries that we use have to say, as lines of our log: each under its own name, from a warning on."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event = record.getMessage()
        except Exception:  # noqa: BLE001 - a library's slip in its own log line must not fail who calls the library
            event = str(record.msg)
        lost = record.name == "psycopg.pool" and event.startswith(_LOST_CONNECTION)
        level = logging.DEBUG if lost else record.levelno
        structlog.get_logger(component=record.name).log(level, event, exc_info=record.exc_info)


def _hear_libraries() -> None:
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Libraries)]
    root.addHandler(_Libraries(logging.WARNING))


def get_logger(component: str) -> Logger:
    """A logger whose every line says which component speaks."""
    return structlog.get_logger(component=component)
