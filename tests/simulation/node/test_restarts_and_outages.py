"""What the agent goes through: restarts, outages, reboots, and others' mistakes. No VM is ended for an answer that is missing."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from doubles.clocks import ShiftedClock
from simulation.node.node_world import IMAGE, NODE, NodeWorld

from paddock.kube.builtin import Node, Pod
from paddock.kube.informer import Informer
from paddock.node.link import NodeTakenError
from paddock.simulator.faults import Fail
from paddock.simulator.process import World, simulate
from paddock.simulator.tart import GuestPace, Mishap

MINUTE = 60.0


def ended(pod: Pod | None):
    assert pod is not None
    state = pod.status.container_statuses[0].state.terminated
    assert state is not None, pod.status
    return state


@pytest.mark.parametrize("moment", ["pulling", "booting", "in a job", "after the exit"])
def test_a_restarted_agent_goes_on_where_the_old_one_died(moment) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=moment != "pulling")
        uid = await mac.pod("p1")
        mac.dispatch.jobs.append("job-1")
        moments = {
            "pulling": lambda: bool(mac.tart.ledger.pulls),
            "booting": lambda: bool(mac.tart.running()),
            "in a job": lambda: bool(mac.ran),
            "after the exit": lambda: bool(mac.finished),
        }
        await mac.eventually(moment, moments[moment])
        before = await mac.see("p1")
        world.processes["agent"].crash()
        if moment == "after the exit":
            await mac.eventually("the VM ended unseen", lambda: not mac.tart.running())
        pod = await mac.phase_is("p1", "Succeeded")
        assert mac.ran == ["job-1"]
        assert mac.tart.ledger.runs == [mac.vm(uid)]
        assert pod is not None
        if before is not None and before.status.start_time is not None:
            assert pod.status.start_time == before.status.start_time
        assert ended(pod).exit_code == 0

    simulate(scenario, seed=3)


@pytest.mark.slow
def test_ends_of_an_hour_without_an_api_server_carry_their_true_times_and_codes() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.code = 3
        await mac.pod("p1")
        await mac.pod("p2")
        await mac.is_ready("p1")
        await mac.is_ready("p2")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        began = mac.clock.now()
        world.faults.inject(Fail(), process=mac.writer, where=lambda call: call.path.startswith(("/api/v1", "/apis")))
        await world.clock.sleep(60 * MINUTE)
        mac.safe()
        assert not mac.tart.ledger.stopped, "a VM was ended because the API server was away"
        assert len(mac.tart.running()) == 1, "the idle VM goes on"
        world.faults.clear()
        back = mac.clock.now()

        async def renewed() -> bool:
            lease = await mac.lease()
            from paddock.base.clock import parse_rfc3339

            return lease is not None and parse_rfc3339(lease.spec.renew_time or "") > back

        await mac.eventually("the Lease is renewed again", renewed, within=30.0)

        async def one_failed() -> bool:
            return "Failed" in [await mac.phase("p1"), await mac.phase("p2")]

        await mac.eventually("the end of the job is reported", one_failed, within=60.0)
        name = "p1" if await mac.phase("p1") == "Failed" else "p2"
        state = ended(await mac.see(name))
        assert (state.exit_code, state.reason) == (3, "Error")
        assert state.finished_at is not None
        assert state.finished_at - began < timedelta(minutes=2), "the end is told as of when the agent noticed"

    simulate(scenario, seed=3)


def test_an_outage_of_everything_ends_no_vm_and_lets_no_warm_pod_go() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 600.0
        uids = {name: await mac.pod(name) for name in ("p1", "p2")}
        for name in uids:
            await mac.is_ready(name)
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        warm = next(name for name, uid in uids.items() if uid not in mac.dispatch.answered)
        away = [name for name in ("api", "dispatch", "gateway") if name in world.processes]
        # The store of the API server outlives it.
        world.faults.inject(Fail(), where=lambda call: call.method != "" and not call.name.startswith(("tart", "disk")))
        for _ in range(30):
            for name in away:
                if name != "api":
                    world.processes[name].crash()
            await world.clock.sleep(MINUTE)
            mac.safe()
        world.faults.clear()
        for name in away:
            if not world.processes[name].running:
                world.processes[name].start()
        assert mac.finished == ["job-1"], "its job ran on"
        assert mac.tart.running() == [mac.vm(uids[warm])]
        assert not mac.tart.ledger.stopped
        done = next(name for name in uids if name != warm)
        assert ended(await mac.phase_is(done, "Succeeded")).exit_code == 0
        await mac.is_ready(warm)
        mac.dispatch.jobs.append("job-2")
        await mac.phase_is(warm, "Succeeded", within=900.0)
        assert mac.ran == ["job-1", "job-2"]
        assert sorted(mac.tart.ledger.runs) == sorted(mac.vm(uid) for uid in uids.values()), "one VM for each"

    simulate(scenario, seed=3)


def test_a_node_that_is_deleted_is_made_again_and_its_vms_do_not_notice() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.api.delete(Node, NODE)

        async def again() -> bool:
            node = await mac.node()
            return node is not None and bool(node.spec.taints) and bool(node.status.conditions)

        await mac.eventually("the Node is back", again, within=60.0)
        node = await mac.node()
        assert node is not None
        assert node.metadata.labels["tuist.dev/fleet"] == "f"
        assert any(key.startswith("tuist.dev/golden-") for key in node.metadata.labels)
        lease = await mac.lease()
        assert lease is not None
        await world.clock.sleep(20.0)
        assert await mac.phase("p1") == "Running"
        assert not mac.tart.ledger.stopped

    simulate(scenario, seed=3)


def test_an_agent_whose_identity_was_removed_creates_no_node() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        if mac.gateway is not None:
            await mac.gateway.let_go()
        else:
            world.faults.inject(
                Fail(status=401), process="agent", where=lambda call: call.path.startswith(("/api/v1", "/apis"))
            )
        await mac.api.delete(Node, NODE)
        await world.clock.sleep(10 * MINUTE)
        assert await mac.node() is None
        assert len(mac.tart.running()) == 1
        assert not mac.tart.ledger.stopped

    simulate(scenario, seed=3)


def test_a_ready_of_unknown_that_the_server_wrote_is_never_sent_back() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await world.clock.sleep(15.0)
        unknown = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "quiet"}]
        await mac.api.merge_patch(Node, NODE, {"status": {"conditions": unknown}}, subresource="status")

        async def ready() -> bool:
            node = await mac.node()
            return node is not None and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)

        await mac.eventually("Ready is True again", ready, within=400.0)

    simulate(scenario, seed=3)


def test_an_agent_of_another_mac_with_the_same_name_stands_down() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.host.machine_id = "another-mac"
        second = mac.agent("second")
        with pytest.raises(NodeTakenError, match="another Mac reports as Node mac-1"):
            await second.run()
        mac.host.machine_id = f"machine-of-{NODE}"
        assert len(mac.tart.running()) == 1

    simulate(scenario, seed=3)


def test_a_mac_that_replaces_a_dead_one_takes_its_name_over() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await world.clock.sleep(15.0)
        await world.processes["agent"].stop()
        mac.host.machine_id = "another-mac"
        if mac.gateway is not None:
            await mac.gateway.replace_mac()
        world.processes["agent"].start()

        async def taken_over() -> bool:
            node = await mac.node()
            return node is not None and node.status.node_info.get("machineID") == "another-mac"

        await mac.eventually("the Node names the new Mac", taken_over, within=120.0)

    simulate(scenario, seed=3)


def test_two_pods_of_one_name_have_a_vm_each() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        first = await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.delete("p1", grace=0)  # by force: the object is gone, the VM is not
        second = await mac.pod("p1")
        await mac.is_ready("p1")
        assert mac.vm(second) in mac.tart.running()
        await mac.eventually("the first one's VM ends", lambda: mac.tart.running() == [mac.vm(second)])
        assert sorted(mac.tart.ledger.runs) == sorted([mac.vm(first), mac.vm(second)])
        assert await mac.phase("p1") == "Running"
        await mac.eventually("only the second is remembered", lambda: mac.entries() == [second])

    simulate(scenario, seed=3)


def test_a_vm_without_a_pod_ends_only_after_two_sightings_thirty_seconds_apart() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.delete("p1", grace=0)
        deleted = mac.clock.monotonic()
        await mac.eventually("the VM ends", lambda: not mac.tart.running(), within=120.0)
        assert mac.clock.monotonic() - deleted >= 30.0
        await mac.eventually("nothing is left", lambda: not mac.entries() and mac.vm(uid) not in mac.tart.vms)

    simulate(scenario, seed=3)


@pytest.mark.parametrize("status", [500, *(pytest.param(each, marks=pytest.mark.slow) for each in (None, 403))])
def test_a_vm_is_never_ended_because_the_api_server_does_not_answer_about_its_pod(status) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        # The list shows nothing any more, and nobody answers whether the Pod is gone.
        world.faults.inject(
            Fail(status=status), method="GET", where=lambda call: "/namespaces/default/pods" in call.path
        )
        await mac.delete("p1", grace=0)
        await world.clock.sleep(20 * MINUTE)
        assert len(mac.tart.running()) == 1
        assert not mac.tart.ledger.stopped
        world.faults.clear()
        await mac.eventually("then it ends", lambda: not mac.tart.running(), within=120.0)

    simulate(scenario, seed=3)


def test_probes_that_fail_count_as_alive() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.tart.blind = True
        mac.tart.crash(mac.vm(uid))
        await world.clock.sleep(10 * MINUTE)
        assert await mac.phase("p1") == "Running"
        mac.tart.blind = False
        assert ended(await mac.phase_is("p1", "Failed")).reason == "VMExited"

    simulate(scenario, seed=3)


def test_a_host_that_rebooted_fails_its_pods_by_that_name_and_keeps_its_goldens() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        world.processes["agent"].crash()
        mac.tart.power_off()
        await world.clock.sleep(1.0)
        mac.tart.power_on()
        booted = mac.clock.now()
        pod = await mac.phase_is("p1", "Failed")
        state = ended(pod)
        assert pod is not None
        assert (pod.status.reason, state.reason, state.exit_code) == ("HostRebooted", "HostRebooted", 137)
        assert state.finished_at is not None
        assert abs((state.finished_at - booted).total_seconds()) <= 1
        await mac.eventually("its clone is swept", lambda: mac.vm(uid) not in mac.tart.vms)
        assert any(name.startswith("tuist-golden-") for name in mac.tart.vms)
        assert mac.tart.ledger.runs == [mac.vm(uid)], "a VM that had a job does not run again"
        await mac.pod("p2")
        await mac.is_ready("p2")

    simulate(scenario, seed=3)


def test_foreign_vms_and_pods_are_left_alone() -> None:
    async def scenario(world: World) -> None:
        from paddock.simulator.tart.machines import _Machine

        mac = NodeWorld(world)
        for name in ("builder", "pdk-mine", "tuist-golden-handmade"):
            mac.tart.vms[name] = _Machine(name, "x")
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "u", "controller": True}
        await mac.pod("daemon", metadata={"ownerReferences": [owner]}, volumes=[{"name": "v", "emptyDir": {}}])
        other = await mac.pod("elsewhere", nodeName="another-node")
        await world.clock.sleep(5 * MINUTE)
        assert {"builder", "pdk-mine", "tuist-golden-handmade"} <= set(mac.tart.vms)
        assert await mac.phase("daemon") == "Pending"
        assert await mac.phase("elsewhere") == "Pending"
        assert mac.vm(other) not in mac.tart.vms
        assert not mac.tart.ledger.runs

    simulate(scenario, seed=3)


def test_a_third_pod_is_refused_and_the_two_go_on() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        small: dict[str, Any] = {
            "containers": [{"name": "runner", "image": IMAGE, "resources": {"limits": {"cpu": "1"}}}]
        }
        for name in ("p1", "p2"):
            await mac.pod(name, **small)
            await mac.is_ready(name)
        await mac.pod("p3", **small)
        pod = await mac.phase_is("p3", "Failed")
        assert pod is not None
        assert pod.status.reason == "OutOftuist.dev/vm"
        assert "default/p1, default/p2" in pod.status.message
        assert len(mac.tart.running()) == 2

    simulate(scenario, seed=3)


def test_a_pod_waits_for_the_seat_of_a_vm_that_is_ending() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        for name in ("p1", "p2"):
            await mac.pod(name)
            await mac.is_ready(name)
        await mac.delete("p1", grace=0)
        await mac.pod("p3")
        await world.clock.sleep(10.0)
        pod = await mac.see("p3")
        assert pod is not None
        assert pod.status.phase == "Pending"
        waiting = pod.status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "VMSlotWaiting"
        await mac.is_ready("p3")
        assert len(mac.tart.running()) == 2

    simulate(scenario, seed=3)


@pytest.mark.parametrize(
    ("mishap", "reason", "within"),
    [
        (Mishap.NEVER_BOOTS, "VMStartFailed", 900.0),
        pytest.param(Mishap.NEVER_READY, "VMStartFailed", 900.0, marks=pytest.mark.slow),
        (Mishap.NO_NETWORK, "NoNetwork", 300.0),
        (Mishap.CRASHES_IN_JOB, "VMExited", 300.0),
        (Mishap.SAYS_NOTHING, "VMExited", 300.0),
    ],
)
def test_a_vm_that_goes_wrong_fails_its_pod_once_with_a_reason(mishap, reason, within) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.runner_faults.append(mishap)
        mac.dispatch.jobs.append("job-1")
        await mac.pod("p1")
        pod = await mac.phase_is("p1", "Failed", within)
        assert ended(pod).reason == reason
        assert ended(pod).exit_code != 0
        assert len(mac.tart.ledger.runs) == 1
        assert mishap is not Mishap.NO_NETWORK or mac.dispatch.jobs == ["job-1"], "the job is for another Mac"
        await mac.eventually("its clone is gone", lambda: not any(n.startswith("pdk-") for n in mac.tart.vms))

    simulate(scenario, seed=3)


def test_a_vm_that_dies_at_once_is_started_three_times_on_fresh_clones() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.runner_faults += [Mishap.DIES_AT_ONCE] * 3
        await mac.pod("p1")
        pod = await mac.phase_is("p1", "Failed")
        assert ended(pod).reason == "VMStartFailed"
        assert len(mac.tart.ledger.runs) == 3
        mac.tart.runner_faults += [Mishap.DIES_AT_ONCE] * 2
        await mac.pod("p2")
        await mac.is_ready("p2")

    simulate(scenario, seed=3)


def test_a_guest_that_ignores_the_halt_is_powered_off_after_its_grace() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.runner_faults.append(Mishap.IGNORES_HALT)
        await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.delete("p1")
        asked = mac.clock.monotonic()

        async def gone() -> bool:
            return await mac.phase("p1") == "gone"

        await mac.eventually("the Pod is gone", gone)
        assert mac.clock.monotonic() - asked >= 10.0
        assert len(mac.tart.ledger.stopped) == 1

    simulate(scenario, seed=3)


def test_a_guest_that_said_its_code_and_did_not_halt_is_powered_off_and_keeps_its_code() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.runner_faults.append(Mishap.IGNORES_HALT)
        mac.dispatch.jobs.append("job-1")
        await mac.pod("p1")
        assert ended(await mac.phase_is("p1", "Succeeded")).exit_code == 0
        assert len(mac.tart.ledger.stopped) == 1

    simulate(scenario, seed=3)


def test_a_drained_pod_succeeds_and_a_refused_one_fails_with_one() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        drained, refused = await mac.pod("p1"), await mac.pod("p2")
        mac.dispatch.drained.add(drained)
        mac.dispatch.refused.add(refused)
        first, second = await mac.phase_is("p1", "Succeeded"), await mac.phase_is("p2", "Failed")
        assert ended(first).exit_code == 0
        assert (ended(second).exit_code, ended(second).reason) == (1, "Error")
        assert "refuses the Pod (403)" in ended(second).message

    simulate(scenario, seed=3)


@pytest.mark.parametrize("jump", [600.0, -600.0])
def test_a_wall_clock_that_jumps_by_ten_minutes_ends_nothing_and_nothing_flaps(jump) -> None:
    async def scenario(world: World) -> None:
        jumping = ShiftedClock(world.clock)
        world.clock = jumping
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.eventually("it boots", lambda: bool(mac.tart.running()))
        jumping.ahead = timedelta(seconds=jump)
        await mac.is_ready("p1")
        jumping.ahead = timedelta()
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        jumping.ahead = timedelta(seconds=jump)
        await mac.phase_is("p1", "Succeeded")
        assert mac.tart.ledger.runs == [mac.vm(uid)]
        assert not mac.tart.ledger.stopped

    simulate(scenario, seed=3)


def test_no_job_is_asked_for_a_vm_that_is_to_end_while_nobody_can_tell_whether_it_lives(monkeypatch) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        # Ready a moment after its time is over.
        monkeypatch.setattr(mac.tart, "_guest_pace", GuestPace(boot=600.0, ready=20.0))
        write = mac.disk.write

        async def blinding(path: Path, content: bytes, *, mode: int = 0o600) -> None:
            await write(path, content, mode=mode)
            mac.tart.blind = mac.tart.blind or b"NeverReady" in content

        monkeypatch.setattr(mac.disk, "write", blinding)
        await mac.pod("p1")
        await mac.eventually("its time is over", lambda: mac.tart.blind, within=20 * MINUTE)
        mac.dispatch.jobs.append("job-1")
        await world.clock.sleep(5 * MINUTE)
        assert not mac.dispatch.answered, "a job was taken for a VM that is about to be powered off"
        monkeypatch.undo()
        mac.tart.blind = False
        await mac.phase_is("p1", "Failed")

    simulate(scenario, seed=3)


def test_a_pod_that_cannot_be_asked_about_keeps_no_other_from_being_cleaned_up() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uids = {name: await mac.pod(name) for name in ("p1", "p2")}
        for name in uids:
            await mac.is_ready(name)
        # One of a namespace that this identity may read no more, for example; it is the first in the journal.
        assert mac.running is not None
        silent, other = [entry.name for entry in mac.running.context.journal.entries()]
        world.faults.inject(Fail(), process=mac.writer, where=lambda call: call.path.endswith(f"/pods/{silent}"))
        for name in uids:
            await mac.delete(name, grace=0)
        await mac.eventually(f"{other} is cleaned up", lambda: uids[other] not in mac.entries(), within=120.0)
        assert mac.vm(uids[other]) not in mac.tart.vms
        await world.clock.sleep(2 * MINUTE)
        assert mac.tart.running() == [mac.vm(uids[silent])], "nobody said that this one is gone"
        world.faults.clear()
        await mac.eventually("nothing is left", lambda: not mac.entries())

    simulate(scenario, seed=3)


def test_a_pod_that_is_gone_is_not_run_again_while_the_watch_is_silent(monkeypatch) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        uid = await mac.pod("p1")
        await mac.eventually("it is known", lambda: bool(mac.tart.ledger.pulls))
        # The connection of the watch is dead, and nobody has noticed yet: to the cache the Pod is Pending.
        monkeypatch.setattr(Informer, "_publish", lambda self, changes: None)
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("its job has run", lambda: mac.finished == ["job-1"])
        await mac.delete("p1", grace=0)
        await mac.eventually("nothing is left", lambda: not mac.entries() and not mac.tart.running())
        await world.clock.sleep(3 * MINUTE)
        assert mac.tart.ledger.runs == [mac.vm(uid)], "its VM ran a second time"
        assert not mac.entries()

    simulate(scenario, seed=3)
