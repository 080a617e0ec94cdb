"""A fleet without a fleet file: its Macs get the node agent from the bundle, in versioned folders, and Tart if it is named."""

import io
import json
import plistlib
import stat
import tarfile
from pathlib import Path
from typing import cast

import pytest
from integration.hosts.bootstrap.rig import Rig

from paddock.hosts.bootstrap import FailureKind, FleetConfig
from paddock.hosts.bootstrap.agent_bundle import SOFTNET, default_fleet, read_bundle
from paddock.hosts.bootstrap.errors import StepFailedError
from paddock.hosts.bootstrap.payload_source import PayloadFiles
from paddock.hosts.bootstrap.steps.payloads import InstalledPayload
from paddock.hosts.bootstrap.steps.step import StepResult, StepShell
from paddock.simulator.agent_payload import with_node_agent

LABEL = "dev.paddock.node-agent"
HOME = "/usr/local/lib/paddock/node-agent"
PROGRAM = "#!/bin/sh\nwhile :; do sleep 60; done\n"


def bundle(folder: Path, version: str) -> FleetConfig:
    path = folder / f"bundle-{version}.tar.gz"
    manifest = json.dumps({"version": version, "target": "darwin-arm64"})
    with tarfile.open(path, "w") as tar:
        for name, text in {"manifest.json": manifest, "bin/paddock-node-agent": PROGRAM, "v": version}.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    return default_fleet(read_bundle(path), None, dispatch_url="https://dispatch.example")


def versions(rig: Rig) -> list[str]:
    return sorted(path.name for path in (rig.mac.disk.root / HOME.lstrip("/")).iterdir())


def current(rig: Rig) -> str:
    return (rig.mac.disk.root / HOME.lstrip("/") / "current" / "v").read_text()


@pytest.mark.slow
async def test_the_agent_is_installed_and_runs_with_the_hosts_own_values(rig: Rig, tmp_path: Path) -> None:
    fleet = bundle(tmp_path, "1")
    await rig.ready(fleet=fleet)
    job = rig.mac.job(LABEL)
    assert job is not None
    assert job.pid is not None
    plist = plistlib.loads(rig.mac.read(f"/Library/LaunchDaemons/{LABEL}.plist"))
    host = rig.host()
    assert plist["ProgramArguments"] == [
        "/usr/local/bin/paddock-node-agent",
        f"--node-name={host.node_name}",
        f"--kubeconfig={fleet.kubeconfig_path}",
        f"--provider-id={host.provider_id}",
        "--node-labels=tuist.dev/runtime=tart",
        f"--node-ip={host.address}",
        "--tart=/usr/local/bin/tart",
        "--data=/usr/local/var/paddock/node",
        "--log-file=/usr/local/var/paddock/node/agent.log",
        "--shares=/Volumes/paddock-shares",
        "--dispatch-url=https://dispatch.example",
    ]
    assert plist["UserName"] == host.username
    assert plist["EnvironmentVariables"]["HOME"] == f"/Users/{host.username}"
    assert "/opt/homebrew/bin" in plist["EnvironmentVariables"]["PATH"]
    assert current(rig) == "1"


@pytest.mark.slow
async def test_what_the_agent_writes_to_is_its_users(rig: Rig, tmp_path: Path) -> None:
    """Above a home everything is root's, and the agent is not root: without the folder it could not even start."""
    await rig.ready(fleet=bundle(tmp_path, "1"))
    user, disk = rig.host().username, rig.mac.disk
    assert disk.owner("/usr/local/var/paddock/node")[0] == user
    assert disk.at("/usr/local/var/paddock/node").stat().st_mode & 0o777 == 0o700
    assert disk.owner("/usr/local/var/paddock")[0] == "root"
    assert disk.owner("/Volumes/paddock-shares")[0] == user
    disk.own("/usr/local/var/paddock/node", "root", "wheel")
    await rig.update(fleet=bundle(tmp_path, "1"))
    assert disk.owner("/usr/local/var/paddock/node")[0] == user


@pytest.mark.slow
async def test_a_new_version_replaces_the_old_once_it_was_seen_to_stay_up(rig: Rig, tmp_path: Path) -> None:
    await rig.ready(fleet=bundle(tmp_path, "1"))
    await rig.mac.settled()
    job = rig.mac.job(LABEL)
    assert job is not None
    before, old = job.pid, versions(rig)
    updated = await rig.update(fleet=bundle(tmp_path, "2"))
    assert updated.changed_steps == ("payload-paddock-node-agent",)
    job = rig.mac.job(LABEL)
    assert job is not None
    assert job.pid not in (None, before)
    assert current(rig) == "2"
    assert len(versions(rig)) == 2, "the current version and the link to it"
    assert versions(rig) != old
    assert (await rig.update(fleet=bundle(tmp_path, "2"))).changed_steps == ()


class _Recorded:
    """A host on which everything works but the script that is to fail."""

    def __init__(self, fails: str) -> None:
        self.fails, self.ran = fails, list[str]()
        self.payloads = PayloadFiles()

    async def run(self, name: str, *arguments: str, upload: object = None) -> StepResult:
        self.ran.append(name)
        if name == self.fails:
            raise StepFailedError(FailureKind.STEP_FAILED, f"{name} fails")
        return StepResult()


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["payload_install", "launchd_job"])
async def test_the_old_version_stays_until_the_new_one_was_seen_to_stay_up(rig: Rig, tmp_path: Path, fails) -> None:
    fleet = bundle(tmp_path, "1")
    step = InstalledPayload(fleet.payloads[0])
    broken, whole = _Recorded(fails), _Recorded("")
    with pytest.raises(StepFailedError):
        await step.apply(cast("StepShell", broken), rig.host(), fleet)
    assert "payload_prune" not in broken.ran
    # The next run comes to it, whatever the one before had done already.
    await step.apply(cast("StepShell", whole), rig.host(), fleet)
    assert whole.ran[-1] == "payload_prune"


@pytest.mark.parametrize("left", ["new", pytest.param("old", marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_what_an_interrupted_install_left_behind_does_no_harm_and_goes(rig: Rig, tmp_path: Path, left) -> None:
    await rig.ready(fleet=bundle(tmp_path, "1"))
    await rig.mac.settled()
    newer = bundle(tmp_path, "2")
    home = rig.mac.disk.root / HOME.lstrip("/")
    half = home / f"{newer.payloads[0].sha256[:16]}.{left}"
    half.mkdir()
    (half / "v").write_text("half")
    (home / ".current.new").symlink_to("nowhere")
    rig.mac.disk.look()
    await rig.update(fleet=newer)
    assert current(rig) == "2"
    assert len(versions(rig)) == 2


@pytest.mark.slow
async def test_softnet_is_installed_before_the_agent_and_runs_as_root(rig: Rig, tmp_path: Path) -> None:
    fleet = with_node_agent(default_fleet(None, None), tmp_path)
    await rig.ready(fleet=fleet)
    program = rig.mac.disk.at(SOFTNET)
    assert stat.S_IMODE(program.stat().st_mode) == 0o4755
    assert rig.mac.disk.owner(SOFTNET)[0] == "root"
    assert [payload.name for payload in fleet.payloads] == ["softnet", "paddock-node-agent"]
    plist = plistlib.loads(rig.mac.read(f"/Library/LaunchDaemons/{LABEL}.plist"))
    assert f"--softnet={SOFTNET}" in plist["ProgramArguments"]
