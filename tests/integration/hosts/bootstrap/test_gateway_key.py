"""A Mac's key for the gateway goes over SSH to the program of its agent, on standard input, and is seen nowhere."""

import io
from pathlib import Path

import pytest
from integration.hosts.bootstrap.rig import Rig

from paddock.base import logs
from paddock.base.secrets import Secret
from paddock.clients.gateway.mac_key import KeyAnswer, digits_of
from paddock.hosts.bootstrap import Failed, FailureKind, FleetConfig
from paddock.hosts.bootstrap.contract import KeyOffer
from paddock.node.key_file import KeyFile
from paddock.node.keys import Keys
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.mac.agent_tools import machine_id_of

FIRST, SECOND = "marked-" + "a" * 36, "marked-" + "b" * 36


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    logs.set_up(level="debug", json=True, stream=stream)
    return stream


async def bootstrapped(rig: Rig, folder: Path) -> FleetConfig:
    fleet = with_node_agent(FleetConfig(virtual_machines=None), folder / "agent")
    await rig.ready(fleet=fleet)
    return fleet


def keys_of(rig: Rig) -> KeyFile:
    return KeyFile.of_agent(rig.mac.disk.at(f"/Users/{rig.mac.username}/.paddock/node"))


async def test_the_mac_takes_a_key_beside_its_agent_and_shows_it_to_nobody(
    rig: Rig, tmp_path: Path, log: io.StringIO
) -> None:
    fleet = await bootstrapped(rig, tmp_path)
    machine = machine_id_of(rig.mac.name)
    host = rig.host(host_key=rig.mac.host_key)
    give = rig.over_sockets().give_key
    first = await give(host, fleet, KeyOffer(1, Secret(FIRST)), rig.note)
    assert first == KeyAnswer(True, 1, "", machine)
    keys_of(rig).answered(FIRST)
    second = await give(host, fleet, KeyOffer(2, Secret(SECOND)), rig.note)
    assert second == KeyAnswer(True, 2, digits_of(FIRST), machine)
    late = await give(host, fleet, KeyOffer(1, Secret("marked-" + "c" * 36)), rig.note)
    assert late == KeyAnswer(False, 2, digits_of(FIRST), machine)
    assert await give(host, fleet, None, rig.note) == late, "asked, it takes none"
    assert keys_of(rig).read() == Keys(2, SECOND, FIRST)
    assert rig.mac.read("/Users/m1/.paddock/node/keys.json"), "the file that the agent reads"
    processes = [call.line for call in rig.mac.calls] + list(rig.mac.commands) + [str(each) for each in rig.mac.effects]
    seen = "\n".join([*processes, *map(repr, rig.progress), repr((first, second, late)), log.getvalue()])
    assert "take-key" in seen
    assert "marked-" not in seen
    assert not rig.mac.violations


async def test_a_mac_whose_agent_cannot_take_it_says_so_without_the_key(rig: Rig, tmp_path: Path) -> None:
    fleet = await bootstrapped(rig, tmp_path)
    folder = rig.mac.disk.at("/Users/m1/.paddock")
    folder.mkdir(exist_ok=True)
    (folder / "node").write_text("in the way")
    failed = await rig.bootstrap().give_key(rig.host(), fleet, KeyOffer(1, Secret(FIRST)))
    assert isinstance(failed, Failed)
    assert (failed.step, failed.kind) == ("gateway-key", FailureKind.STEP_FAILED)
    assert failed.message.startswith("paddock: ")
    assert "marked-" not in repr(failed)


async def test_a_program_that_answers_something_else_is_not_repeated(rig: Rig, tmp_path: Path) -> None:
    fleet = await bootstrapped(rig, tmp_path)
    rig.mac.disk.at("/usr/local/bin/paddock-node-agent").write_text('#!/bin/sh\nread -r line\necho "$line"\n')
    rig.mac.disk.look("root")
    failed = await rig.bootstrap().give_key(rig.host(), fleet, KeyOffer(1, Secret(FIRST)))
    assert isinstance(failed, Failed)
    assert failed.message == "its node agent did not answer as to a key"
    assert "marked-" not in repr(failed)


async def test_a_mac_that_shows_another_host_key_is_given_none(rig: Rig, tmp_path: Path) -> None:
    fleet = await bootstrapped(rig, tmp_path)
    host = rig.host(host_key="SHA256:another")
    failed = await rig.bootstrap().give_key(host, fleet, KeyOffer(1, Secret(FIRST)))
    assert isinstance(failed, Failed)
    assert failed.kind is FailureKind.HOST_KEY_CHANGED
    assert keys_of(rig).read() == Keys()
