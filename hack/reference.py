"""Writes docs/reference from the code: commands, chart values, metrics, conditions, kinds, fleet file, routes (`make reference`).

`exit-codes.md` is written by hand; everything else in that folder is overwritten. `tests/docs` says whether it is current.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml
from exported_metrics import metrics

from paddock.cli import main as paddock
from paddock.cli.config_check import _VARIABLES
from paddock.embedded.definitions import our_definitions
from paddock.hosts.bootstrap import fleet_file, plan

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "reference"
_MADE: Final = "Written by `make reference` from {source}; change it there.\n"


def pages() -> dict[str, Callable[[], str]]:
    """What writes each generated page, by its name."""
    return {
        "commands.md": commands,
        "chart-values.md": chart_values,
        "metrics.md": metrics_page,
        "conditions.md": conditions,
        "kinds.md": kinds,
        "fleet-file.md": fleet_page,
        "http-routes.md": http_routes,
    }


def _page(title: str, source: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", _MADE.format(source=source), *parts]).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [
        f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# Commands.

_SHARED: Final = ("--kubeconfig", "--namespace", "--server")


def commands() -> str:
    listed = click.Context(paddock, info_name="paddock")
    parts = [
        "Exit codes are in [exit-codes](exit-codes.md). `paddock COMMAND --help` says the same as this page.\n",
        "## Options of every command that looks or acts\n",
        _table(("option", "meaning", "default"), _options(paddock.get_command(listed, "get"), only=_SHARED)),
    ]
    for name in paddock.list_commands(listed):
        command = paddock.get_command(listed, name)
        assert command is not None
        nested = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for below, each in nested:
            parts += list(_command(f"{name} {below}".strip(), each))
    parts += ["## Environment\n", _table(("variable", "read by", "means"), _environment())]
    return _page("Commands", "the commands' own definitions in `src/paddock/cli`", *parts)


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"paddock {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## paddock {name}\n"
    yield f"```text\npaddock {name} {usage}\n```\n"
    yield f"{_prose(command.help or '')}\n"
    looks = {"--kubeconfig", "--server"} <= {option for param in command.params for option in param.opts}
    rows = list(_options(command, without=_SHARED if looks else ()))
    if rows:
        yield _table(("option", "meaning", "default"), rows)
    if looks:
        yield "And `--kubeconfig`, `--namespace`, `--server` as above.\n"


def _prose(text: str) -> str:
    cleaned = inspect.cleandoc(text).replace("\b\n", "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleaned.split("\n\n"))


def _options(
    command: click.Command | None, *, only: Sequence[str] = (), without: Sequence[str] = ()
) -> Iterator[tuple[str, str, str]]:
    assert command is not None
    for param in command.params:
        names = {*param.opts}
        if not isinstance(param, click.Option) or (only and not names & {*only}) or names & {*without}:
            continue
        shown = ", ".join(_code(opt) for opt in (*param.opts, *param.secondary_opts))
        kind = "" if param.is_flag else f" {_code(_metavar(param))}"
        meaning = _prose(param.help or "").replace(chr(10), " ")
        if param.envvar:
            meaning += f" Also from `{param.envvar}`."
        if param.multiple:
            meaning += "" if "more than once" in meaning else " May be given more than once."
        yield f"{shown}{kind}", meaning.strip(), "required" if param.required else _default(param)


def _metavar(param: click.Option) -> str:
    if isinstance(param.type, click.Choice):
        return "|".join(str(choice) for choice in param.type.choices)
    name = param.metavar or param.type.name.upper()
    return {"INTEGER RANGE": "INTEGER", "FLOAT RANGE": "NUMBER", "FLOAT": "NUMBER"}.get(name, name)


def _default(param: click.Option) -> str:
    value = param.default
    plain = isinstance(value, str | int | float) and not callable(value)
    return _code(value) if plain and value not in (None, "", False) else ""


_MEANS: Final = {
    "SCW_SECRET_KEY": "the Scaleway API key's secret",
    "SCW_DEFAULT_PROJECT_ID": "the Scaleway project that holds the Macs",
    "SCW_ACCESS_KEY": "the API key's public part; optional",
    "SCW_API_URL": "another address of the Scaleway API",
    "PADDOCK_GITHUB_APP_ID": "the GitHub App's number, or its client ID",
    "PADDOCK_GITHUB_PRIVATE_KEY": "the App's private key in PEM form",
    "PADDOCK_GITHUB_PRIVATE_KEY_FILE": "a file that holds it, instead",
    "PADDOCK_GITHUB_WEBHOOKS": "`off` where every pool has `jobSource: ScaleSet`: no webhook secret is needed, and every webhook is refused",
    "PADDOCK_GITHUB_WEBHOOK_SECRET": "the secret of the App's webhook",
    "PADDOCK_GITHUB_WEBHOOK_SECRET_FILE": "a file that holds it, instead",
    "PADDOCK_GITHUB_WEBHOOK_SECRET_PREVIOUS": "the secret before it, accepted while it is being changed",
    "PADDOCK_GITHUB_API_URL": "the API of a GitHub Enterprise Server",
}


def _environment() -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys(name for names in _VARIABLES.values() for name in names):
        readers = [process for process, names in _VARIABLES.items() if name in names]
        yield _code(name), ", ".join(f"`paddock {each}`" for each in (*readers, "up", "doctor")), _MEANS[name]


# Chart values.


def chart_values() -> str:
    text = (ROOT / "deploy" / "chart" / "values.yaml").read_text(encoding="utf-8")
    rows = [(_code(path), _code(default), about) for path, default, about in values_of(text)]
    return _page("Chart values", "`deploy/chart/values.yaml`", _table(("value", "default", "meaning"), rows))


def values_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Every key with its default and the comment above it; keys that only hold others are shown if they have a comment."""
    path: list[tuple[int, str]] = []
    about: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            about = []
        elif stripped.startswith("#"):
            if not stripped.startswith("#  "):
                about.append(stripped.lstrip("# "))
        elif found := re.match(r"^( *)([A-Za-z][\w]*): ?(.*)$", line):
            indent, key, value = len(found[1]), found[2], found[3].strip()
            path = [*(each for each in path if each[0] < indent), (indent, key)]
            if value or about:
                yield ".".join(name for _, name in path), value, " ".join(about)
            about = []


# Metrics.

_SHOWN_BY: Final = {
    "base": "both",
    "hosts": "operator",
    "kube": "both",
    "node": "node-agent",
    "runners": "dispatch",
    "runners/pools": "operator",
}


def metrics_page() -> str:
    def shown_by(module: str) -> str:
        return next(shown for prefix, shown in sorted(_SHOWN_BY.items(), reverse=True) if module.startswith(prefix))

    rows = [
        (_code(each.name), each.kind, ", ".join(map(_code, each.labels)), shown_by(each.module), each.about)
        for each in metrics()
    ]
    told = (
        "`paddock operator`, `paddock dispatch` and `paddock node-agent` serve them at `/metrics` of their metrics port, "
        "`paddock up` serves all of them beside the page. No label names an account, a repository or a job. A histogram has the series "
        "`_bucket`, `_sum` and `_count`.\n"
    )
    return _page("Metrics", "the source", told, _table(("metric", "type", "labels", "shown by", "meaning"), rows))


# Conditions.


def conditions() -> str:
    """Every reason in one list; the runbook page is compared with the source by its own tests."""
    text = (ROOT / "docs" / "runbooks" / "conditions.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## ([^\n]+)\n\n(Conditions? .*?)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = sorted(
        (_code(reason), f"[{title}](../runbooks/conditions.md#{title.lower().replace(' ', '-')})", meaning)
        for title, _, body in sections
        for reason, meaning in re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", body, re.MULTILINE)
    )
    of_kind = [f"- {title}: {about[0].lower()}{about[1:]}" for title, about, _ in sections]
    told = "What happens next, and what to do, is in [runbooks/conditions](../runbooks/conditions.md).\n"
    source = "`docs/runbooks/conditions.md`, which is compared with the source"
    return _page("Reasons of conditions", source, told, *of_kind, "", _table(("reason", "of", "meaning"), rows))


# Kinds.


def kinds() -> str:
    parts = ["`kubectl explain KIND.spec` says the same. `status` is Paddock's to write.\n"]
    for definition in our_definitions():
        names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
        schema, short = version["schema"]["openAPIV3Schema"], ", ".join(map(_code, names.get("shortNames", [])))
        parts += [
            f"## {names['kind']}\n",
            f"{schema.get('description', '')} `{definition['spec']['group']}/{version['name']}`, short name {short}.\n",
        ]
        for part in ("spec", "status"):
            rows = list(_fields(schema["properties"].get(part, {}), part))
            if rows:
                parts.append(_table(("field", "type", "default", "meaning"), rows))
    return _page("Kinds", "the structs in `src/paddock/hosts/api` and `src/paddock/runners/api/runner_pool.py`", *parts)


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    needed = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        here, inner = f"{path}.{name}", field.get("items", field)
        shown = "|".join(map(str, field["enum"])) if "enum" in field else str(field.get("type", ""))
        if field.get("type") == "array":
            here, shown = f"{here}[]", f"list of {inner.get('type', 'object')}"
        default = "required" if name in needed else _code(field["default"]) if "default" in field else ""
        yield _code(here), shown, default, field.get("description", "")
        if name != "conditions":
            yield from _fields(inner, here)


# The fleet file.

_OF_FILE: Final = (
    plan.FleetConfig,
    plan.Payload,
    plan.LaunchdJob,
    plan.EgressFirewall,
    plan.CarveOut,
    plan.IngressGuard,
)


def fleet_page() -> str:
    about, _, example = inspect.cleandoc(fleet_file.__doc__ or "").partition("\n\n")
    told = (
        "What is put on every Mac: what `--fleet-config` of `paddock operator` and `paddock up` names, the text of the chart's `fleetConfig`. "
        "`paddock config check operator --fleet-config FILE` says what is wrong with one. An unknown name is refused.\n"
    )
    parts = [told, f"{about}\n", f"```yaml\n{example}\n```\n"]
    for each in _OF_FILE:
        title = {"FleetConfig": "The file"}.get(each.__name__, each.__name__)
        rows = [(_code(f.name), _code(_type(f.type)), _given(f)) for f in dataclasses.fields(each)]
        parts += [f"## {title}\n", f"{_prose(each.__doc__ or '')}\n", _table(("field", "type", "default"), rows)]
    return _page("The fleet file", "`src/paddock/hosts/bootstrap/plan.py`", *parts)


def _type(given: Any) -> str:
    if isinstance(given, types.UnionType):
        return " or ".join(_type(each) for each in typing.get_args(given) if each is not type(None))
    if typing.get_origin(given) is typing.Literal:
        return "|".join(typing.get_args(given))
    if typing.get_origin(given) is tuple:
        inner = typing.get_args(given)[0]
        return "mapping" if typing.get_origin(inner) is tuple else f"list of {_type(inner)}"
    return {"str": "text", "int": "number", "bool": "true|false"}.get(given.__name__, given.__name__)


def _given(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return "required"
    if dataclasses.is_dataclass(field.default):
        return "its own defaults"
    return (
        ""
        if field.default in (None, "", ())
        else _code(yaml.safe_dump(field.default, default_flow_style=True).split("\n")[0])
    )


# Routes.

_POD, _OPERATOR, _PEOPLE = "a runner Pod, by its token", "the operator's account, by its token", "operators' port"
ROUTES: Final = {
    "POST /webhooks/github": ("GitHub, by the signature", "A delivery: verified, stored, answered."),
    "POST /api/internal/runners/dispatch": (_POD, "Wait for a job; the answers are in docs/design/dispatch.md."),
    "POST /api/internal/runners/pods/progress": (_POD, "A mark that moves while the runner works."),
    "POST /api/internal/runners/pods/log": (
        _POD,
        "What its runner printed from byte `?from=` on, at most 64 KiB; `?end=true`: there is no more.",
    ),
    "GET /api/internal/runners/desired_replicas": (
        "any ServiceAccount, by its token",
        "The load of a pool (`?fleet=`).",
    ),
    "POST /api/internal/runners/pods/retire": (_OPERATOR, "Fence Pods, so that they may be deleted."),
    "POST /api/internal/runners/pods/at-work": (_OPERATOR, "Which of these Pods have a job, and whose."),
    "POST /api/internal/runners/pods/killed": (_OPERATOR, "Jobs that the operator has ended."),
    "POST /api/internal/runners/macs/ends": (_OPERATOR, "How the newest runners of these Macs ended."),
    "POST /api/internal/runners/pods/stopped": (_OPERATOR, "A Pod has ended."),
    "GET /api/v1/strip": (_PEOPLE, "The numbers of `paddock status`."),
    "GET /api/v1/queue": (_PEOPLE, "Waiting jobs, each with its reason."),
    "GET /api/v1/running": (_PEOPLE, "Running jobs."),
    "GET /api/v1/recent": (_PEOPLE, "Jobs that ended."),
    "GET /api/v1/ended": (
        _PEOPLE,
        "What the jobs that ended come to, by account or repository (`?by=`, `?window=` seconds, a day unless told, `?account=`, `?repository=`).",
    ),
    "GET /api/v1/ended/jobs": (
        _PEOPLE,
        "Those jobs, latest first (`?window=`, `?account=`, `?repository=`, `?limit=`).",
    ),
    "GET /api/v1/latency": (_PEOPLE, "Latency by stage (`?window=` seconds)."),
    "GET /api/v1/accounts": (_PEOPLE, "Accounts, their limits and what they hold."),
    "GET /api/v1/allow-list": (_PEOPLE, "Who may run jobs, limits of repositories, and the latest changes."),
    "POST /api/v1/allow-list": (
        "people, by a token of `--accounts-principal` for the audience `paddock-accounts`",
        "Allow, deny or limit an account or a repository; `dry_run` only says what would be done.",
    ),
    "GET /api/v1/heals": (_PEOPLE, "The heal ledger, newest first."),
    "GET /api/v1/kills": (_PEOPLE, "Jobs that ended because of something that Paddock did, newest first."),
    "GET /api/v1/claims": (_PEOPLE, "Claims that are held."),
    "GET /api/v1/jobs/{job_id}": (_PEOPLE, "Everything about a job."),
    "GET /api/v1/jobs/{job_id}/log": (_PEOPLE, "The end of what its runner printed, as text (`?tail=` lines)."),
    "GET /api/v1/pods/{uid}": (_PEOPLE, "Everything that the ledger knows of a Pod."),
    "GET /api/v1/pods/{uid}/log": (_PEOPLE, "The same, by Pod."),
    "GET /api/v1/why/{kind}/{name}": (_PEOPLE, "What `paddock why` says of a job, a Pod, a claim or a pool."),
    "GET /api/v1/at/{moment}": (_PEOPLE, "What was open at that moment (`?around=` seconds of log)."),
    "GET /api/v1/history": (
        _PEOPLE,
        "The fleet's numbers over time (`?window=` 1h, 24h, 7d or 30d), in columns, with heals, problems and restarts.",
    ),
    "GET /api/v1/leaks": (_PEOPLE, "What looks like a leak, and when that is decided."),
    "GET /api/v1/concerns": (
        _PEOPLE,
        "What dispatch stands on and how that is: whether the database takes writes, room on its disk, TLS to it and from the operator.",
    ),
    "GET /healthz": (
        _PEOPLE,
        "`ok`, or what is wrong; of `paddock up` with 503, of `paddock dispatch` always with 200.",
    ),
    "GET /readyz": (_PEOPLE, "Whether requests may come: `ok`, or what is waited for with 503."),
    "GET /metrics": (_PEOPLE, "What Prometheus reads."),
}


def http_routes() -> str:
    rows = [(_code(route), who, what) for route, (who, what) in ROUTES.items()]
    told = (
        "What `paddock dispatch` serves: the first four at `--bind-address`, the operator's four at `--internal-bind-address` with "
        "TLS (without one, at `--bind-address`), the rest at `--metrics-bind-address`, which shows "
        "names of every account and belongs behind the cluster's own doors. `paddock up` serves all of them beside the page. Until "
        "a process has opened its database, all but `/healthz`, `/readyz`, `/metrics` and `/api/v1/concerns` answer 503 with "
        "`Retry-After`.\n"
    )
    return _page(
        "HTTP routes",
        "`hack/reference.py`, which is compared with the source",
        told,
        _table(("route", "who", "what"), rows),
    )


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
