"""Election: never two at once, whatever the server does; nothing runs on after a loss."""

import asyncio
import random

import pytest
import structlog
from unit.kube.fake_api import AwayError, Call, FakeApi, status
from unit.kube.things import client_of, running, until
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock
from paddock.kube.builtin import Lease
from paddock.kube.leader import LeaderElectionConfig, LeaderElector

LEASES = "leases.coordination.k8s.io"


@pytest.fixture(autouse=True)
def quiet():
    with structlog.testing.capture_logs() as logs:
        yield logs


class Candidate:
    def __init__(self, api: FakeApi, name: str, seed: int = 1) -> None:
        self.elector = LeaderElector(
            client_of(api),
            LeaderElectionConfig(name="paddock", namespace="ns", identity=name),
            clock=LoopClock(),
            rng=random.Random(seed),
        )
        self.acting = False
        self.terms = 0
        self.slow_to_end = 0.0

    async def lead(self) -> None:
        self.acting = True
        self.terms += 1
        try:
            await asyncio.Event().wait()
        finally:
            if self.slow_to_end:
                await asyncio.sleep(self.slow_to_end)
            self.acting = False

    def run(self):
        return self.elector.run(self.lead)


def spec(api: FakeApi) -> dict:
    return api.objects[LEASES, "ns", "paddock"]["spec"]


@virtual
async def test_the_first_candidate_leads_and_the_second_waits():
    api = FakeApi()
    a, b = Candidate(api, "a"), Candidate(api, "b", 2)
    async with running(a.run(), b.run()):
        await asyncio.sleep(120)
        assert (a.acting, b.acting) in [(True, False), (False, True)]
        assert a.terms + b.terms == 1
        assert spec(api)["leaseTransitions"] == 0
        leader = a if a.acting else b
        assert 12 < leader.elector.lease_left() <= 15
        assert (b if a.acting else a).elector.lease_left() == 0


@virtual
async def test_the_notes_of_a_leader_are_on_its_lease_while_it_leads():
    api, said = FakeApi(), {"zone": ""}
    a = Candidate(api, "a")
    a.elector.notes["tuist.dev/note"] = lambda: said["zone"]

    def noted() -> dict[str, str]:
        return api.objects[LEASES, "ns", "paddock"]["metadata"].get("annotations", {})

    async with running(a.run()):
        await until(lambda: a.acting)
        assert noted() == {}
        api.objects[LEASES, "ns", "paddock"]["metadata"]["annotations"] = {"of": "a person"}
        said["zone"] = "cannot be listed"
        a.elector._lease = None  # it reads the lease anew, as after a conflict
        await until(lambda: noted() == {"of": "a person", "tuist.dev/note": "cannot be listed"})
        said["zone"] = ""
        await until(lambda: noted() == {"of": "a person"})
        said["zone"] = "cannot be listed"
        await until(lambda: "tuist.dev/note" in noted())
    assert noted() == {"of": "a person"}, "given back with the lease"


@virtual
async def test_times_in_the_lease_have_six_decimals_as_the_server_insists():
    api = FakeApi()
    a = Candidate(api, "a")
    async with running(a.run()):
        await until(lambda: a.acting)
        for key in ("acquireTime", "renewTime"):
            assert len(spec(api)[key].rpartition(".")[2]) == len("000000Z")
        assert spec(api)["leaseDurationSeconds"] == 15


@virtual
async def test_a_clean_stop_releases_the_lease_after_the_tasks_have_ended():
    api = FakeApi()
    a, b = Candidate(api, "a"), Candidate(api, "b", 2)
    a.slow_to_end = 1.0
    task = asyncio.create_task(a.run())
    await until(lambda: a.acting)
    async with running(b.run()):
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.wait([task])
        assert not a.acting
        assert spec(api)["holderIdentity"] in ("", "b")
        await until(lambda: b.acting)
        assert asyncio.get_running_loop().time() - began < 5, "a released lease need not be waited out"
        assert spec(api)["leaseTransitions"] == 1


@virtual
async def test_a_leader_that_dies_is_followed_after_the_lease_duration_and_no_sooner():
    api = FakeApi()
    a, b = Candidate(api, "a"), Candidate(api, "b", 2)
    async with running(a.run()):
        await until(lambda: a.acting)
        task = asyncio.create_task(b.run())
        await asyncio.sleep(10)
        # From here on `a` cannot write: to `b` it is dead.
        api.faults.append(lambda call: status(500, "InternalError") if _by(call, "a") else None)
        last = max(call.at for call in api.calls if _by(call, "a"))
        await until(lambda: b.acting, within=60)
        took = asyncio.get_running_loop().time() - last
        assert 15 <= took <= 25
        assert not a.acting
        task.cancel()
        await asyncio.wait([task])


def _by(call: Call, identity: str) -> bool:
    return call.verb == "update" and call.body["spec"]["holderIdentity"] == identity


@pytest.mark.slow
@virtual
async def test_two_never_act_at_once_while_the_server_fails_at_random():
    for seed in range(15):
        api = FakeApi()
        rng = random.Random(seed)
        api.latency = 0.05
        state = {"mood": "well"}

        def fault(call: Call, rng=rng, state=state):
            match state["mood"]:
                case "away":
                    raise AwayError
                case "flaky" if rng.random() < 0.5:
                    return status(500, "InternalError")
            return None

        api.faults.append(fault)
        api.hang = lambda _call, rng=rng, state=state: state["mood"] == "hangs" and rng.random() < 0.7
        candidates = [Candidate(api, name, seed * 10 + i) for i, name in enumerate("abc")]
        async with running(*(c.run() for c in candidates)):
            for _ in range(400):
                await asyncio.sleep(0.5)
                if rng.random() < 0.05:
                    state["mood"] = rng.choice(["well", "well", "away", "flaky", "hangs"])
                acting = [c for c in candidates if c.acting]
                assert len(acting) <= 1, f"seed {seed}"
                holding = [c for c in candidates if c.elector.lease_left() > 0]
                assert len(holding) <= 1, f"seed {seed}"
            state["mood"] = "well"
            await until(lambda cs=candidates: any(c.acting for c in cs), within=60)


@virtual
async def test_a_hung_request_does_not_outlive_the_renew_deadline():
    api = FakeApi()
    a = Candidate(api, "a")
    async with running(a.run()):
        await until(lambda: a.acting)
        await asyncio.sleep(20)
        hung = asyncio.get_running_loop().time()
        api.hang = lambda _call: True
        await until(lambda: not a.acting, within=60)
        assert asyncio.get_running_loop().time() - hung <= 10.1
        assert a.elector.lease_left() == 0


@virtual
async def test_on_a_loss_the_tasks_are_awaited_before_the_next_campaign():
    api = FakeApi()
    a = Candidate(api, "a")
    a.slow_to_end = 30.0
    async with running(a.run()):
        await until(lambda: a.acting)
        lease = api.objects[LEASES, "ns", "paddock"]
        api.put(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "thief"}})
        await until(lambda: a.elector.lease_left() == 0, within=10)
        before = len(api.calls)
        await asyncio.sleep(25)
        assert a.acting
        assert len(api.calls) == before
        await until(lambda: a.terms == 2, within=60)


@virtual
async def test_a_lease_that_is_deleted_is_made_again_at_once():
    api = FakeApi()
    a = Candidate(api, "a")
    async with running(a.run()):
        await until(lambda: a.acting)
        api.remove(LEASES, "paddock", "ns")
        await asyncio.sleep(3)
        assert spec(api)["holderIdentity"] == "a"
        assert a.terms == 1


@virtual
async def test_a_renewal_whose_answer_was_lost_does_not_cost_the_lease():
    api = FakeApi()
    a = Candidate(api, "a")
    original, losing = api._update, [True]

    def lose(call, *where):
        answer = original(call, *where)
        if losing and losing.pop():
            raise AwayError
        return answer

    async with running(a.run()):
        await until(lambda: a.acting)
        api._update = lose  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert a.acting
        assert a.terms == 1


@virtual
async def test_what_leads_may_end_by_itself_and_its_failure_is_not_hidden():
    api = FakeApi()
    a = Candidate(api, "a")

    async def lead():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await a.elector.run(lead)
    assert spec(api)["holderIdentity"] == ""


@virtual
async def test_a_candidate_without_rights_keeps_trying_and_says_so_once(quiet):
    api = FakeApi()
    api.faults.append(lambda _call: status(403, "Forbidden", "leases is forbidden"))
    a = Candidate(api, "a")
    async with running(a.run()):
        await asyncio.sleep(60)
        assert 20 < len(api.calls) < 40
    assert [line["event"] for line in quiet] == ["cannot campaign"]


def test_durations_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="lease_duration"):
        LeaderElectionConfig(name="x", namespace="y", identity="z", lease_duration=10, renew_deadline=10)
    assert Lease.RESOURCE.path("ns", "x") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x"
