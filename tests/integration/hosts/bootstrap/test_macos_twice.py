"""What the workflow `macos` runs on a hosted Mac, run here against the simulated one: it ends well, and notices what does not."""

import runpy
from pathlib import Path
from typing import Any

from integration.hosts.bootstrap.rig import Rig
from unit.deploy.rendering import ROOT
from unit.hosts.bootstrap.fleets import tarball

from paddock.hosts.bootstrap.steps.no_sleep import NoSleep
from paddock.hosts.bootstrap.steps.step import StepResult

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "hack" / "macos_twice.py"))
AGENT = b"#!/bin/sh\necho paddock-node-agent 0.1.0\n"


async def test_every_step_runs_and_the_second_time_nothing_changes(rig: Rig, tmp_path: Path):
    await rig.ready()  # a hosted Mac has its user logged in, and sudo without a password
    (tmp_path / "bundle.tar.gz").write_bytes(tarball(**{"bin/paddock-node-agent": AGENT}))
    said: list[str] = []
    fleet = SCRIPT["fleet_of"](tmp_path / "bundle.tar.gz")
    assert await SCRIPT["twice"](rig.bootstrap(), rig.host(password=None), fleet, said.append) == []
    names = [line.split()[1].rstrip(":") for line in said]
    assert len(names) == 2 * len(set(names)) > 20
    assert [line for line in said if line.startswith("second") and line.endswith(": changed")] == []
    assert any(line.startswith("first  auto-login: ") and "password" in line for line in said), said


async def test_a_step_that_fails_and_one_that_changes_again_are_both_named(rig: Rig, tmp_path: Path, monkeypatch: Any):
    await rig.ready()
    (tmp_path / "bundle.tar.gz").write_bytes(b"no archive")

    async def changing(*_: Any) -> StepResult:
        return StepResult(("the setting",))

    monkeypatch.setattr(NoSleep, "apply", changing)
    fleet = SCRIPT["fleet_of"](tmp_path / "bundle.tar.gz")
    wrong = await SCRIPT["twice"](rig.bootstrap(), rig.host(password=None), fleet, lambda _: None)
    assert "no-sleep changes something again" in wrong
    assert [line.partition(",")[0] for line in wrong if "paddock-node-agent" in line.partition(",")[0]]
