"""`paddock config check`: what `paddock operator` and `paddock dispatch` would start with, and what is wrong with it.

The very options of those commands are asked, so that what is shown here is what they would see in this environment.
"""

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import click

from paddock.cli.exit_codes import judged
from paddock.cli.output import Column, listed, output_flag, say

__all__ = ["Value", "command", "effective"]

_PROCESSES: Final = ("operator", "dispatch")
_MASK: Final = "••••••"
_SOURCES = {"COMMANDLINE": "flag", "ENVIRONMENT": "env", "DEFAULT": "default", "DEFAULT_MAP": "default"}
_NEVER_SHOWN = ("SECRET", "PRIVATE_KEY", "PASSWORD", "TOKEN")
_VARIABLES: Final = {
    "operator": ("SCW_ACCESS_KEY", "SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID", "SCW_API_URL"),
    "dispatch": (
        "PADDOCK_GITHUB_APP_ID",
        "PADDOCK_GITHUB_PRIVATE_KEY",
        "PADDOCK_GITHUB_PRIVATE_KEY_FILE",
        "PADDOCK_GITHUB_WEBHOOKS",
        "PADDOCK_GITHUB_WEBHOOK_SECRET",
        "PADDOCK_GITHUB_WEBHOOK_SECRET_FILE",
        "PADDOCK_GITHUB_WEBHOOK_SECRET_PREVIOUS",
        "PADDOCK_GITHUB_API_URL",
    ),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One setting of one process: its value as it may be shown, where it comes from, and what is wrong with it; `note` says
    what it would be good for where nothing is wrong.
    """

    process: str
    field: str
    value: str
    source: str
    problem: str = ""
    note: str = ""


@click.group("config")
def command() -> None:
    """Look at the configuration of the long-running processes."""


@command.command("check", context_settings={"ignore_unknown_options": True})
@click.argument("process", type=click.Choice([*_PROCESSES, "all"]), default="all")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@click.option("--fleet-config", default="", help="YAML file: what is put on every Mac; as given to the operator.")
@output_flag
def check_command(process: str, flags: tuple[str, ...], fleet_config: str, output: str) -> None:
    """Show the settings that PROCESS would start with here, where each comes from, and what is wrong.

    Give the same FLAGS and environment as the process has: `paddock config check operator --watch-filter blue`.
    Secrets are never shown. Exits with 3 when something is wrong.
    """
    if process == "all" and flags:
        raise click.UsageError("flags belong to one process: say `operator` or `dispatch` before them")
    given = {"operator": [*flags, *(["--fleet-config", fleet_config] if fleet_config else [])], "dispatch": [*flags]}
    names = _PROCESSES if process == "all" else (process,)
    found = [value for name in names for value in effective(name, given[name], os.environ)]
    say(
        listed(
            found,
            output,
            _columns(),
            name=lambda value: f"{value.process}/{value.field}",
            plain=asdict,
            nothing="No settings.",
            kind="Setting",
        )
    )
    wrong = [value for value in found if value.problem]
    if output in ("table", "wide"):
        say("")
        for value in wrong:
            say(f"✗ {value.process}: {value.field}: {value.problem}")
        for value in found:
            if value.note and not value.problem:
                say(f"· {value.process}: {value.field}: {value.note}")
        say(f"{len(found)} settings, {len(wrong)} problem{'' if len(wrong) == 1 else 's'}.")
    raise SystemExit(judged(needs_a_person=bool(wrong)))


def effective(process: str, flags: Sequence[str], environ: Mapping[str, str]) -> list[Value]:
    """Every setting of that process, given those flags in that environment; one bad setting hides no other."""
    there = importlib.import_module(f"paddock.cli.{process}").command
    with click.Context(there, info_name=process) as ctx:
        _, extra, _ = there.make_parser(ctx).parse_args(list(flags))
    if extra:
        raise click.UsageError(f"{' '.join(extra)} is nothing that `paddock {process}` takes")
    found, params = [], {}
    for option in there.params:
        if option.name in (None, "help", "log_level"):
            continue
        flag, problem, source = max(option.opts, key=len), "", "flag"
        try:
            params[option.name], source = _asked(option, flags)
        except click.UsageError as error:
            problem, source = _told(error), "" if isinstance(error, click.MissingParameter) else source
            with suppress(click.UsageError):  # what the others make of it is judged with the default in its place
                params[option.name], _ = _asked(option, ())
        shown = "" if problem else _shown(option.name, params[option.name])
        found.append(Value(process, flag, shown, source, problem))
    return _merged([*found, *_batcher(process, params), *_variables(process, environ)])


def _merged(found: Sequence[Value]) -> list[Value]:
    """One line a setting, with what was found wrong with it later."""
    lines: dict[str, Value] = {}
    for value in found:
        known = lines.get(value.field)
        lines[value.field] = (
            value if known is None else replace(known, problem=known.problem or value.problem, note=value.note)
        )
    return list(lines.values())


def _asked(option: click.Parameter, flags: Sequence[str]) -> tuple[Any, str]:
    """What this one option makes of the flags and the environment, and which of them it was."""
    alone = click.Command(
        "alone",
        params=[option],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    with alone.make_context("alone", list(flags)) as ctx:
        assert option.name is not None
        source = ctx.get_parameter_source(option.name)
        return ctx.params[option.name], _SOURCES.get(source.name if source is not None else "", "default")


def _batcher(process: str, params: dict[str, Any]) -> list[Value]:
    """What only several settings together get wrong."""
    if process == "dispatch":
        return _attempt(
            process, "--bind-address", lambda: _require(params.get("bind_address"), "cannot be 0: Pods have to come in")
        )
    from paddock.cli.host_flags import fleet_config, host_settings, missing_from_fleet, optional_for_fleet

    return [
        *_attempt(process, "flags", lambda: host_settings(params)),
        *_attempt(process, "--fleet-config", lambda: fleet_config(params)),
        *_missing(process, lambda: missing_from_fleet(params)),
        *(
            replace(each, problem="", note=each.problem)
            for each in _missing(process, lambda: optional_for_fleet(params))
        ),
    ]


def _missing(process: str, look: Callable[[], Mapping[str, str]]) -> list[Value]:
    try:
        return [Value(process, flag, "", "", problem) for flag, problem in look().items()]
    except click.UsageError:
        return []  # said already, where the settings are tried


def _attempt(process: str, field: str, work: Callable[[], object]) -> list[Value]:
    try:
        work()
    except (click.UsageError, ValueError) as error:
        said = _told(error)
        named = re.match(r"(--[a-z0-9-]+)[: ]", said)
        name = named[1] if named else field
        return [Value(process, name, "", "", said.removeprefix(f"{name}: "))]
    return []


def _require(value: object, problem: str) -> None:
    if not value:
        raise ValueError(problem)


def _variables(process: str, environ: Mapping[str, str]) -> list[Value]:
    """The environment that holds what no flag may: credentials, and whom they are for."""
    found = [
        Value(process, name, _MASK if _secret(name) else environ[name], "env")
        for name in _VARIABLES[process]
        if environ.get(name)
    ]
    return [*found, *_credentials(process, environ)]


def _credentials(process: str, environ: Mapping[str, str]) -> list[Value]:
    from paddock.clients import github, scaleway

    try:
        if process == "operator":
            scaleway.ScalewaySettings.from_env(environ)
        else:
            github.GitHubSettings.from_env(environ)
    except (scaleway.SettingsError, github.SettingsError) as error:
        said = str(error)
        named = re.search(r"\b(SCW|PADDOCK)_[A-Z_]+\b", said)
        return [Value(process, named[0] if named else "environment", "", "", said)]
    return []


def _secret(name: str) -> bool:
    return any(word in name for word in _NEVER_SHOWN) and not name.endswith("_FILE")


def _shown(name: str, value: Any) -> str:
    if name == "dsn" and value:
        # Both forms of a DSN may carry a password: postgresql://user:password@host and `password=…`.
        text = re.sub(r"(://[^:/@]*):[^@]*@", rf"\1:{_MASK}@", str(value))
        return re.sub(r"(password\s*=\s*)('[^']*'|\S+)", rf"\1{_MASK}", text)
    if isinstance(value, tuple):
        return (
            ":".join(str(part) for part in value)
            if len(value) == 2 and isinstance(value[1], int)
            else ", ".join(map(str, value))
        )
    return "" if value is None else str(value)


def _told(error: Exception) -> str:
    if isinstance(error, click.MissingParameter):
        variable = getattr(error.param, "envvar", None)
        return f"it is not set: give it{f' or set {variable}' if variable else ''}"
    return error.message if isinstance(error, click.UsageError) else str(error)


def _columns() -> tuple[Column[Value], ...]:
    return (
        Column("PROCESS", lambda value: value.process),
        Column("SETTING", lambda value: value.field),
        Column("VALUE", lambda value: value.value),
        Column("FROM", lambda value: value.source),
        Column("PROBLEM", lambda value: value.problem, wide=True),
    )
