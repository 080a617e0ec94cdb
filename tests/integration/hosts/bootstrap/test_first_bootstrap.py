"""A factory-fresh Mac becomes a node of the fleet, again and again, without a person."""

import asyncio
import dataclasses
import plistlib

import pytest
from integration.hosts.bootstrap.rig import Rig
from unit.hosts.bootstrap.fleets import AGENT, AGENT_LABEL

from paddock.hosts.bootstrap import Failed, FailureKind, Ready, StepProgress, config_hash
from paddock.hosts.bootstrap.steps import all_steps
from paddock.hosts.bootstrap.steps.no_sleep import NoSleep
from paddock.simulator.mac import Pace
from paddock.simulator.mac.login import decoded


async def test_a_fresh_mac_ends_ready_with_everything_in_its_place(rig: Rig):
    ready = await rig.ready()
    mac = rig.mac
    assert ready.host_key == mac.host_key
    assert ready.config_hash == config_hash(rig.fleet)
    assert mac.read("/etc/sudoers.d/m1-nopasswd") == b"m1 ALL=(ALL) NOPASSWD: ALL\n"
    assert mac.mode("/etc/sudoers.d/m1-nopasswd") == 0o440
    assert decoded(mac.read("/etc/kcpassword")) == mac.password
    assert mac.mode("/etc/kcpassword") == 0o600
    assert mac.session == "Aqua"
    assert mac.hostname == "mac-1"
    assert not mac.disk.screen_lock
    assert mac.disk.power["autorestart"] == "1"
    assert mac.exists("/Users/m1/.tart/.metadata_never_index")
    updates = plistlib.loads(mac.read("/Library/Preferences/com.apple.SoftwareUpdate.plist"))
    assert set(updates.values()) == {False}
    by_host = list(mac.disk.at("/Users/m1/Library/Preferences/ByHost").glob("com.apple.screensaver.*.plist"))
    assert [plistlib.loads(place.read_bytes()) for place in by_host] == [{"idleTime": 0}]
    assert mac.pf.enabled
    assert mac.pf.rules("tuist.runners")
    assert mac.mode("/etc/tart-kubelet/kubeconfig") == 0o600
    assert mac.owner("/etc/tart-kubelet/kubeconfig")[0] == "m1"
    assert mac.read("/usr/local/bin/tart-kubelet") == AGENT
    job = mac.job(AGENT_LABEL)
    assert job is not None
    assert job.state == "running"
    plist = plistlib.loads(mac.read(f"/Library/LaunchDaemons/{AGENT_LABEL}.plist"))
    assert plist["UserName"] == "m1"
    assert "--provider-id=scw-applesilicon://fr-par-1/11111111" in plist["ProgramArguments"]
    assert "--node-labels=tuist.dev/fleet=runners" in plist["ProgramArguments"]


@pytest.mark.slow
async def test_the_same_over_a_real_ssh_connection(rig: Rig):
    assert isinstance(await rig.over_sockets().run(rig.host(), rig.fleet, rig.note), Ready)
    rig.mac.effects.clear()
    again = await rig.over_sockets().run(rig.host(host_key=rig.mac.host_key), rig.fleet, rig.note)
    assert isinstance(again, Ready)
    assert rig.mac.effects == []


@pytest.mark.slow
async def test_on_a_ready_host_nothing_is_changed_by_running_it_again(rig: Rig):
    await rig.ready()
    await rig.mac.settled()
    rig.mac.effects.clear()
    again = await rig.ready()
    assert again.changed_steps == ()
    assert rig.mac.effects == []


@pytest.mark.slow
async def test_progress_is_told_before_and_after_each_step(rig: Rig):
    await rig.ready()
    steps = ["reach-ssh", *(step.name for step in all_steps(rig.fleet))]
    assert [said.step for said in rig.progress if said.state == "started"] == steps
    assert [said.step for said in rig.progress if said.state != "started"] == steps
    assert {said.of for said in rig.progress} == {len(steps)}
    assert rig.progress[-1].sentence.startswith(f"step {len(steps)} of {len(steps)}, payload-tart-kubelet, changed")


@pytest.mark.slow
async def test_a_run_that_dies_after_any_step_is_continued_by_the_next(rig: Rig):
    class OperatorDiedError(Exception):
        pass

    for dies_at in range(2, len(all_steps(rig.fleet)) + 2):

        async def progress(said: StepProgress, dies_at: int = dies_at) -> None:
            if said.state != "started" and said.number >= dies_at - 1:
                assert (said.state == "changed") <= (said.number == dies_at), "what an earlier run did is not redone"
            if said.state != "started" and said.number == dies_at:
                raise OperatorDiedError

        with pytest.raises(OperatorDiedError):
            await rig.bootstrap().run(rig.host(), rig.fleet, progress)
    await rig.mac.settled()
    rig.mac.effects.clear()
    assert (await rig.ready()).changed_steps == ()
    assert rig.mac.effects == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "after", [pytest.param(0.05, marks=pytest.mark.slow), 0.15, pytest.param(0.6, marks=pytest.mark.slow)]
)
async def test_a_run_that_is_cancelled_in_the_middle_of_a_script_is_finished_by_the_next(rig: Rig, after: float):
    first = asyncio.ensure_future(rig.run())
    await asyncio.sleep(after)
    first.cancel()
    await asyncio.wait([first])
    await rig.ready()
    assert rig.mac.wrong_passwords.get("m1", 0) == 0


@pytest.mark.parametrize("written", ["", "name agent\ninstall-to /"], ids=["nothing", "half of it"])
async def test_a_record_that_a_dead_run_left_half_written_is_removed_and_nothing_else(rig: Rig, written: str):
    await rig.ready()
    draft = rig.mac.disk.at("/usr/local/share/paddock/payloads/agent.new")
    draft.write_text(written)
    rig.mac.disk.look()
    await rig.ready()
    assert not draft.exists()
    assert rig.mac.disk.at("/Users/m1").is_dir()


@pytest.mark.slow
async def test_a_host_that_was_rebooted_after_its_bootstrap_needs_nothing_but_its_session(rig: Rig):
    await rig.ready()
    rig.mac.reboot()
    await rig.mac.settled()
    assert rig.mac.pf.enabled
    assert rig.mac.pf.rules("tuist.runners")
    assert 'anchor "tuist.runners"' in "\n".join(rig.mac.pf.rules())
    assert rig.mac.session is None, "it has no display"
    assert (await rig.ready()).changed_steps == ("auto-login",)
    assert rig.mac.session == "Aqua"
    rig.mac.effects.clear()
    assert (await rig.ready()).changed_steps == ()
    assert rig.mac.effects == []


async def test_a_mac_whose_disk_is_locked_at_the_start_is_left_to_a_person(rig: Rig):
    rig.mac.disk.filevault = True
    failed = await rig.failed()
    assert (failed.step, failed.kind) == ("auto-login", FailureKind.CONFIGURATION)
    assert "FileVault is on" in failed.sentence
    assert not failed.kind.blames_host, "a reboot is what loses it"


@pytest.mark.parametrize("version", ["14.3", "26.3"])
async def test_who_logs_in_is_seen_and_not_believed_whatever_launchd_refuses(rig: Rig, version: str):
    rig.mac.product_version = version
    assert "auto-login" in (await rig.ready()).changed_steps
    assert rig.mac.session == "Aqua"
    refused = any("killall loginwindow" in str(effect) for effect in rig.mac.effects)
    assert refused == (version == "26.3")


@pytest.mark.slow
async def test_a_loginwindow_that_died_is_started(rig: Rig):
    await rig.ready()
    rig.mac.launchd.stop(rig.mac.launchd.jobs["system", "com.apple.loginwindow"])
    rig.mac.end_graphical_session()
    assert (await rig.ready()).changed_steps == ("auto-login",)
    assert rig.mac.session == "Aqua"


@pytest.mark.slow
async def test_a_login_that_takes_too_long_is_told_and_fails_nothing(rig: Rig):
    rig.mac.pace = Pace(speed=2000.0, seconds={"loginwindow": 400_000.0})
    ready = await rig.ready()
    assert "auto-login: no new console session of m1 after 30 seconds" in ready.notes


@pytest.mark.slow
async def test_a_reinstalled_host_shows_another_key_and_is_bootstrapped_anew_when_nothing_is_pinned(rig: Rig):
    first = await rig.ready()
    rig.mac.reinstall(keys=[rig.key.public])
    refused = await rig.failed(rig.host(host_key=first.host_key))
    assert refused.kind is FailureKind.HOST_KEY_CHANGED
    assert refused.step == "reach-ssh"
    assert refused.host_key == first.host_key, "the pin stays until somebody says that the wipe was ours"
    assert not refused.kind.blames_host
    second = await rig.ready(rig.host(host_key=None))
    assert second.host_key not in ("", first.host_key)


async def test_the_host_key_is_returned_even_when_a_step_fails(rig: Rig):
    failed = await rig.failed(rig.host(password=None))
    assert failed.host_key == rig.mac.host_key


@pytest.mark.slow
async def test_a_step_that_fails_names_itself_its_status_and_the_end_of_stderr(rig: Rig):
    rig.mac.write("/etc/pf.conf", 'anchor "com.apple/*"\nthis is no rule\n')
    failed = await rig.failed()
    assert (failed.step, failed.kind, failed.exit_status) == ("egress-firewall", FailureKind.STEP_FAILED, 70)
    assert "pf.conf" in failed.sentence
    assert failed.changed_steps[0] == "passwordless-sudo"
    assert rig.progress[-1].state == "failed"


@pytest.mark.slow
async def test_a_payload_that_is_not_what_the_configuration_says_never_reaches_a_host(rig: Rig):
    tart, agent = rig.fleet.payloads
    wrong = dataclasses.replace(agent, sha256="0" * 64)
    failed = await rig.failed(fleet=dataclasses.replace(rig.fleet, payloads=(tart, wrong)))
    assert failed.step == "payload-tart-kubelet"
    assert failed.kind is FailureKind.CONFIGURATION
    assert not failed.kind.blames_host
    assert not rig.mac.exists("/usr/local/bin/tart-kubelet")


@pytest.mark.slow
async def test_a_payload_from_a_url_is_fetched_by_the_host_and_proven_there(rig: Rig):
    url = "https://files.example/tart-kubelet"
    tart, agent = rig.fleet.payloads
    fleet = dataclasses.replace(rig.fleet, payloads=(tart, dataclasses.replace(agent, source=url)))
    rig.mac.downloads[url] = b"not what was promised"
    failed = await rig.failed(fleet=fleet)
    assert (failed.step, failed.kind, failed.exit_status) == ("payload-tart-kubelet", FailureKind.CONFIGURATION, 76)
    rig.mac.downloads[url] = AGENT
    await rig.ready(fleet=fleet)


@pytest.mark.slow
async def test_a_payload_that_answers_404_is_named_and_blames_no_host(rig: Rig):
    """What the fleet then does (nothing rebooted, wiped or bought): tests/simulation/hosts/test_fleet_halted.py."""
    tart, agent = rig.fleet.payloads
    missing = dataclasses.replace(agent, source="https://files.example/moved-away")
    rig.mac.downloads["https://files.example/something-else"] = b"the server is there"
    failed = await rig.failed(fleet=dataclasses.replace(rig.fleet, payloads=(tart, missing)))
    assert (failed.step, failed.kind, failed.exit_status) == ("payload-tart-kubelet", FailureKind.DOWNLOAD_FAILED, 77)
    assert "404" in failed.sentence
    assert not failed.kind.blames_host
    assert not rig.mac.exists("/usr/local/bin/tart-kubelet")


@pytest.mark.slow
async def test_a_program_that_was_changed_on_the_host_is_put_right(rig: Rig):
    await rig.ready()
    rig.mac.write("/usr/local/bin/tart-kubelet", b"#!/bin/sh\nexit 1\n", mode=0o755)
    again = await rig.ready()
    assert again.changed_steps == ("payload-tart-kubelet",)
    assert rig.mac.read("/usr/local/bin/tart-kubelet") == AGENT


@pytest.mark.slow
async def test_a_step_has_its_own_time_and_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(NoSleep, "timeout", 3.0)
    rig.mac.pace = Pace(speed=2000.0, seconds={"pmset": 200_000.0})
    outcome = await rig.run()
    assert isinstance(outcome, Failed)
    assert (outcome.step, outcome.kind) == ("no-sleep", FailureKind.STEP_TIMED_OUT)
    assert outcome.message == "did not finish within 3 seconds"
