"""`--allow-account acme` and `--limit acme/macos=12,28672`: who may run jobs, and how many, for `paddock dispatch` and `paddock up`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["AccountName", "account_flag", "limit_flag"]

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


class AccountName(click.ParamType):
    name = "account|account/repository|id:number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from paddock.runners.tenants.names import is_name

        if isinstance(value, str) and not is_name(value):
            self.fail(f"{value!r} is no account or repository: write acme, acme/app, id:42 or id:42/id:7", param, ctx)
        return value


def account_flag(command: F) -> F:
    return click.option(
        "--allow-account",
        "allow_accounts",
        type=AccountName(),
        multiple=True,
        help="Who may run jobs from the start, such as acme or acme/app; may be given more than once. Nobody else may; later changes are made with `paddock accounts allow NAME`.",
    )(command)
