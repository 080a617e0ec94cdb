"""`--keep-log-days` and `--keep-jobs-days`: how long the ledger keeps history, the same for `dispatch` and `up`."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

import click

__all__ = ["retention_flags"]

F = TypeVar("F", bound=Callable[..., Any])
_DAYS = click.IntRange(7, 3650)


def retention_flags(command: F) -> F:
    """Adds both flags; the command gets them as one `retention`."""

    @wraps(command)  # which takes along the options that are declared below this one
    def folded(*args: Any, keep_log_days: int, keep_jobs_days: int, **flags: Any) -> Any:
        from paddock.runners.api.settings import Retention

        kept = Retention(log=timedelta(days=keep_log_days), jobs=timedelta(days=keep_jobs_days))
        return command(*args, retention=kept, **flags)

    decorated: Any = folded
    for option in (
        click.option(
            "--keep-jobs-days",
            default=400,
            show_default=True,
            type=_DAYS,
            help="How long finished jobs and ended sessions are kept.",
        ),
        click.option(
            "--keep-log-days",
            default=30,
            show_default=True,
            type=_DAYS,
            help="How long the log of changes and heals is kept; `paddock rewind` reaches back so far.",
        ),
    ):
        decorated = option(decorated)
    return decorated
