"""The default payload: what is read of a bundle, what is refused, and what is said to be missing."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from paddock.hosts.bootstrap import PlanError
from paddock.hosts.bootstrap.agent_bundle import default_fleet, missing_parts, read_bundle
from paddock.hosts.bootstrap.pins import Archive

TART = Archive("https://files.example/tart.tar.gz", "a" * 64, "2.35.0")


def bundle(path: Path, name: str = "manifest.json", **manifest: str) -> Path:
    data = json.dumps({"version": "1.2.3", "target": "darwin-arm64"} | manifest).encode()
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return path


def test_a_fleet_without_a_file_has_tart_and_the_agent(tmp_path: Path) -> None:
    read = read_bundle(bundle(tmp_path / "b.tar.gz"))
    fleet = default_fleet(read, TART)
    tart, agent = fleet.payloads
    assert (tart.source, tart.sha256, tart.swap_under_vms) == (TART.url, TART.sha256, False)
    assert fleet.agent == agent
    assert (agent.sha256, agent.fetched_by_host) == (read.sha256, False)
    assert read.version == "1.2.3"
    assert missing_parts(read, TART, read.path) == {}


def test_without_a_bundle_nothing_of_ours_is_put_on_a_mac() -> None:
    assert default_fleet(None, None).payloads == ()
    missing = missing_parts(None, None, Path("/somewhere"))
    assert "/somewhere" in missing["--agent-bundle"]
    assert "--tart-sha256" in missing["--tart-version"]


def test_a_dispatch_address_with_braces_is_no_template(tmp_path: Path) -> None:
    fleet = default_fleet(read_bundle(bundle(tmp_path / "b")), None, dispatch_url="https://d.example/{x}")
    assert fleet.agent is not None


def test_what_is_no_bundle_for_macs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no bundle"):
        read_bundle(bundle(tmp_path / "b", name="other"))
    with pytest.raises(PlanError, match="linux-x86_64"):
        read_bundle(bundle(tmp_path / "b", target="linux-x86_64"))
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(PlanError, match="build it anew"):
        read_bundle(tmp_path / "c")
    cut = bundle(tmp_path / "b").read_bytes()[:60]
    (tmp_path / "c").write_bytes(cut)
    with pytest.raises(PlanError, match="build it anew"):
        read_bundle(tmp_path / "c")
