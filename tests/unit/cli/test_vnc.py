"""`paddock vnc`: a tunnel to the screen of a Mac or of a VM, recorded before it opens."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from unit.cli.scene import Scene

from paddock.base.secrets import Secret
from paddock.cli import ssh, vnc
from paddock.cli.connections import Problem
from paddock.cli.ssh import arguments
from paddock.cli.vnc import Screen, screen_of, tunnel
from paddock.kube.builtin import Event, Pod, PodSpec, PodStatus
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL

UID = "11111111-1111-4111-8111-111111111111"


def runner(phase: str = "Running", node: str = "blue-1", os: str = "darwin") -> Pod:
    return Pod(
        metadata=ObjectMeta(name="macos-runner-1", uid=UID, labels={POOL_LABEL: "macos"}),
        spec=PodSpec(node_name=node, node_selector={"kubernetes.io/os": os}),
        status=PodStatus(phase=phase),
    )


def test_a_pods_name_means_its_vm_and_any_other_name_a_mac():
    assert screen_of("macos-runner-1", [runner()]) == Screen("blue-1", "macos-runner-1", f"pdk-macos-{UID}")
    assert screen_of("blue-1", [runner()]) == Screen("blue-1")


@pytest.mark.parametrize(
    ("name", "pod", "says"),
    [
        ("pod/other", runner(), "there is no runner Pod called other"),
        ("macos-runner-1", runner("Pending"), "has no VM now: it is Pending"),
        ("macos-runner-1", runner(os="linux"), "has no screen"),
    ],
)
def test_a_pod_without_a_screen_is_refused_with_the_reason(name: str, pod: Pod, says: str):
    with pytest.raises(Problem, match=says):
        screen_of(name, [pod])


def test_the_tunnel_opens_no_shell_and_listens_on_loopback_alone():
    typed = tunnel(arguments(Path("/t/key"), Path("/t/known"), "m1@198.18.0.1", 22, ()), 5901, "192.168.64.7")
    assert typed[-1] == "m1@198.18.0.1"
    assert {"-N", "-T", "ExitOnForwardFailure=yes", "StrictHostKeyChecking=yes"} <= set(typed)
    assert typed[typed.index("-L") + 1] == "127.0.0.1:5901:192.168.64.7:5900"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been typed, with a fleet's key and a Mac that shows the pinned one."""
    typed: list[list[str]] = []

    def ran(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        typed.append(words)
        return subprocess.CompletedProcess(words, 0, stdout="192.168.64.7\n")

    async def key(*_: Any) -> Secret:
        return Secret("the fleet's key")

    async def known(*_: Any) -> str:
        return "198.18.0.1 ssh-ed25519 AAAA\n"

    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(ssh, "_fleet_key", key)
    monkeypatch.setattr(ssh, "_known_host", known)
    return typed


def recorded(scene: Scene) -> list[str]:
    events = scene.cluster.ask(lambda client: client.list(Event))
    return [event.message for event in events.items if event.reason == vnc._OPENED]


def test_the_screen_of_a_mac_is_opened_and_recorded_with_name_and_reason(scene: Scene, opened: list[list[str]]):
    outcome = scene.type("vnc", "blue-1", "--reason", "the login window hangs")
    assert outcome.exit_code == 0, outcome.output
    assert "vnc://127.0.0.1:5901" in outcome.output
    assert "the fleet's key" not in outcome.output
    (typed,) = opened
    assert typed[typed.index("-L") + 1] == "127.0.0.1:5901:127.0.0.1:5900"
    (message,) = recorded(scene)
    assert message.endswith("the login window hangs")
    assert "opens the screen of the Mac itself" in message


def test_the_vm_of_a_pod_is_found_by_tart_on_its_mac(
    scene: Scene, opened: list[list[str]], monkeypatch: pytest.MonkeyPatch
):
    async def pods(_: Any) -> list[Pod]:
        return [runner()]

    monkeypatch.setattr(vnc, "_runner_pods", pods)
    outcome = scene.type("vnc", "macos-runner-1", "--reason", "look", "--local-port", "6000")
    assert outcome.exit_code == 0, outcome.output
    asked, typed = opened
    assert asked[-3:] == ["/usr/local/bin/tart", "ip", f"pdk-macos-{UID}"]
    assert typed[typed.index("-L") + 1] == "127.0.0.1:6000:192.168.64.7:5900"
    assert "the VM of Pod macos-runner-1" in recorded(scene)[0]


def test_without_a_reason_or_an_address_nothing_is_opened(scene: Scene, opened: list[list[str]]):
    assert scene.type("vnc", "blue-1").exit_code == 2
    assert scene.type("vnc", "blue-2", "--reason", "look").exit_code == 1
    assert opened == []
    assert recorded(scene) == []
