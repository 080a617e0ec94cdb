"""What can be said of a command without running it: does the tool have this verb, this flag, this kind, this file?

Each checker raises AssertionError, or what the tool's own parser raises. A tool that has no checker here is refused, so that
no document can name one which nobody looked at.
"""

import itertools
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import yaml
from conformance.kubectl import found_kubectls
from docs.documents import ROOT
from unit.deploy.rendering import templates

from paddock.cli import main
from paddock.embedded.definitions import our_definitions
from paddock.hosts.bootstrap.agent_bundle import AGENT

__all__ = ["CHECKERS"]

BENCHES: Final = set(
    re.findall(r'^    "([a-z]+)": \(', (ROOT / "bench" / "__main__.py").read_text(encoding="utf-8"), re.MULTILINE)
)
TARGETS: Final = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
OURS: Final = {
    word
    for definition in our_definitions()
    for names in [definition["spec"]["names"]]
    for word in (names["plural"], names["singular"], *names["shortNames"])
}
THEIRS: Final = {
    "clusters",
    "deployment",
    "events",
    "lease",
    "machinedeployments",
    "machines",
    "namespace",
    "node",
    "secrets",
    "pod",
    "pods",
    "secret",
    "service",
}
FLAGS: Final = {
    "cordon": set(),
    "drain": {"--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout"},
    "annotate": {"--overwrite"},
    "apply": {"-f", "--server-side", "--force-conflicts"},
    "create": {"--from-file", "--from-literal", "--type"},
    "delete": {"--all"},
    "describe": set(),
    "exec": set(),
    "explain": set(),
    "get": {"-l", "-o", "-w", "--raw"},
    "label": set(),
    "logs": {"--since", "--tail"},
    "port-forward": set(),
    "patch": {"--type", "-p", "--subresource"},
    "rollout": set(),
    "scale": {"--all", "--replicas"},
}
"""The verbs and flags of kubectl that the documents use; where there is a kubectl it is asked as well."""
_GLOBAL: Final = {"-n", "--namespace", "--kubeconfig"}
_TAKES_VALUE: Final = {"-n", "--namespace", "--kubeconfig", "-o", "-f", "-p", "-l", "--raw"}
_OF_HELM: Final = {"--create-namespace", "--reuse-values", "--skip-crds"}
_SAID: Final = {
    ".ci/run",
    "chmod 600 mac.key",
    "cp -a .paddock backup",
    "cut -d/ -f2",
    "head -1",
    "openssl rand -hex 32",
    "rm mac.key",
}
"""Whole commands that need no checker: there is nothing of ours in them."""


def paddock(words: Sequence[str]) -> None:
    """Read by the command's own parser; files called FILE exist in the folder of the test."""
    _read(main, list(words))


def _read(command: click.Command, words: list[str]) -> None:
    if isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]}"
        _read(found, words[1:])
    else:
        command.make_context("paddock", words)


def make(words: Sequence[str]) -> None:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            assert re.search(rf"^{name} \?=", (ROOT / "Makefile").read_text(), re.MULTILINE), (
                f"the Makefile has no variable {name} for people"
            )
            if name == "RUN_ARGS":
                paddock(["up", "--simulate", *shlex.split(value)])
        else:
            assert name in TARGETS or (words[0] == "bench" and name in BENCHES), f"there is no target {name}"


def kubectl(words: Sequence[str]) -> None:
    plain, flags = _sorted(words)
    assert plain, "no verb"
    assert plain[0] in FLAGS, f"kubectl {plain[0]} is not in FLAGS: add it there with the flags that are used"
    unknown = flags - FLAGS[plain[0]] - _GLOBAL
    assert not unknown, f"kubectl {plain[0]} has no {unknown}"
    named = plain[2] if plain[0] == "rollout" else plain[1] if len(plain) > 1 else ""
    if plain[0] in ("cordon", "drain"):
        named = ""  # the name of a Node, of which no kind is said
    for kind in re.split(r"[/.]", named)[0].split(",") if named else ():
        assert kind in OURS | THEIRS | {"KIND"}, f"there is no kind {kind}"
    for path in (word for flag, word in itertools.pairwise(words) if flag == "-f"):
        assert (ROOT / path).exists(), f"there is no file and no folder {path}"
    for binary in list(found_kubectls().values())[:1]:
        asked = subprocess.run([str(binary), *words, "--help"], capture_output=True, text=True, timeout=30, check=False)
        assert asked.returncode == 0, asked.stderr


def _sorted(words: Sequence[str]) -> tuple[list[str], set[str]]:
    plain, flags, skip = [], set(), False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            flags.add(word.partition("=")[0])
            skip = word in _TAKES_VALUE
        else:
            plain.append(word)
    return plain, flags


def helm(words: Sequence[str]) -> None:
    """The chart is rendered by the real Helm with what the command gives it."""
    given = iter(words)
    plain, values, where = [], {}, {"-n": ""}
    for word in given:
        if word == "-f":
            values = _merged(values, yaml.safe_load((ROOT / next(given)).read_text(encoding="utf-8")))
        elif word == "--set":
            values = _merged(values, _set(next(given)))
        elif word in where:
            where[word] = next(given)
        else:
            assert word in _OF_HELM or not word.startswith("-"), f"helm's {word} is not looked at here"
            plain += [word] if not word.startswith("-") else []
    assert where["-n"], "without a namespace it goes anywhere"
    match plain:
        case ["install" | "upgrade", release, chart]:
            assert (ROOT / chart / "Chart.yaml").is_file()
            templates(values, release.lower())
        case ["uninstall", _]:
            pass
        case _:
            raise AssertionError(f"helm {' '.join(plain)} is not looked at here")


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = {key for key in under.keys() & over.keys() if isinstance(under[key], dict) and isinstance(over[key], dict)}
    return {**under, **over, **{key: _merged(under[key], over[key]) for key in both}}


def _set(text: str) -> dict[str, Any]:
    path, _, raw = text.partition("=")
    value: Any = raw[1:-1].split(",") if raw.startswith("{") else yaml.safe_load(raw)
    for key in reversed(path.split(".")):
        value = {key: value}
    return json.loads(json.dumps(value))


def docker(words: Sequence[str]) -> None:
    assert words[0] in ("build", "push")
    if words[0] == "build":
        text = (ROOT / words[-1] / "Dockerfile").read_text(encoding="utf-8")
        for flag, given in itertools.pairwise(words):
            assert flag != "--build-arg" or f"ARG {given.partition('=')[0]}=" in text, f"the image has no {given}"


def ssh(words: Sequence[str]) -> None:
    """What is typed on a Mac is the agent's own program: its options, then a command of its own."""
    program = next((place for place, word in enumerate(words) if word == AGENT), None)
    assert program is not None, f"only {AGENT} is known to be on a Mac"
    agent, typed = main.get_command(click.Context(main), "node-agent"), list(words[program + 1 :])
    assert isinstance(agent, click.Group)
    name = next((word for word in typed if word in agent.commands), None)
    assert name is not None, f"the agent has no command in {' '.join(typed)}"
    agent.make_context("paddock-node-agent", typed[: typed.index(name) + 1])
    _read(agent.commands[name], typed[typed.index(name) + 1 :])


def pytest_(words: Sequence[str]) -> None:
    for word in words:
        assert word.startswith("-") or (ROOT / word).exists(), f"there is no {word}"


def export(words: Sequence[str]) -> None:
    assert all(re.match(r"^[A-Z][A-Z0-9_]*=", word) for word in words)


CHECKERS: Final[dict[str, Callable[[Sequence[str]], None]]] = {
    "paddock": paddock,
    ".venv/bin/paddock": paddock,
    "make": make,
    "kubectl": kubectl,
    "helm": helm,
    "docker": docker,
    "ssh": ssh,
    ".venv/bin/pytest": pytest_,
    "export": export,
}


def check(words: Sequence[str]) -> None:
    """One simple command."""
    if " ".join(words) in _SAID:
        return
    assert words[0] in CHECKERS, f"nobody here knows how to look at {words[0]}: give it a checker"
    CHECKERS[words[0]](words[1:])


def files_of(folder: Path) -> None:
    """What commands may name: placeholders for files of the reader's own."""
    for name in ("FILE", "app.pem", ".paddock/kubeconfig", ".paddock/github-app/app.env"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
