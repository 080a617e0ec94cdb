"""`--limit acme/macos=12,28672`: what an account may hold at once, the same for `paddock dispatch` and `paddock up`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["limit_flag"]

F = TypeVar("F", bound=Callable[..., Any])


class Limit(click.ParamType):
    name = "account/platform=vcpus,mb"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from paddock.runners.ledger.configured_limits import limit_of

        if not isinstance(value, str):
            return value
        try:
            return limit_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def limit_flag(command: F) -> F:
    return click.option(
        "--limit",
        "limits",
        type=Limit(),
        multiple=True,
        help="What an account may hold at once, such as acme/macos=12,28672; may be given more than once.",
    )(command)
