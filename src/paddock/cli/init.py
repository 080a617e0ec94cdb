"""`paddock init`: asks for Scaleway and GitHub, writes the files to start from, and runs the checks of `doctor`.

Secrets are read from files, from the environment, or from a prompt that does not show them; they are written into files for
their owner alone, or into Secrets of the cluster, and nowhere else: no flag holds one, and nothing prints one.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.exit_codes import judged
from paddock.cli.output import say
from paddock.cli.progress import showing

__all__ = ["command"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_KEY, _PROJECT = "SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID"
_APP, _PEM, _PEM_FILE = "PADDOCK_GITHUB_APP_ID", "PADDOCK_GITHUB_PRIVATE_KEY", "PADDOCK_GITHUB_PRIVATE_KEY_FILE"
_HOOK, _HOOKS = "PADDOCK_GITHUB_WEBHOOK_SECRET", "PADDOCK_GITHUB_WEBHOOKS"


@click.command("init")
@click.option(
    "--for",
    "where",
    type=click.Choice(["up", "chart"]),
    help="What is set up: `paddock up` on one machine, or the chart on a cluster.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Where the files are written.",
)
@click.option("--project-id", envvar=_PROJECT, help="The Scaleway project; its own for Paddock is best.")
@click.option(
    "--secret-key-file", type=_FILE, help=f"A file with Scaleway's secret key; else {_KEY}, else it is asked."
)
@click.option("--zone", default="fr-par-1", show_default=True, help="Where the Macs are.")
@click.option("--type", "type_", default="M2-L", show_default=True, help="What Macs.")
@click.option("--os", "os_", default="Tahoe", show_default=True, help="Their macOS.")
@click.option("--macs", default=1, show_default=True, type=click.IntRange(0, 1000), help="How many at first.")
@click.option("--organization", help="The GitHub organisation whose jobs may run.")
@click.option("--host", help="The name by which Macs, and GitHub's webhooks, reach Paddock.")
@click.option("--api-server-url", default="", help="For the chart: how Macs reach the cluster's API server.")
@click.option(
    "--github-app",
    "app_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder that `paddock github-app create …` wrote; instead of the next three.",
)
@click.option("--app-id", envvar=_APP, help="The App's id.")
@click.option("--private-key-file", type=_FILE, envvar=_PEM_FILE, help="Its key.")
@click.option("--webhook-secret-file", type=_FILE, help=f"Its webhook secret; else {_HOOK}, else it is asked.")
@click.option(
    "--job-source",
    type=click.Choice(["ScaleSet", "Webhook"]),
    default="ScaleSet",
    show_default=True,
    help="How jobs are heard of: GitHub's queue is asked, or GitHub calls, which needs a public address and a webhook's secret.",
)
@click.option(
    "--accept-tart-licence",
    is_flag=True,
    help="You accept the licence of Tart's makers, and Macs get the known release of it.",
)
@click.option("--secrets", is_flag=True, help="For the chart: write the Secrets into the cluster, and no secret file.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written; nothing is checked.")
@click.option("--no-doctor", is_flag=True, help="Do not run the checks afterwards.")
@reach_flags
def command(reach: Reach, **flags: Any) -> None:
    """Ask for Scaleway and GitHub, write the files to start from, and check them.

    For `paddock up` it writes settings.env (secrets, for you alone) and fleet.yaml, for the chart values.yaml and what its
    Secrets are made from. What is not given is asked for on a terminal, and refused without one. Exits with 3 on a problem.
    """
    run(_init(flags, reach))


async def _init(flags: dict[str, Any], reach: Reach) -> int:
    import asyncio

    given = await asyncio.to_thread(_asked, flags)
    secrets = _settings(given)
    files = _files(given, secrets)
    if given["dry_run"]:
        for name in files:
            say(f"would write {given['folder'] / name}")
        for name in _cluster_secrets(given, secrets):
            say(f"would write Secret {name}")
        return 0
    there = [name for name in files if (given["folder"] / name).exists()]
    if there and not given["force"]:
        raise Problem(f"{', '.join(there)} is there already: give --force, or another --folder")
    # Each can be written again. Stopped in between, some are there, and the next run with --force writes all.
    for name, kept in _cluster_secrets(given, secrets).items():
        await _write_secret(name, kept, reach)
    for name, (text, mode) in files.items():
        await asyncio.to_thread(_write, given["folder"] / name, text, mode)
        say(f"wrote {given['folder'] / name}{' (secrets: for you alone)' if mode == 0o600 else ''}")
    trouble = 0 if given["no_doctor"] else await _checked(given, secrets, reach)
    say("\n".join(["", "next:", *(f"  {line}" for line in _next(given))]))
    return trouble


# What is asked.


def _asked(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags with what a person adds; UsageError that names the flag where nobody can be asked."""
    from paddock.hosts.bootstrap.pins import TART_LICENCE, known_version
    from paddock.hosts.validation import KNOWN_ZONES

    given = dict(flags)
    given["where"] = _answer(given["where"], "--for", "Set up `paddock up` or the chart", choices=("up", "chart"))
    given["project_id"] = _answer(given["project_id"], "--project-id", "Scaleway project ID")
    given["secret_key"] = _secret(given["secret_key_file"], _KEY, "--secret-key-file", "Scaleway secret key")
    if given["zone"] not in KNOWN_ZONES:
        raise click.UsageError(f"--zone {given['zone']}: Scaleway has Macs in {', '.join(KNOWN_ZONES)}")
    given["organization"] = _answer(given["organization"], "--organization", "GitHub organisation")
    given["host"] = _answer(given["host"], "--host", "Name by which Macs and GitHub reach Paddock")
    if given["where"] == "chart":
        given["api_server_url"] = _answer(
            given["api_server_url"], "--api-server-url", "Address of the API server for Macs"
        )
    if not given["accept_tart_licence"] and _a_person():
        question = f"Macs run VMs with Tart {known_version('tart')}, its makers' under {TART_LICENCE}. Accept"
        given["accept_tart_licence"] = click.confirm(question, err=True)
    if given["app_folder"] is not None:
        given |= _from_folder(given["app_folder"])
        return given
    given["app_id"] = _answer(
        given["app_id"], "--app-id", "GitHub App ID (`paddock github-app create …` registers one)"
    )
    given["private_key_file"] = Path(_answer(given["private_key_file"], "--private-key-file", "File of the App's key"))
    given["hook"] = ""
    if given["job_source"] == "Webhook":
        given["hook"] = _secret(given["webhook_secret_file"], _HOOK, "--webhook-secret-file", "Webhook secret")
    return given


def _answer(value: Any, flag: str, question: str, *, choices: tuple[str, ...] = ()) -> Any:
    if value:
        return value
    if not _a_person():
        raise click.UsageError(f"{flag} is missing, and there is no terminal to ask on")
    return click.prompt(question, type=click.Choice(choices) if choices else str, err=True)


def _secret(file: Path | None, variable: str, flag: str, question: str) -> str:
    """From the file, the environment, or a prompt that shows nothing: never from the command line, which others can read."""
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if found := os.environ.get(variable, "").strip():
        return found
    if not _a_person():
        raise click.UsageError(f"give {flag} FILE or set {variable}: there is no terminal to ask on")
    return click.prompt(question, hide_input=True, err=True).strip()


def _a_person() -> bool:
    return sys.stdin.isatty()


def _from_folder(folder: Path) -> dict[str, Any]:
    """What `paddock github-app create …` wrote."""
    try:
        lines = (folder / "app.env").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Problem(f"--github-app {folder} has no app.env: `paddock github-app create` writes it") from error
    found = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines) if value}
    return {"app_id": found.get(_APP, ""), "hook": found.get(_HOOK, ""), "private_key_file": folder / "app.pem"}


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Every setting by its variable, looked at as the processes will; Problem that names the variable and the remedy."""
    from paddock.clients.github import GitHubSettings
    from paddock.clients.github import SettingsError as GitHubSettingsError
    from paddock.clients.scaleway import ScalewaySettings, SettingsError

    found = {
        _KEY: given["secret_key"],
        _PROJECT: given["project_id"],
        _APP: str(given["app_id"]),
        _PEM_FILE: str(given["private_key_file"].resolve()),
        **({_HOOK: given["hook"]} if given["job_source"] == "Webhook" else {_HOOKS: "off"}),
    }
    if wrong := [name for name, value in found.items() if "'" in value or not value.isprintable()]:
        raise Problem(f"{wrong[0]} holds a quote or a control character: it was not copied whole, or too much was")
    try:
        ScalewaySettings.from_env(found)
        GitHubSettings.from_env(found)
    except (SettingsError, GitHubSettingsError) as error:
        raise Problem(str(error)) from error
    return found


# What is written.


def _files(given: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Text and mode by name. Only files of mode 0600 hold secrets."""
    import yaml

    if given["where"] == "up":
        lines = "".join(f"{name}='{value}'\n" for name, value in {**secrets, **_tart(given)}.items())
        objects = yaml.safe_dump_all([_fleet(given), _pool(given)], sort_keys=False)
        return {"settings.env": (lines, 0o600), "fleet.yaml": (objects, 0o644)}
    files = {"values.yaml": (yaml.safe_dump(_values(given), sort_keys=False), 0o644)}
    if not given["secrets"]:
        for part, names in (("scaleway.env", (_KEY, _PROJECT)), ("github.env", (_APP, _HOOK))):
            files[part] = ("".join(f"{name}={secrets[name]}\n" for name in names if name in secrets), 0o600)
    return files


def _tart(given: Mapping[str, Any]) -> dict[str, str]:
    from paddock.hosts.bootstrap.pins import known_version

    taken = {"PADDOCK_TART_VERSION": known_version("tart"), "PADDOCK_ACCEPT_TART_LICENCE": "yes"}
    return taken if given["accept_tart_licence"] else {}


def _fleet(given: Mapping[str, Any]) -> dict[str, Any]:
    template = {
        "source": "Order",
        "type": given["type_"],
        "zone": given["zone"],
        "os": given["os_"],
        "fleetName": "macos",
    }
    return {
        "apiVersion": "tuist.dev/v1alpha1",
        "kind": "MacFleet",
        "metadata": {"name": "macos"},
        "spec": {"replicas": given["macs"], "template": {"spec": template}},
    }


def _pool_spec(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "image": "ghcr.io/cirruslabs/macos-tahoe-base:latest",
        "fleetSelector": "macos",
        "dispatchLabel": "tuist-macos",
        "runnerLabels": ["self-hosted", "macOS", "ARM64"],
        "jobSource": given["job_source"],
    }


def _pool(given: Mapping[str, Any]) -> dict[str, Any]:
    spec = {**_pool_spec(given), "replicas": max(1, given["macs"]), "podCPUMilli": 4000, "podMemoryMB": 7168}
    return {"apiVersion": "tuist.dev/v1alpha1", "kind": "RunnerPool", "metadata": {"name": "macos"}, "spec": spec}


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    host, tart = given["host"], _tart(given)
    return {
        "macosFleet": {
            "enabled": True,
            "replicas": given["macs"],
            "machine": {"type": given["type_"], "zone": given["zone"], "os": given["os_"]},
            **({"tart": {"version": tart["PADDOCK_TART_VERSION"], "acceptLicence": True}} if tart else {}),
        },
        "operator": {"apiServerURL": given["api_server_url"]},
        "github": {"webhooks": given["job_source"] == "Webhook"},
        "dispatch": {
            "enabled": True,
            "allowAccounts": [given["organization"]],
            "runnerURL": f"https://{host}",
            "ingress": {"enabled": True, "host": host},
        },
        "runnerPools": {"macos": _pool_spec(given)},
    }


def _cluster_secrets(given: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, dict[str, str]]:
    if given["where"] != "chart" or not given["secrets"]:
        return {}
    key = given["private_key_file"].read_text(encoding="utf-8")
    return {
        "paddock-scaleway": {name: secrets[name] for name in (_KEY, _PROJECT)},
        "paddock-github": {name: secrets[name] for name in (_APP, _HOOK) if name in secrets} | {_PEM: key},
    }


async def _write_secret(name: str, values: Mapping[str, str], reach: Reach) -> None:
    from paddock.kube.builtin import SecretObject
    from paddock.kube.objects import ObjectMeta

    async with connected(reach) as reached:
        meta = ObjectMeta(name=name, namespace=reached.namespace)
        await reached.client.apply(SecretObject(metadata=meta, data={k: v.encode() for k, v in values.items()}))
        say(f"wrote Secret {reached.namespace}/{name}")


def _write(path: Path, text: str, mode: int) -> None:
    """Put in place whole, with its mode from the beginning: nobody reads a secret in between, and no half file is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


# What is checked and said.


async def _checked(given: Mapping[str, Any], secrets: Mapping[str, str], reach: Reach) -> int:
    """Before `paddock up` runs there is no cluster to look at: then the cloud and GitHub alone are asked."""
    from paddock.cli.doctor import examined, outside, shown

    environ = {**os.environ, **secrets}
    async with showing("examining"):
        if given["where"] == "chart":
            checks = await examined(reach, [], "", environ)
        else:
            checks = [*await outside.cloud(environ), *await outside.github(environ)]
    say("\n" + shown(checks, "table"))
    return judged(needs_a_person=any(check.state == "problem" for check in checks))


def _bundle(environ: Mapping[str, str]) -> str:
    """The flag that names the agent's bundle: where `make bundle` puts it, unless `paddock up` finds one by itself."""
    from paddock.hosts.bootstrap.agent_bundle import BUNDLE_VARIABLE, DEFAULT_BUNDLE

    found = environ.get(BUNDLE_VARIABLE) or DEFAULT_BUNDLE.exists()
    return "" if found else f" --agent-bundle dist/{DEFAULT_BUNDLE.name}"


def _next(given: Mapping[str, Any]) -> list[str]:
    from paddock.hosts.bootstrap.agent_bundle import DEFAULT_BUNDLE, missing_parts

    folder = given["folder"]
    tart = [] if given["accept_tart_licence"] else [missing_parts(None, None, DEFAULT_BUNDLE)["--tart-version"]]
    if given["where"] == "up":
        hook = " --runner-bind-address 127.0.0.1:8082" if given["job_source"] == "Webhook" else ""
        bundle = _bundle(os.environ)
        return [
            f"set -a; . {folder / 'settings.env'}; set +a",
            f"paddock up --advertise-address {given['host']}{bundle}{hook} --allow-account {given['organization']}",
            f"kubectl --kubeconfig .paddock/kubeconfig apply -f {folder / 'fleet.yaml'}   # rents the Macs",
            *(
                [f"`make bundle` in a checkout builds {DEFAULT_BUNDLE.name}; a release has it among its files"]
                if bundle
                else []
            ),
            *tart,
        ]
    made = [
        f"kubectl create secret generic paddock-scaleway --from-env-file={folder / 'scaleway.env'}",
        f"kubectl create secret generic paddock-github --from-env-file={folder / 'github.env'} --from-file={_PEM}={given['private_key_file']}",
    ]
    return [
        *([] if given["secrets"] else made),
        "put a DSN into the Secret paddock-database: docs/install.md",
        *tart,
        f"helm install paddock deploy/chart -f {folder / 'values.yaml'} --set image.repository=REGISTRY/paddock   # where you pushed the image",
    ]
