"""`--wait`: what a command asked for is followed to its end, one line for each thing that changes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from paddock.cli.host_flags import Duration
from paddock.cli.output import say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.base.clock import Clock

__all__ = ["Progress", "wait_flags", "waited"]

F = TypeVar("F", bound=Callable[..., Any])
_LOOK_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is, in one sentence."""

    sentence: str
    done: bool = False


def wait_flags(command: F) -> F:
    """Adds `--wait` and `--timeout`."""
    timeout = click.option(
        "--timeout",
        type=Duration(),
        default="1h",
        show_default=True,
        help="How long to wait, with --wait; what was asked for goes on after that.",
    )
    return click.option("--wait", is_flag=True, help="Wait until it is done, and say how far it is.")(timeout(command))


async def waited(look: Callable[[], Awaitable[Progress]], clock: "Clock", timeout: float) -> bool:
    """Look until it is done, and print each new sentence with the time that has passed; whether it was done in time.

    An API server that is away for a while, as in its own upgrade, ends no wait: what was asked for goes on meanwhile.
    """
    from datetime import timedelta

    from paddock.base.explanation import span
    from paddock.kube.errors import ThrottledError, TransportError, UnavailableError

    began, said = clock.monotonic(), ""
    while True:
        try:
            found = await look()
        except (TransportError, ThrottledError, UnavailableError) as error:
            found = Progress(f"cannot look, and tries again: {error}")
        passed = clock.monotonic() - began
        if found.sentence != said:
            say(f"  {span(timedelta(seconds=passed)):>6}  {found.sentence}")
            said = found.sentence
        if found.done:
            return True
        if passed >= timeout:
            say(
                f"paddock: not done after {span(timedelta(seconds=timeout))}; it goes on without this command", err=True
            )
            return False
        async with showing(found.sentence):
            await clock.sleep(min(_LOOK_EVERY, timeout))
