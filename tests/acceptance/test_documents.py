"""The quickstart and the README, typed line by line into a shell beside a real `paddock up --simulate`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from acceptance.instance import PADDOCK, Instance, eventually, running
from conformance.kubectl import found_kubectls
from docs.documents import ROOT, typed

pytestmark = pytest.mark.slow

QUICKSTART, README = ROOT / "docs" / "quickstart.md", ROOT / "README.md"
NOT_TYPED = {
    "make test": "this is a part of it",
    "make run": "the instance of these tests is what it starts",
}
"""Commands that are not run here, by how they begin, and why; tests/docs reads them all the same."""
WATCHES_FOR = 3
HOSTS = 8


class Terminal:
    """A shell that a person types into: variables and exports last, and every command says how it ended."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([*{str(each.parent) for each in found_kubectls().values()}, os.environ["PATH"]])
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env={**os.environ, "PATH": path, "KUBECONFIG": "", "PADDOCK_SERVER": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, line: str) -> tuple[int, str]:
        """The exit code, and what was shown. A watch is ended after some seconds, as with Ctrl-C."""
        if shlex.split(line, comments=True)[-1] in ("-w", "--watch"):
            line = f"timeout -s INT {WATCHES_FOR} {line}"
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {line}\n}} </dev/null\nprintf '\\n@@@%d\\n' $?\n")
        self._shell.stdin.flush()
        shown: list[str] = []
        for text in self._shell.stdout:
            if ended := re.fullmatch(r"@@@(\d+)\n", text):
                return int(ended[1]), "".join(shown)
            shown.append(text)
        raise AssertionError(f"the shell is gone after {line}: {''.join(shown)}")

    def close(self) -> None:
        self._shell.terminate()
        self._shell.wait(10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout as far as these commands need one."""
    here = tmp_path_factory.mktemp("checkout")
    (here / ".venv").symlink_to(PADDOCK.parent.parent)
    return here


@pytest.fixture(scope="module")
def instance(folder: Path) -> Iterator[Instance]:
    """What the quickstart's own `make run` line starts, on free ports and quicker."""
    (line,) = [each.line for each in typed(QUICKSTART) if each.line.startswith("make run")]
    arguments = shlex.split(shlex.split(line)[2].removeprefix("RUN_ARGS="))
    with running(folder / ".paddock", *arguments, "--orphan-reclaim-interval", "5s") as started:
        started.all_bound(HOSTS, ready=True, within=90)
        yield started


@pytest.fixture
def terminal(folder: Path, instance: Instance) -> Iterator[Terminal]:
    opened = Terminal(folder)
    yield opened
    opened.close()


def in_a_name(line: str, instance: Instance, terminal: Terminal) -> str:
    """The line with a real name for its placeholder, as the page tells its reader to take one."""
    for kind, placeholder in (("machine", "NAME"), ("job", "NUMBER")):
        if re.search(rf"\b{kind} {placeholder}\b", line):
            _, shown = terminal.type(f"paddock get {kind}s -o name")
            line = line.replace(placeholder, shown.strip().splitlines()[0].partition("/")[2])
    assert not re.search(r"\b(NAME|NUMBER)\b", line), f"nobody here can fill in {line}"
    return line


def force_delete_on_the_page(instance: Instance) -> None:
    """The button, for whoever has no kubectl: the page offers it as the first way."""
    import httpx2

    with httpx2.Client(base_url=instance.page.rstrip("/"), trust_env=False) as browser:
        found = re.search(r'name="form_token" value="([^"]+)"', browser.get("/faults").text)
        assert found
        origin = {"Origin": instance.page.rstrip("/")}
        browser.post("/faults/force-delete-machine", data={"form_token": found[1]}, headers=origin).raise_for_status()


def type_all(page: Path, instance: Instance, terminal: Terminal) -> dict[str, str]:
    """Every command of a page in order; what each showed."""
    said: dict[str, str] = {}
    for each in typed(page):
        if any(each.line.startswith(begin) for begin in NOT_TYPED):
            continue
        if "kubectl" in each.line and not found_kubectls():
            if "kubectl delete" in each.line:
                force_delete_on_the_page(instance)
            continue
        line = in_a_name(each.line, instance, terminal)
        code, shown = terminal.type(line)
        fine = {0, 3} if line.startswith("paddock") else {0}
        fine |= {124, 130} if line.endswith("-w") else set()
        assert code in fine, f"{each} ended with {code}: {shown}"
        assert "Traceback" not in shown, f"{each}: {shown}"
        said[each.line] = shown
        if line.startswith("kubectl delete"):
            eventually("the orphaned Mac is seen", lambda: not set(instance.states().values()) <= {"owned"}, within=60)
        if line.endswith("-w"):
            healed(instance)
    return said


def healed(instance: Instance) -> None:
    eventually(
        "the Mac is owned again", lambda: list(instance.states().values()) == ["owned"] * HOSTS, within=120, every=0.5
    )
    instance.all_bound(HOSTS, ready=True, within=90)


@pytest.mark.slow
def test_the_quickstart_says_what_one_sees(instance: Instance, terminal: Terminal) -> None:
    said = type_all(QUICKSTART, instance, terminal)
    assert re.match(r"(Healthy|Not healthy): ", said["paddock status"])
    assert "fleet mac-fleet" in said["paddock tree --all"]
    assert re.match(r"job \d+: ", said["paddock why job NUMBER"])
    assert said["paddock why machine NAME"].startswith("machine mac-fleet-")
    for reason in ("Reclaimed", "Releasing", "Released", "Adopted"):
        assert reason in terminal.type("paddock events --limit 200")[1], reason


def test_the_readme_says_what_one_sees(instance: Instance, terminal: Terminal) -> None:
    healed(instance)
    said = type_all(README, instance, terminal)
    assert "jobs killed in 24 h      0" in said["paddock status"]
    assert re.match(r"job \d+: ", said["paddock why job NUMBER"])
    assert said["paddock why machine NAME"].startswith("machine mac-fleet-")


@pytest.mark.parametrize("page", [QUICKSTART, README], ids=lambda page: page.name)
def test_every_address_is_served_and_every_button_is_there(page: Path, instance: Instance) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"<http://127\.0\.0\.1:8080(/[^>]*)>", text)
    assert "/faults" in paths
    for path in paths:
        assert instance.get(path).status_code == 200, path
    panel = instance.get("/faults").text.replace("&#39;", "'")
    for button in (found for line in text.splitlines() for found in re.findall(r"\*\*([A-Z][^*]+)\*\*", line)):
        if not button.endswith("."):
            assert button in panel, f"there is no button {button}"


@pytest.mark.parametrize("name", ["fleet.yaml", "pool.yaml"])
def test_the_example_would_be_accepted(name: str, instance: Instance) -> None:
    example: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "examples" / name).read_text(encoding="utf-8"))
    example["metadata"]["name"] = "an-example"
    plural = {"MacFleet": "macfleets", "RunnerPool": "runnerpools"}[example["kind"]]
    with instance.api() as api:
        answer = api.post(
            f"/apis/{example['apiVersion']}/namespaces/default/{plural}",
            params={"dryRun": "All", "fieldValidation": "Strict"},
            json=example,
        )
    assert answer.status_code == 201, answer.text
