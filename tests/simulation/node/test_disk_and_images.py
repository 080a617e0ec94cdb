"""Images, disks, sessions and hostile guests: each a condition or a reason, never a loop, never another Pod's loss."""

import asyncio
import errno
import re
from datetime import timedelta

import pytest
from prometheus_client import generate_latest
from simulation.node.node_world import DATA, IMAGE, NodeWorld

from paddock.clients.gateway.messages import REPORT
from paddock.node import goldens
from paddock.node.names import golden_name
from paddock.simulator.process import World, simulate
from paddock.simulator.tart.machines import TartPace, _Machine

OTHER = "images.test/macos:2"


def waiting(pod):
    assert pod is not None
    state = pod.status.container_statuses[0].state.waiting
    assert state is not None, pod.status
    return state


async def condition(mac: NodeWorld, kind: str):
    node = await mac.node()
    assert node is not None
    return next(each for each in node.status.conditions if each.type == kind)


@pytest.mark.parametrize("problem", ["401 Unauthorized", "404 Not Found", "connection reset", "digest does not match"])
def test_a_pull_that_fails_leaves_its_pod_pending_with_the_reason_and_the_other_seat_alone(problem) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.pull_problems[OTHER] = [problem] * 3
        await mac.pod("bad", image=OTHER)

        async def told() -> bool:
            pod = await mac.see("bad")
            statuses = pod.status.container_statuses if pod is not None else ()
            return (
                bool(statuses)
                and statuses[0].state.waiting is not None
                and (statuses[0].state.waiting.reason == "ErrImagePull")
            )

        await mac.eventually("the Pod says why", told)
        assert problem in waiting(await mac.see("bad")).message
        await mac.pod("good")
        await mac.is_ready("good", within=60.0)
        await mac.is_ready("bad", within=300.0)
        assert mac.tart.ledger.pulls.count(OTHER) == 4

    simulate(scenario, seed=5)


def test_a_pull_takes_as_long_as_it_takes_while_it_gets_on_and_its_pod_says_how_far_it_is() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart._pace = TartPace(pull=3 * 3600.0)
        await mac.pod("slow", image=OTHER)
        await world.clock.sleep(3600.0)
        said = waiting(await mac.see("slow"))
        assert said.reason == "ImagePulling"
        here, of = re.findall(r"[\d.]+(?= of at most)|[\d.]+(?= GB are here)", said.message)
        assert 18 < float(here) < 21, said.message
        assert float(of) == 60.0
        await mac.is_ready("slow", within=3 * 3600.0)
        assert mac.tart.ledger.pulls == [OTHER], "it was begun once"

    simulate(scenario, seed=5)


def test_a_pull_that_broke_off_goes_on_with_what_is_there() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart._pace = TartPace(pull=3600.0)
        mac.tart.pull_problems[OTHER] = ["breaks off"]
        began = mac.clock.monotonic()
        await mac.pod("p1", image=OTHER)
        await mac.is_ready("p1", within=7200.0)
        assert mac.clock.monotonic() - began < 3700.0, "what had arrived was given up"
        assert mac.tart.ledger.pulls == [OTHER] * 2

    simulate(scenario, seed=5)


@pytest.mark.parametrize(("after", "pulls"), [(300.0, 2), (3 * 3600.0, 1)])
def test_a_power_cut_in_its_first_hour_costs_a_golden_and_no_later_one_does(after: float, pulls: int) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        await mac.pod("p1")
        await mac.is_ready("p1")
        await world.clock.sleep(after)
        mac.tart.power_off()
        mac.tart.power_on()
        world.processes["agent"].crash()
        await mac.phase_is("p1", "Failed")
        await mac.pod("p2")
        await mac.is_ready("p2", within=180.0)
        assert len(mac.tart.ledger.pulls) == pulls

    simulate(scenario, seed=5)


def test_a_step_back_of_tart_fetches_its_goldens_anew() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        mac.tart.its_version = "2.41.1"
        await mac.pod("p1")
        await mac.is_ready("p1")
        await mac.delete("p1")
        await mac.phase_is("p1", "gone")
        mac.tart.its_version = "2.35.0"
        world.processes["agent"].crash()
        await mac.pod("p2")
        await mac.is_ready("p2", within=180.0)
        assert len(mac.tart.ledger.pulls) == 2

    simulate(scenario, seed=5)


@pytest.mark.slow
def test_a_pull_that_stands_still_ends_after_ten_minutes_and_holds_up_nobody_whose_image_is_here() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.pull_problems[OTHER] = ["stall"]
        await mac.pod("stalled", image=OTHER)
        await world.clock.sleep(30.0)
        await mac.pod("good")
        await mac.is_ready("good", within=60.0)
        assert waiting(await mac.see("stalled")).reason == "ImagePulling"
        await mac.is_ready("stalled", within=900.0)

    simulate(scenario, seed=5)


def test_a_full_disk_reclaims_what_nobody_uses_and_never_a_golden_under_a_live_vm() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        for name in ("images.test/old:1", "images.test/old:2"):
            mac.hold(name)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.host.disk_free = 20 * 10**9
        await mac.pod("p2", image=OTHER)
        await mac.eventually("the old goldens go", lambda: golden_name("images.test/old:1") not in mac.tart.vms)
        await mac.is_ready("p2", within=900.0)
        assert golden_name(IMAGE) in mac.tart.vms
        assert await mac.phase("p1") == "Running"

    simulate(scenario, seed=5)


def test_a_new_image_takes_over_while_the_old_one_goes_on_and_its_golden_stays_until_the_room_is_needed() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.duration = 120.0
        await mac.pod("old")
        await mac.is_ready("old")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        await mac.pod("new", image=OTHER)
        await mac.is_ready("new", within=120.0)
        assert mac.finished == [], "the job on the old image went on meanwhile"
        assert {golden_name(IMAGE), golden_name(OTHER)} <= set(mac.tart.vms)
        await mac.phase_is("old", "Succeeded")
        await world.clock.sleep(600.0)
        node = await mac.node()
        assert node is not None
        advertised = [key for key in node.metadata.labels if key.startswith("tuist.dev/golden-")]
        assert len(advertised) == 2, "there is room for both, and the next Pod may want either"
        mac.host.disk_free = 20 * 10**9
        await mac.eventually("the old one goes", lambda: golden_name(IMAGE) not in mac.tart.vms, within=900.0)
        assert golden_name(OTHER) in mac.tart.vms

    simulate(scenario, seed=5)


def test_a_disk_that_stays_full_is_a_condition_and_refuses_new_pods() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.host.disk_free = 10 * 10**9
        await world.clock.sleep(400.0)
        pressure = await condition(mac, "DiskPressure")
        assert pressure.status == "True"
        assert "2%" in pressure.message
        await mac.pod("p2")
        pod = await mac.phase_is("p2", "Failed")
        assert pod is not None
        assert pod.status.reason == "NodeUnderPressure"
        assert await mac.phase("p1") == "Running"
        mac.host.disk_free = 400 * 10**9
        await world.clock.sleep(400.0)
        assert (await condition(mac, "DiskPressure")).status == "False"

    simulate(scenario, seed=5)


def test_a_journal_that_cannot_be_written_starts_nothing_and_ends_nothing() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1")
        await mac.is_ready("p1")
        mac.disk.full = True
        await mac.pod("p2")
        await world.clock.sleep(120.0)
        assert len(mac.tart.ledger.runs) == 1
        assert not mac.tart.ledger.stopped
        mac.disk.full = False
        await mac.is_ready("p2", within=120.0)
        mac.dispatch.jobs += ["job-1", "job-2"]
        await mac.phase_is("p1", "Succeeded")
        await mac.phase_is("p2", "Succeeded")

    simulate(scenario, seed=5)


def test_a_hostile_status_share_harms_nobody_but_its_own_pod() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        status = DATA / "vms" / uid / "status"
        mac.disk.put(status / "state", b"ready\n" + b"x" * 10_000_000)
        mac.disk.put(status / "mark", b"9999999999999999999 running; rm -rf /\n")
        mac.disk.put(status / "rc", b"-1 0 0\n")
        mac.disk.put(status / "log", b"\x1b[2J\x00\xff" + b"a" * 5_000_000 + b"\x1b]0;owned\x07last line\n")
        pod = await mac.phase_is("p1", "Succeeded")
        assert pod is not None
        state = pod.status.container_statuses[0].state.terminated
        assert state is not None
        assert len(state.message.encode()) <= 4096
        assert not set("\x1b\x00\x07") & set(state.message)
        assert len(mac.dispatch.answered) == 1
        assert all(len(mark) < 40 for _, mark in mac.dispatch.marks)

    simulate(scenario, seed=5)


def test_a_guest_that_claims_to_be_ready_again_gets_no_second_job() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        mac.dispatch.jobs += ["job-1", "job-2"]
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        await world.clock.sleep(3.0)
        mac.disk.put(DATA / "vms" / uid / "status" / "state", b"ready\n")
        world.processes["agent"].crash()
        await mac.phase_is("p1", "Succeeded")
        assert mac.ran == ["job-1"]
        assert len(mac.dispatch.asked) == 1

    simulate(scenario, seed=5)


def test_a_share_that_cannot_be_read_ends_no_vm() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.eventually("it boots", lambda: bool(mac.tart.running()))
        mac.disk.unreadable.add(DATA / "vms" / uid / "status" / "state")
        await world.clock.sleep(1800.0)
        assert mac.tart.running() == [mac.vm(uid)]
        mac.disk.unreadable.clear()
        await mac.is_ready("p1")

    simulate(scenario, seed=5)


def test_a_lost_journal_adopts_the_vms_that_run() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("the job runs", lambda: mac.ran == ["job-1"])
        world.processes["agent"].crash()
        del mac.disk.files[DATA / "vms" / uid / "pod.json"]
        await mac.phase_is("p1", "Succeeded")
        assert mac.tart.ledger.runs == [mac.vm(uid)]
        assert mac.ran == ["job-1"]

    simulate(scenario, seed=5)


def test_an_entry_that_cannot_be_read_leaves_its_vm_alone() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid = await mac.pod("p1")
        await mac.is_ready("p1")
        world.processes["agent"].crash()
        mac.disk.put(DATA / "vms" / uid / "pod.json", b"{half")
        await world.clock.sleep(300.0)
        assert mac.tart.running() == [mac.vm(uid)]
        assert mac.tart.ledger.runs == [mac.vm(uid)]

    simulate(scenario, seed=5)


def test_a_stray_clone_is_removed_after_two_complete_lists_and_a_running_one_holds_its_seat() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        stray = mac.vm("0b46d1f5-6794-49bf-82c7-d1f841357727")
        mac.tart.vms[stray] = _Machine(stray, IMAGE)
        began = mac.clock.monotonic()
        await mac.eventually("the stray is gone", lambda: stray not in mac.tart.vms, within=120.0)
        assert mac.clock.monotonic() - began >= 30.0

    simulate(scenario, seed=5)


def test_a_lost_session_is_said_on_the_node_and_no_vm_is_tried() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.host.no_session = "no Aqua session: log the user in"
        await world.clock.sleep(15.0)
        ready = await condition(mac, "Ready")
        assert (ready.status, ready.reason) == ("False", "NoSession")
        await mac.pod("p1")
        await world.clock.sleep(60.0)
        assert waiting(await mac.see("p1")).reason == "NoSession"
        assert not mac.tart.ledger.runs
        mac.host.no_session = ""
        await mac.is_ready("p1")
        assert (await condition(mac, "Ready")).status == "True"

    simulate(scenario, seed=5)


def test_rules_for_vms_that_are_not_in_force_are_said_on_the_node_and_no_vm_is_tried() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.host.egress_open = "the packet filter's rules could not be loaded"
        await world.clock.sleep(15.0)
        ready = await condition(mac, "Ready")
        assert (ready.status, ready.reason) == ("False", "EgressOpen")
        await mac.pod("p1")
        await world.clock.sleep(60.0)
        assert waiting(await mac.see("p1")).reason == "EgressOpen"
        assert not mac.tart.ledger.runs
        mac.host.egress_open = ""
        await mac.is_ready("p1")
        assert (await condition(mac, "Ready")).status == "True"

    simulate(scenario, seed=5)


@pytest.mark.slow
def test_leaked_slots_and_a_long_uptime_are_conditions_with_a_remedy() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, long_uptime_days=0.01)
        mac.tart.leaked_slots = 2
        await mac.pod("p1")
        pod = await mac.phase_is("p1", "Failed")
        assert pod is not None
        assert pod.status.reason == "VMStartFailed"
        assert "exceeds the system limit" in pod.status.message
        await world.clock.sleep(900.0)
        for kind in ("VMSlotsLeaked", "LongUptime"):
            said = await condition(mac, kind)
            assert said.status == "True"
            assert "reboot" in said.message

    simulate(scenario, seed=5)


def test_labels_do_not_flap_when_tart_does_not_answer() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await world.clock.sleep(25.0)
        real = mac.tart.machines

        async def broken():
            from paddock.node.machines import TartError

            raise TartError("no answer")

        mac.tart.machines = broken
        await world.clock.sleep(1000.0)
        node = await mac.node()
        assert node is not None
        assert any(key.startswith("tuist.dev/golden-") for key in node.metadata.labels)
        mac.tart.machines = real

    simulate(scenario, seed=5)


@pytest.mark.slow
def test_an_idle_agent_writes_little() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        for name in ("p1", "p2"):
            await mac.pod(name)
            await mac.is_ready(name)
        await world.clock.sleep(60.0)
        before = len(world.faults.calls)
        await world.clock.sleep(600.0)
        calls = world.faults.calls[before:]
        writes = [c for c in calls if c.method in ("POST", "PUT", "PATCH", "DELETE") and c.path.startswith("/api")]
        writes = [c for c in writes if "/internal/" not in c.path]
        assert 0 < len(writes) <= 100, f"{len(writes) / 10} a minute"
        assert sum(c.path == REPORT for c in calls) <= 62, "one report for each renewal of the Lease"

    simulate(scenario, seed=5)


def test_a_golden_knows_its_image_from_its_pull_on_and_both_go_when_nobody_used_it(monkeypatch) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world, held=False)
        mac.tart._pace = TartPace(pull=400.0, clone=1.0)
        await mac.pod("p1")
        await mac.is_ready("p1", within=900.0)
        asked: list[str] = []
        real = mac.tart.delete

        async def delete(name: str) -> None:
            asked.append(name)
            await real(name)

        mac.tart.delete = delete
        await mac.delete("p1")
        await mac.phase_is("p1", "gone")
        await world.clock.sleep(2 * 3600.0)
        assert golden_name(IMAGE) not in mac.tart.vms
        assert IMAGE not in mac.tart.cache, (
            "the cached image stays, and so do the blocks that it shares with the golden"
        )
        assert "" not in asked

    monkeypatch.setattr(goldens, "KEPT_FOR", timedelta(hours=1))
    simulate(scenario, seed=5)


def test_a_golden_whose_image_nobody_remembers_is_let_go_without_it(monkeypatch) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        asked: list[str] = []
        real = mac.tart.delete

        async def delete(name: str) -> None:
            asked.append(name)
            await real(name)

        mac.tart.delete = delete
        await mac.eventually("it is let go", lambda: golden_name(IMAGE) not in mac.tart.vms, within=7200.0)
        await world.clock.sleep(600.0)
        assert asked == [golden_name(IMAGE)]

    monkeypatch.setattr(goldens, "KEPT_FOR", timedelta(hours=1))
    simulate(scenario, seed=5)


def test_an_image_that_no_pod_names_any_more_is_not_pulled_again() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.pull_problems[OTHER] = ["404 Not Found"] * 1000
        await mac.pod("bad", image=OTHER)
        await mac.eventually("it was tried", lambda: len(mac.tart.ledger.pulls) > 1)
        await mac.delete("bad")
        await mac.phase_is("bad", "gone")
        await world.clock.sleep(1.0)
        before = len(mac.tart.ledger.pulls)
        await world.clock.sleep(3600.0)
        assert len(mac.tart.ledger.pulls) == before, "pulled for nobody"
        mac.tart.pull_problems.clear()
        await mac.pod("good", image=OTHER)
        await mac.is_ready("good", within=60.0)

    simulate(scenario, seed=5)


def test_a_pod_that_has_ended_wants_no_image_any_more() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        await mac.pod("p1", image=OTHER)
        await mac.is_ready("p1", within=120.0)
        mac.dispatch.jobs.append("job-1")
        await mac.phase_is("p1", "Succeeded")
        assert mac.running is not None
        assert golden_name(OTHER) not in mac.running._images_in_use()[0]

    simulate(scenario, seed=5)


async def seats(mac: NodeWorld) -> str:
    node = await mac.node()
    assert node is not None
    return node.status.allocatable["tuist.dev/vm"]


def test_one_leaked_seat_is_offered_no_more_and_the_pod_that_found_it_waits_for_the_other() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.leaks_at_end = 1
        await mac.pod("p1")
        mac.dispatch.jobs.append("job-1")
        await mac.phase_is("p1", "Succeeded")
        await mac.pod("p2")
        await mac.is_ready("p2")
        assert await seats(mac) == "2", "nobody knows it yet"
        await mac.pod("p3")
        await world.clock.sleep(60.0)
        said = waiting(await mac.see("p3"))
        assert said.reason == "VMSlotWaiting", said
        assert "macOS 26.3 (25D125) counts 1 VM that is gone" in said.message
        assert await seats(mac) == "1"
        assert (await condition(mac, "VMSlotsLeaked")).status == "True"
        world.processes["agent"].crash()
        await world.clock.sleep(60.0)
        assert await seats(mac) == "1", "a new agent knows it, too"
        mac.dispatch.jobs.append("job-2")
        await mac.phase_is("p2", "Succeeded")
        await mac.is_ready("p3")
        mac.tart.power_off()
        mac.tart.power_on()
        world.processes["agent"].crash()
        await world.clock.sleep(60.0)
        assert await seats(mac) == "2"
        assert (await condition(mac, "VMSlotsLeaked")).status == "False"
        assert (await condition(mac, "VMSlotsLeakOften")).status == "False"

    simulate(scenario, seed=5)


def test_a_mac_that_has_lost_all_seats_offers_none_until_it_boots() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.leaked_slots = 2
        await mac.pod("p1")
        await mac.phase_is("p1", "Failed")
        await world.clock.sleep(30.0)
        assert await seats(mac) == "0"
        often = await condition(mac, "VMSlotsLeakOften")
        assert often.status == "True"
        assert "25D125" in often.message
        await mac.pod("p2")
        pod = await mac.phase_is("p2", "Failed")
        assert pod is not None
        assert pod.status.reason == "OutOftuist.dev/vm"
        assert "counts 2 VMs that are gone" in pod.status.message
        assert len(mac.tart.ledger.runs) == 3, "the first Pod's"

    simulate(scenario, seed=5)


@pytest.mark.parametrize(("leaked", "strangers", "status"), [(0, 2, "False"), (1, 1, "True")])
def test_a_vm_of_somebody_else_lives_and_is_no_leaked_slot(leaked: int, strangers: int, status: str) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.tart.leaked_slots = leaked
        for number in range(strangers):
            stranger = _Machine(f"somebody-elses-{number}", IMAGE)
            stranger.task = asyncio.get_running_loop().create_task(world.clock.sleep(86400.0))
            mac.tart.vms[stranger.name] = stranger
        await mac.pod("p1")
        pod = await mac.phase_is("p1", "Failed")
        assert pod is not None
        assert pod.status.reason == "VMStartFailed"
        await world.clock.sleep(60.0)
        said = await condition(mac, "VMSlotsLeaked")
        assert said.status == status
        assert leaked == 0 or "counts 1 VM" in said.message

    simulate(scenario, seed=5)


def test_a_share_that_cannot_be_removed_holds_up_no_pod_and_goes_when_it_can() -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        uid, other = await mac.pod("p1"), await mac.pod("p2")
        await mac.is_ready("p1")
        await mac.is_ready("p2")
        stuck = {DATA / "vms" / each / "status" for each in (uid, other)}
        real = mac.disk.remove

        async def remove(path) -> None:
            if any(each == path or path in each.parents for each in stuck):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            await real(path)

        mac.disk.remove = remove
        mac.dispatch.jobs.append("job-1")
        await mac.eventually("one has a job", lambda: bool(mac.dispatch.answered))
        done, deleted = ("p1", "p2") if mac.dispatch.answered == [uid] else ("p2", "p1")
        await mac.delete(deleted)
        await mac.phase_is(deleted, "gone")
        await mac.phase_is(done, "Succeeded")
        await world.clock.sleep(60.0)
        assert stuck <= mac.disk.folders
        shares = set(stuck)
        stuck.clear()
        await mac.eventually("the shares go", lambda: not shares & mac.disk.folders, within=120.0)
        assert mac.entries() == mac.dispatch.answered, "the entry of a Pod that is there stays"

    simulate(scenario, seed=5)


def test_an_image_that_made_room_for_a_pull_is_pulled_again_for_who_wants_it_and_not_cloned_in_vain(
    monkeypatch,
) -> None:
    async def scenario(world: World) -> None:
        mac = NodeWorld(world)
        mac.hold(OTHER)
        await world.clock.sleep(5.0)
        mac.host.disk_free = int(0.12 * mac.host.disk_total)
        monkeypatch.setattr(mac.tart, "_pace", TartPace(pull=600.0))
        await mac.pod("new", image="images.test/macos:3")
        goldens_held = {golden_name(IMAGE), golden_name(OTHER)}
        await mac.eventually("one makes room", lambda: not goldens_held <= set(mac.tart.vms))
        gone = IMAGE if golden_name(IMAGE) not in mac.tart.vms else OTHER
        await mac.pod("old", image=gone)
        await world.clock.sleep(60.0)
        assert waiting(await mac.see("old")).reason == "ImagePulling", "it waits for its pull, and says so"
        assert mac.running is not None
        text = generate_latest(mac.running.metrics.registry).decode()
        assert "paddock_node_step_failures_total{" not in text, "nothing was cloned from what is gone"
        await mac.is_ready("old", within=1800.0)

    simulate(scenario, seed=3)
