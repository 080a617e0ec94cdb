"""Since when Macs could be heard: two replicas, an API server that is away, clocks that step."""

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from doubles.clocks import NOON, ShiftedClock, SteppedClock
from hypothesis import given
from hypothesis import strategies as st
from unit.kube.fake_api import AwayError, Call, FakeApi
from unit.kube.things import client_of, running
from unit.kube.virtual_time import virtual

from paddock.base.clock import Clock, LoopClock, rfc3339_micro
from paddock.gateway.served import EVERY, REMOVED_AFTER, Served
from paddock.hosts.api.silence import SERVED_SINCE, served_since
from paddock.kube.builtin import Lease
from paddock.kube.errors import KubeError

SECOND = timedelta(seconds=1)


class Gateways:
    """Replicas before one API server, and what the operator would read there."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.api = FakeApi()
        self.clock = clock or SteppedClock()
        self.client = client_of(self.api)

    def replica(self, name: str, clock: Clock | None = None) -> Served:
        return Served(self.client, clock or self.clock, namespace="paddock", name=name)

    async def leases(self) -> dict[str, Lease]:
        found = await self.client.list(Lease, "paddock")
        return {each.metadata.name.removeprefix("paddock-gateway-"): each for each in found.items}

    async def since(self) -> datetime | None:
        return served_since((await self.leases()).values(), self.clock.now())

    def away(self, *, away: bool = True) -> None:
        def fault(call: Call) -> None:
            raise AwayError

        self.api.faults[:] = [fault] if away else []


async def serve(served: Served, clock: SteppedClock, seconds: int, *, every: int = 10) -> None:
    """Requests from outside come through for so long."""
    for _ in range(seconds // every):
        served.request_came()
        await served.renew()
        clock.step(every)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def gateways(clock: SteppedClock) -> Gateways:
    return Gateways(clock)


async def test_there_is_no_lease_without_a_request_from_outside(gateways: Gateways, clock: SteppedClock):
    served = gateways.replica("a")
    for _ in range(10):
        await served.renew()
        clock.step(10)
    assert await gateways.leases() == {}
    assert gateways.api.calls[:-1] == []


async def test_who_serves_without_a_gap_says_since_when(gateways: Gateways, clock: SteppedClock):
    await serve(gateways.replica("a"), clock, 3600)
    assert await gateways.since() == NOON


async def test_a_request_is_claimed_once_and_the_lease_dies_a_minute_after_the_last(
    gateways: Gateways, clock: SteppedClock
):
    served = gateways.replica("a")
    served.request_came()
    for _ in range(7):
        assert await gateways.since() == (NOON if clock.now() > NOON else None)
        await served.renew()
        clock.step(10)
    assert await gateways.since() is None
    assert gateways.api.count("create") + gateways.api.count("update") == 1


@pytest.mark.parametrize(("gap", "goes_on"), [(60, True), (61, False)])
async def test_a_gap_of_more_than_a_minute_begins_anew(
    gateways: Gateways, clock: SteppedClock, gap: int, goes_on: bool
):
    served = gateways.replica("a")
    served.request_came()
    await served.renew()
    clock.step(gap)
    served.request_came()
    await served.renew()
    assert await gateways.since() == (NOON if goes_on else NOON + gap * SECOND)


async def test_a_new_replica_inherits_from_one_that_lives_and_from_none_that_died(
    gateways: Gateways, clock: SteppedClock
):
    first, second, third = (gateways.replica(name) for name in "abc")
    await serve(first, clock, 600)
    await serve(second, clock, 600)
    assert await gateways.since() == NOON
    clock.step(60)
    began = clock.now()
    await serve(third, clock, 10)
    assert await gateways.since() == began


async def test_a_replica_that_begins_again_under_its_name_goes_on(gateways: Gateways, clock: SteppedClock):
    await serve(gateways.replica("a"), clock, 300)
    clock.step(40)
    await serve(gateways.replica("a"), clock, 300)
    assert await gateways.since() == NOON


async def test_one_of_two_replicas_that_gets_no_requests_claims_nothing(gateways: Gateways, clock: SteppedClock):
    busy, idle = gateways.replica("a"), gateways.replica("b")
    for _ in range(30):
        busy.request_came()
        await busy.renew()
        await idle.renew()
        clock.step(10)
    assert set(await gateways.leases()) == {"a"}


async def test_after_an_outage_of_the_api_server_the_time_begins_anew(gateways: Gateways, clock: SteppedClock):
    """What a Mac said meanwhile nobody could note, so nobody was silent for it."""
    served = gateways.replica("a")
    await serve(served, clock, 600)
    gateways.away()
    for _ in range(30):
        served.request_came()
        with pytest.raises(KubeError):
            await served.renew()
        clock.step(10)
    gateways.away(away=False)
    began = clock.now()
    await serve(served, clock, 100)
    assert await gateways.since() == began


async def test_a_replica_that_alone_was_cut_off_takes_over_what_the_other_has_seen(
    gateways: Gateways, clock: SteppedClock
):
    alone, other = gateways.replica("a"), gateways.replica("b")
    await serve(alone, clock, 600)
    await serve(other, clock, 600)  # `alone` reaches nobody meanwhile
    await serve(alone, clock, 600)
    assert await gateways.since() == NOON


async def test_a_clock_that_stepped_ahead_makes_nobody_silent_before_its_time(gateways: Gateways, clock: SteppedClock):
    wrong = ShiftedClock(clock)
    await serve(gateways.replica("a"), clock, 600)
    wrong.ahead = timedelta(hours=2)
    ahead = gateways.replica("b", wrong)
    await serve(ahead, clock, 600)
    # It inherits nothing, and for whom its Lease lies in the future it proves nothing, alive or dead.
    assert await gateways.since() is None
    clock.step(1800)
    assert await gateways.since() is None


async def test_a_clock_that_steps_back_claims_no_more_than_before(gateways: Gateways, clock: SteppedClock):
    wrong = ShiftedClock(clock)
    served = gateways.replica("a", wrong)
    await serve(served, clock, 600)
    wrong.ahead = -timedelta(hours=1)
    await serve(served, clock, 600)
    assert await gateways.since() is None
    wrong.ahead = timedelta()
    began = clock.now()
    await serve(served, clock, 600)
    assert await gateways.since() == began


async def test_two_processes_with_one_name_harm_nobody(gateways: Gateways, clock: SteppedClock):
    """A conflict is no error: what the other one wrote is as true."""
    one, two = gateways.replica("a"), gateways.replica("a")
    one.request_came()
    two.request_came()
    await asyncio.gather(one.renew(), two.renew())
    assert await gateways.since() == NOON


# What replicas that are gone leave behind


async def test_the_lease_of_a_dead_replica_is_removed_after_an_hour_and_a_living_ones_never(
    gateways: Gateways, clock: SteppedClock
):
    dead, living, watching = (gateways.replica(name) for name in ("dead", "living", "watching"))
    await serve(dead, clock, 60)
    for _ in range(int(REMOVED_AFTER / EVERY) + 1):
        assert "dead" in await gateways.leases()
        for each in (living, watching):
            each.request_came()
            await each.renew()
        clock.step(EVERY)
    assert set(await gateways.leases()) == {"living", "watching"}
    # If it was not dead after all, it makes another.
    await serve(dead, clock, 10)
    assert set(await gateways.leases()) == {"living", "watching", "dead"}


async def test_what_is_removed_is_what_was_watched(gateways: Gateways, clock: SteppedClock):
    late, watching = gateways.replica("late"), gateways.replica("watching")
    await serve(late, clock, 10)
    await serve(watching, clock, int(REMOVED_AFTER))

    def renewed_meanwhile(call: Call) -> None:
        if call.verb == "delete":
            lease = gateways.api.objects["leases.coordination.k8s.io", "paddock", "paddock-gateway-late"]
            gateways.api.put("leases.coordination.k8s.io", dict(lease, metadata=dict(lease["metadata"])))

    gateways.api.faults.append(renewed_meanwhile)
    await serve(watching, clock, 20)
    assert gateways.api.count("delete") == 1
    assert "late" in await gateways.leases()


async def test_no_lease_of_somebody_else_is_removed_or_counted(gateways: Gateways, clock: SteppedClock):
    for name in ("paddock-operator", "paddock-gateway-by-hand"):
        meta = {
            "name": name,
            "namespace": "paddock",
            "annotations": {SERVED_SINCE: rfc3339_micro(NOON - timedelta(days=9))},
        }
        gateways.api.put("leases.coordination.k8s.io", {"metadata": meta, "spec": {}})
    await serve(gateways.replica("a"), clock, int(REMOVED_AFTER) + 100)
    assert len(await gateways.leases()) == 3
    assert await gateways.since() == NOON


# Any order of things


@virtual
async def test_two_replicas_hand_over_through_a_rolling_restart():
    gateways = Gateways(LoopClock())
    began = gateways.clock.now()

    async def run(name: str, begin: float, end: float) -> None:
        await asyncio.sleep(begin)
        served = gateways.replica(name)
        while asyncio.get_running_loop().time() < end:
            served.request_came()
            await served.renew()
            await asyncio.sleep(EVERY)

    async with running(run("a", 0, 300), run("b", 100, 500), run("c", 480, 900), run("d", 500, 900)):
        await asyncio.sleep(895)
        assert await gateways.since() == began


_STEP = st.tuples(st.integers(0, 45), st.sampled_from("ab"), st.sampled_from(["request", "renew", "fail", "restart"]))


@given(st.lists(_STEP, max_size=60))
def test_what_is_claimed_was_served_without_a_gap_of_a_minute(steps: list[tuple[int, str, str]]):
    async def play() -> None:
        clock = SteppedClock()
        gateways = Gateways(clock)
        replicas = {name: gateways.replica(name) for name in "ab"}
        heard: dict[str, datetime] = {}
        noted: list[datetime] = []
        for seconds, name, what in steps:
            clock.step(seconds)
            if what == "request":
                replicas[name].request_came()
                heard[name] = clock.now()
            elif what == "restart":
                replicas[name] = gateways.replica(name)
                heard.pop(name, None)
            elif what == "renew":
                await replicas[name].renew()
                if name in heard:
                    noted.append(heard.pop(name))
            elif name in heard:
                gateways.away()
                with pytest.raises(KubeError):
                    await replicas[name].renew()
                gateways.away(away=False)
            since = await gateways.since()
            if since is None:
                continue
            chain = sorted(each for each in noted if each >= since)
            assert chain[0] == since
            assert all(after - before <= 60 * SECOND for before, after in pairwise(chain))
            assert clock.now() - chain[-1] <= 60 * SECOND

    asyncio.run(play())
