"""What the shell is offered: kinds, and the names of what there is, if the cluster answers at once."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.connections import Problem, Reach, connected

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_kinds", "complete_names", "names_of"]

_TIMEOUT = 1.5
"""Whoever pressed Tab waits no longer than this."""

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def complete_kinds(words: Sequence[str]) -> Completer:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        return _items(words, incomplete)

    return complete


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Names of the kind that stands before them on the line."""
    return _items(_names(str(ctx.params.get("kind") or ""), ctx.params), incomplete)


def names_of(kind: str) -> Completer:
    """Names of that kind, for commands that take no other."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        return _items(_names(kind, ctx.params), incomplete)

    return complete


def _items(words: Sequence[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _names(word: str, params: dict[str, Any]) -> list[str]:
    """Nothing where nobody answers: completion must never print an error into the line that is being typed."""
    from paddock.cli.kinds import kind_called
    from paddock.kube.errors import KubeError

    kubeconfig = params.get("kubeconfig")
    reach = Reach(
        kubeconfig if isinstance(kubeconfig, Path) else None,
        str(params.get("namespace") or ""),
        str(params.get("server") or ""),
        str(params.get("context") or ""),
    )

    async def ask() -> list[str]:
        kind = kind_called("pods" if word == "claim" else word)
        async with asyncio.timeout(_TIMEOUT), connected(reach) as reached:
            return [kind.title(item) for item in await kind.read(reached, "")]

    try:
        return asyncio.run(ask())
    except (KubeError, OSError, Problem, TimeoutError):
        return []
