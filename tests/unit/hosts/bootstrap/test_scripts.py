"""What the shell of the bootstrap must and must not be, before any of it runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import paddock.hosts.bootstrap.scripts as home
from paddock.hosts.bootstrap.scripts import on_host, script, script_names

FOLDER = Path(home.__file__).parent
ON_HOST = sorted(path.stem.removeprefix("on_host_") for path in FOLDER.glob("on_host_*.sh"))
WHOLE = {name: script(name) for name in script_names()} | {f"on_host_{name}": on_host(name) for name in ON_HOST}
# From the locked wheel, beside the interpreter: the same version wherever the tests run.
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def test_shellcheck_finds_nothing(tmp_path: Path):
    for name, text in WHOLE.items():
        (tmp_path / f"{name}.sh").write_text(text, encoding="utf-8")
    # Once for all of them: starting it takes longer than reading a script.
    done = subprocess.run(
        [SHELLCHECK, "--shell=bash", "--severity=style", *sorted(tmp_path.iterdir())],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_bash_can_parse_it_inside_the_function_it_runs_in(name: str):
    framed = f"main() {{ {WHOLE[name]}\n}}\n"
    done = subprocess.run(["/bin/bash", "-n"], input=framed, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_nothing_newer_than_the_bash_of_a_mac_is_used(name: str):
    for newer in (
        r"\bmapfile\b",
        r"\breadarray\b",
        r"declare -A",
        r"local -n",
        r"\$\{\w+,,",
        r"\|&",
        r"&>>",
        r"read -N",
    ):
        assert not re.search(newer, code(WHOLE[name])), newer


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_was_found_to_make_things_worse_is_never_done(name: str):
    text = code(WHOLE[name])
    for forbidden in ("pfctl -d", "socketfilterfw", "UseDNS", "killall -HUP", "-F all", "set -x", "sshpass"):
        assert forbidden not in text, forbidden
    for line in text.splitlines():
        if "pfctl" in line and re.search(r" -f ", line) and "-a " not in line:
            # The helper does so only where nothing is left in the main rules that this could take away.
            flushed = name == "on_host_pf_runners" and line.strip().startswith('pfctl -q -f "${ROOT:-}/etc/pf.conf"')
            assert " -n " in line or flushed, f"loads the whole of pf.conf: {line.strip()}"


def test_the_scripts_are_inside_the_package_so_that_they_are_shipped():
    assert {path.suffix for path in FOLDER.iterdir() if path.is_file()} <= {".sh", ".py"}
    assert len(WHOLE) == len(list(FOLDER.glob("*.sh"))) - 3, "all but the three fragments"
