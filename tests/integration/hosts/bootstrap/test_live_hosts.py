"""What happens to hosts that run virtual machines: updates, renewals, restarts; never a full bootstrap."""

import asyncio
import dataclasses
import hashlib
from pathlib import Path

import pytest
from integration.hosts.bootstrap.rig import KUBECONFIG, Rig
from unit.hosts.bootstrap.fleets import AGENT, AGENT_LABEL, GUARD

from paddock.base.secrets import Secret
from paddock.hosts.bootstrap import Bootstrap, EgressFirewall, Failed, FailureKind, FleetConfig, Ready, config_hash

ANCHOR = "tuist.runners"


def agent_pid(rig: Rig) -> int | None:
    job = rig.mac.job(AGENT_LABEL)
    assert job is not None
    return job.pid


def with_new_agent(rig: Rig) -> FleetConfig:
    tart, agent = rig.fleet.payloads
    Path(agent.source).write_bytes(AGENT + b"# newer\n")
    newer = dataclasses.replace(agent, sha256=hashlib.sha256(AGENT + b"# newer\n").hexdigest())
    return dataclasses.replace(rig.fleet, payloads=(tart, newer))


def effects(rig: Rig) -> str:
    return "\n".join(str(effect) for effect in rig.mac.effects)


@pytest.fixture
async def live(rig: Rig) -> Rig:
    await rig.ready()
    await rig.mac.settled()
    rig.mac.effects.clear()
    rig.mac.calls.clear()
    rig.progress.clear()
    return rig


@pytest.mark.slow
async def test_an_update_with_nothing_new_changes_nothing(live: Rig):
    assert (await live.update()).changed_steps == ()
    assert live.mac.effects == []


@pytest.mark.slow
async def test_an_update_never_touches_what_running_machines_depend_on(live: Rig):
    tart, agent = with_new_agent(live).payloads
    other = dataclasses.replace(tart, sha256="1" * 64)
    host = live.host(node_name="another-name")
    updated = await live.update(host, dataclasses.replace(live.fleet, payloads=(other, agent), host_cpu=4))
    assert updated.changed_steps == ("payload-tart-kubelet",)
    assert not {"passwordless-sudo", "auto-login", "hostname", "payload-tart"} & {p.step for p in live.progress}
    assert "loginwindow" not in effects(live)
    assert "scutil" not in effects(live)
    assert "/usr/local/lib/tart" not in effects(live)
    assert live.mac.session == "Aqua"


@pytest.mark.slow
async def test_a_new_agent_is_installed_and_started_and_the_hash_moves(live: Rig):
    before, fleet = agent_pid(live), with_new_agent(live)
    updated = await live.update(fleet=fleet)
    assert updated.config_hash == config_hash(fleet) != config_hash(live.fleet)
    assert live.mac.read("/usr/local/bin/tart-kubelet").endswith(b"# newer\n")
    assert agent_pid(live) not in (None, before)
    # The property list is the same, so the job is kicked: registering it again and again makes macOS give it up.
    assert "launchctl bootout" not in effects(live)
    live.mac.effects.clear()
    assert (await live.update(fleet=fleet)).changed_steps == ()


@pytest.mark.slow
async def test_other_arguments_of_the_agent_are_registered_anew(live: Rig):
    before = agent_pid(live)
    await live.update(fleet=dataclasses.replace(live.fleet, max_pods=2))
    assert b"--max-pods=2" in live.mac.read(f"/Library/LaunchDaemons/{AGENT_LABEL}.plist")
    assert agent_pid(live) not in (None, before)


@pytest.mark.slow
async def test_a_renewed_kubeconfig_restarts_the_agent_even_if_the_first_try_died_in_between(live: Rig):
    before = agent_pid(live)
    host = live.host(kubeconfig=Secret(KUBECONFIG.replace("marked", "renewed")))

    async def dies(progress) -> None:
        if progress.step == "node-kubeconfig" and progress.state == "changed":
            raise RuntimeError("the operator dies here")

    with pytest.raises(RuntimeError):
        await live.bootstrap().update(host, live.fleet, dies)
    assert agent_pid(live) == before
    again = await live.update(host)
    assert again.changed_steps == ("payload-tart-kubelet",)
    assert agent_pid(live) not in (None, before)


@pytest.mark.slow
async def test_a_node_that_went_missing_gets_its_agent_restarted_and_nothing_else(live: Rig):
    before = agent_pid(live)
    outcome = await live.bootstrap().restart_agent(live.host(), live.fleet, live.note)
    assert isinstance(outcome, Ready)
    assert agent_pid(live) not in (None, before)
    assert [str(effect) for effect in live.mac.effects if "kickstart" not in str(effect)] == []


@pytest.mark.slow
async def test_an_agent_that_was_booted_out_is_brought_back(live: Rig):
    job = live.mac.job(AGENT_LABEL)
    assert job is not None
    live.mac.launchd.unload(job)
    assert isinstance(await live.bootstrap().restart_agent(live.host(), live.fleet), Ready)
    assert agent_pid(live) is not None


@pytest.mark.slow
async def test_an_agent_that_does_not_stay_up_is_a_failure_and_not_a_success(live: Rig):
    live.mac.disk.at("/usr/local/bin/tart-kubelet").chmod(0o644)
    live.mac.disk.look()
    outcome = await live.bootstrap().restart_agent(live.host(), live.fleet)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.STEP_FAILED
    assert "does not stay up" in outcome.message


@pytest.mark.slow
async def test_without_an_agent_a_restart_says_what_is_missing(live: Rig):
    outcome = await live.bootstrap().restart_agent(live.host(), FleetConfig())
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.CONFIGURATION


@pytest.mark.slow
async def test_new_firewall_rules_reach_a_live_host_through_our_anchor_alone(live: Rig):
    fleet = dataclasses.replace(live.fleet, egress_firewall=EgressFirewall(blocked=("172.16.0.0/12",)))
    assert (await live.update(fleet=fleet)).changed_steps == ("egress-firewall",)
    assert live.mac.pf.tables(ANCHOR)["blocked_dst"].addresses == ["172.16.0.0/12"]
    loads = [line for line in live.lines() if line.startswith("pfctl") and " -f " in line and " -n " not in line]
    assert loads
    assert all(f" -a {ANCHOR} " in line or f" -a com.apple/{ANCHOR} " in line for line in loads)


@pytest.mark.slow
async def test_rules_that_somebody_flushed_are_loaded_again(live: Rig):
    live.mac.pf.flush(ANCHOR, "rules")
    assert (await live.update()).changed_steps == ("egress-firewall",)
    assert live.mac.pf.rules(ANCHOR)


@pytest.mark.slow
async def test_a_firewall_that_is_no_longer_wanted_goes_completely(live: Rig):
    stock = live.mac.read("/etc/pf.conf").decode().split("# BEGIN tuist.runners")[0]
    fleet = dataclasses.replace(live.fleet, egress_firewall=None)
    assert (await live.update(fleet=fleet)).changed_steps == ("egress-firewall",)
    assert not live.mac.pf.rules(ANCHOR)
    assert not live.mac.pf.rules(f"com.apple/{ANCHOR}")
    assert live.mac.read("/etc/pf.conf").decode() == stock
    assert live.mac.job("dev.tuist.pfctl-runners") is None
    assert not live.mac.exists("/etc/pf.anchors/tuist.runners")
    live.mac.effects.clear()
    assert (await live.update(fleet=fleet)).changed_steps == ()
    assert live.mac.effects == []


@pytest.mark.slow
async def test_a_payload_that_is_no_longer_named_is_stopped_and_removed(live: Rig):
    tart, _ = live.fleet.payloads
    fleet = dataclasses.replace(live.fleet, payloads=(tart,))
    assert (await live.update(fleet=fleet)).changed_steps == ("retired-payloads", "log-rotation")
    assert live.mac.job(AGENT_LABEL) is None
    for path in ("/usr/local/bin/tart-kubelet", f"/Library/LaunchDaemons/{AGENT_LABEL}.plist"):
        assert not live.mac.exists(path)
    assert live.mac.exists("/usr/local/bin/tart")
    live.mac.effects.clear()
    assert (await live.update(fleet=fleet)).changed_steps == ()


@pytest.mark.slow
async def test_the_virtualisation_tool_is_never_removed_from_under_running_machines(live: Rig):
    _, agent = live.fleet.payloads
    assert (await live.update(fleet=dataclasses.replace(live.fleet, payloads=(agent,)))).changed_steps == ()
    assert live.mac.exists("/usr/local/bin/tart")
    assert live.mac.effects == []


@pytest.mark.slow
async def test_the_ingress_guard_is_installed_where_there_is_a_second_way_in_and_survives_a_reboot(live: Rig):
    fleet = dataclasses.replace(live.fleet, ingress_guard=GUARD)
    updated = await live.update(fleet=fleet)
    assert updated.changed_steps == ("ingress-guard",)
    assert len(live.mac.pf.rules("com.apple/tuist.sshguard")) == 5
    assert b"sshguard" not in live.mac.read("/etc/pf.conf")
    await live.mac.settled()
    live.mac.effects.clear()
    assert (await live.update(fleet=fleet)).changed_steps == ()
    live.mac.reboot()
    await live.mac.settled()
    assert len(live.mac.pf.rules("com.apple/tuist.sshguard")) == 5
    assert (await live.update(fleet=dataclasses.replace(fleet, ingress_guard=None))).changed_steps == ("ingress-guard",)
    assert not live.mac.pf.rules("com.apple/tuist.sshguard")
    assert live.mac.job("dev.tuist.pfctl-sshguard") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "why"),
    [
        (dataclasses.replace(GUARD, allow=("203.0.113.7/32",)), "allow list does not cover"),
        (dataclasses.replace(GUARD, second_path="10.99.0.0/16"), "no second way in"),
    ],
)
async def test_a_guard_that_could_lock_us_out_is_left_out_and_says_why(live: Rig, guard, why: str):
    updated = await live.update(fleet=dataclasses.replace(live.fleet, ingress_guard=guard))
    assert why in dict(updated.skipped)["ingress-guard"]
    assert live.mac.effects == []


@pytest.mark.slow
async def test_an_update_goes_over_the_second_address_when_the_first_is_filtered(live: Rig):
    host = live.host(fallback_address="100.64.0.7")
    dialled: list[str] = []

    class Filtered:
        def connect(self, target, *, timeout: float = 15.0):
            from paddock.clients.ssh import TimedOut

            dialled.append(target.address)
            if target.address == host.address:
                raise TimedOut(target.address, target.port, timeout)
            return live.mac.ssh().connect(target, timeout=timeout)

        async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
            return live.mac.host_key

    bootstrap: Bootstrap = live.bootstrap(Filtered())
    assert isinstance(await bootstrap.update(host, live.fleet), Ready)
    assert dialled == [host.address, "100.64.0.7"]


@pytest.mark.slow
async def test_an_update_dials_once_and_does_not_wait(live: Rig):
    live.mac.wedge_sshd("refuse")
    outcome = await live.bootstrap(reach_for=600.0).update(live.host(), live.fleet)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.REFUSED


@pytest.mark.slow
async def test_a_mac_that_answers_reboots_by_itself_after_it_was_asked(live: Rig):
    boots = live.mac.boots
    asked = await live.bootstrap().soft_reboot(live.host(), live.fleet)
    assert isinstance(asked, Ready), asked
    assert asked.changed_steps == ("soft-reboot",)
    async with asyncio.timeout(30):
        while live.mac.boots == boots:
            await asyncio.sleep(0.02)
    assert "root: shutdown -r +1" in effects(live)
    assert live.mac.boots == boots + 1


@pytest.mark.slow
async def test_a_mac_that_does_not_answer_is_not_rebooted_and_says_so(live: Rig):
    host = live.host()
    live.mac.power_off()
    asked = await live.bootstrap().soft_reboot(host, live.fleet)
    assert isinstance(asked, Failed)
    assert asked.step == "reach-ssh"
    assert live.mac.effects == []


@pytest.mark.slow
async def test_a_mac_that_came_up_without_a_session_gets_one_and_a_second_kick_does_nothing(live: Rig):
    live.mac.reboot()
    await live.mac.settled()
    assert live.mac.session is None
    kicked = await live.bootstrap().kick_session(live.host(), live.fleet)
    assert isinstance(kicked, Ready), kicked
    assert kicked.changed_steps == ("kick-session",)
    assert live.mac.session == "Aqua"
    live.mac.effects.clear()
    again = await live.bootstrap().kick_session(live.host(), live.fleet)
    assert isinstance(again, Ready)
    assert again.changed_steps == ()
    assert live.mac.effects == []


@pytest.mark.slow
async def test_nobody_is_logged_in_anew_beside_a_virtual_machine(live: Rig):
    live.mac.end_graphical_session()
    live.mac.virtual_machines = lambda: 1
    refused = await live.bootstrap().kick_session(live.host(), live.fleet)
    assert isinstance(refused, Failed)
    assert "a virtual machine runs" in refused.message
    assert live.mac.effects == []


@pytest.mark.slow
async def test_a_kick_that_brings_no_session_says_so(live: Rig):
    live.mac.seal_password()
    failed = await live.bootstrap().kick_session(live.host(), live.fleet)
    assert isinstance(failed, Failed)
    assert "no console session of m1 came within 30 seconds" in failed.message


EGRESS = "/var/run/tuist-egress"


def evaluated(rig: Rig) -> list[str]:
    """The rules for machines that the packet filter evaluates: those below an anchor that its main rules name."""
    pf = rig.mac.pf
    main = "\n".join(pf.rules()) if pf.enabled else ""
    below = [
        pf.rules(name)
        for name, line in ((ANCHOR, ANCHOR), (f"com.apple/{ANCHOR}", "com.apple/*"))
        if f'"{line}"' in main
    ]
    return [rule for rules in below for rule in rules]


async def a_minute_later(rig: Rig) -> None:
    rig.mac.launchd.run_interval_jobs()
    await rig.mac.settled()


async def as_root(rig: Rig, *lines: str) -> None:
    target = rig.mac.target(rig.key.private)
    async with rig.mac.ssh().connect(target) as shell:
        for line in lines:
            (await shell.run(f"sudo -n {line}", timeout=20.0)).check()


@pytest.mark.slow
@pytest.mark.parametrize("rebooted", [False, True])
@pytest.mark.parametrize(
    "lines",
    [
        ("pfctl -d",),
        ("pfctl -F all",),
        (f"pfctl -a {ANCHOR} -F all", f"pfctl -a com.apple/{ANCHOR} -F all"),
        ("pfctl -f /dev/null", "pfctl -d"),
    ],
    ids=["off", "flushed", "anchors flushed", "replaced"],
)
async def test_rules_that_somebody_flushed_are_in_force_again_within_a_minute(
    live: Rig, rebooted: bool, lines: tuple[str, ...]
):
    if rebooted:
        live.mac.reboot()
        await live.mac.settled()
    assert evaluated(live)
    await as_root(live, *lines)
    assert not evaluated(live)
    await a_minute_later(live)
    assert evaluated(live)
    assert live.mac.read(EGRESS).startswith(b"armed\n")
    assert 'anchor "com.apple/*"' in "\n".join(live.mac.pf.rules()), "the system's rules are there, too"


@pytest.mark.slow
async def test_a_minute_in_which_nothing_happened_disturbs_nothing_and_a_new_address_loads_the_rules_anew(live: Rig):
    await a_minute_later(live)
    live.mac.effects.clear()
    await a_minute_later(live)
    assert not any("pfctl" in str(effect) for effect in live.mac.effects)
    live.mac.address = "203.0.113.77"
    await a_minute_later(live)
    assert any(f"pfctl -q -a {ANCHOR} -f" in str(effect) for effect in live.mac.effects), (
        "pf reads `self` when it loads"
    )


@pytest.mark.slow
async def test_rules_that_cannot_be_loaded_are_told(live: Rig):
    live.mac.write("/etc/pf.anchors/tuist.runners", b"this is no rule\n")
    await as_root(live, f"pfctl -a {ANCHOR} -F all", f"pfctl -a com.apple/{ANCHOR} -F all")
    await a_minute_later(live)
    assert live.mac.read(EGRESS).startswith(b"open\n")
    await live.update()
    assert live.mac.read(EGRESS).startswith(b"armed\n")
