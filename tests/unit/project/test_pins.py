"""The one file of what others publish: each entry says where it was read, and whoever uses one reads it there."""

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from unit.deploy.rendering import ROOT

from paddock.hosts.bootstrap.pins import PINS, TART_LICENCE, known_version
from paddock.simulator.tart_program import commands

FILE: dict[str, Any] = tomllib.loads(PINS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(FILE["macs"]))
def test_everything_for_macs_has_address_sum_and_where_both_were_read(name: str):
    pin = FILE["macs"][name]
    assert pin["url"].startswith("https://")
    assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
    assert pin["version"].partition("+")[0] in pin["url"]
    assert re.search(r" of \S+/\S+, \d{4}-\d\d-\d\d$", pin["read"])


def test_no_address_and_no_sum_of_them_is_written_a_second_time():
    """In the checkout; the test and the lists of other sums aside."""
    said = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = {"src/paddock/pins.toml"}
    sums = [pin["sha256"] for pin in FILE["macs"].values()] + [pin["url"] for pin in FILE["macs"].values()]
    for name in filter(None, said.split("\0")):
        path = ROOT / name
        if name not in own and path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not [each for each in sums if each.encode() in data], name


def test_the_simulated_tart_is_the_one_that_macs_get():
    assert known_version("tart") == commands.VERSION
    assert "FSL" in TART_LICENCE


def test_a_bundle_for_macs_is_built_around_the_pinned_interpreter_and_its_sum_is_typed_by_nobody():
    said = subprocess.run(
        [sys.executable, "-m", "agent_bundle", "build", "--out", "/nonexistent/bundle"],
        env={"PYTHONPATH": str(ROOT / "hack" / "agent-bundle"), "https_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 1
    assert f"agent_bundle: {FILE['macs']['python']['url']} cannot be fetched: " in said.stderr
    assert "Traceback" not in said.stderr
