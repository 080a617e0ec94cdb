"""A list that comes back while hosts come and go never hides one that was there all along."""

import asyncio

import httpx2
from doubles.clocks import SteppedClock
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddock.base.rng import seeded
from paddock.clients.scaleway import IncompleteList, ScalewayClient
from paddock.simulator.cloud import InProcessTransport, SimulatedCloud

ZONE = "fr-par-1"


class Restless(httpx2.AsyncBaseTransport):
    """Lets hosts come (True) and go (False, with the index of the one that goes) after each answer."""

    def __init__(self, cloud: SimulatedCloud, clock: SteppedClock, changes: list[list[tuple[bool, int]]]) -> None:
        self._inner = InProcessTransport(cloud._front)
        self._cloud = cloud
        self._clock = clock
        self._changes = changes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        for arrives, index in self._changes.pop(0) if self._changes else []:
            self._clock.step(1)
            hosts = self._cloud.hosts()
            if arrives:
                self._cloud.add_host("new", age=0)
            elif hosts:
                self._cloud.delete_host(hosts[index % len(hosts)].id)
        return answer


changes = st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 299)), max_size=4), max_size=9)


# One comes, one goes: in the order oldest first this hides a host, and the total does not change.
SWAPS = [(True, 0), (False, 0)], [(True, 0), (False, 1)], [(True, 0), (False, 2)], [(False, 3), (True, 0)]


@settings(max_examples=15, deadline=None)
@example(count=150, changes=[SWAPS[0]])
@example(count=150, changes=[SWAPS[1]])
@example(count=150, changes=[SWAPS[2]])
@example(count=150, changes=[SWAPS[3]])
@given(count=st.sampled_from([100, 101, 150, 201]), changes=changes)
def test_a_host_that_was_there_all_along_is_in_every_list_that_is_returned(
    count: int, changes: list[list[tuple[bool, int]]]
):
    clock = SteppedClock()
    cloud = SimulatedCloud(clock, seeded(5), audit=False)
    cloud.seed_pool(count)
    before = {host.id for host in cloud.hosts()}

    async def listed() -> set[str]:
        transport = Restless(cloud, clock, changes)
        async with ScalewayClient(cloud.settings(), clock, seeded(6), transport) as client:
            return {server.id for server in await client.list_servers(ZONE)}

    try:
        seen = asyncio.run(listed())
    except IncompleteList:
        return
    assert before & {host.id for host in cloud.hosts()} <= seen
