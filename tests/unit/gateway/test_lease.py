"""Which report of a Mac counts, whichever replica it reaches, and that nobody writes from one that no longer does."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import httpx2
import pytest
from doubles.clocks import SteppedClock
from msgspec.structs import replace
from unit.kube.fake_api import AwayError, Call, FakeApi, status
from unit.kube.things import Thing, ThingSpec, client_of, thing
from unit.kube.virtual_time import virtual

from paddock.base.clock import LoopClock, parse_rfc3339
from paddock.gateway.identity import MacIdentity
from paddock.gateway.lease import LEASES, OWNER_UID, MacLeases
from paddock.gateway.report_order import REPORT, Heard, parse
from paddock.hosts.mac_key import KEY_USED
from paddock.kube.builtin import Lease
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.errors import ConflictError, KubeError

T = TypeVar("T")
MAC = MacIdentity(
    namespace="ci",
    name="mac-1",
    machine_uid="uid-1",
    host="host-1",
    key_number=1,
    key_digits="a" * 16,
    rights="all",
)
REPORT_1 = Heard(key_number=1, folder="f", life=1, word="w", sequence=1)


def report(sequence: int) -> Heard:
    return replace(REPORT_1, sequence=sequence)


class Cluster:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.clock = SteppedClock()

    def replica(self) -> MacLeases:
        return MacLeases(client_of(self.api), self.clock)

    async def lease(self) -> Lease:
        return await client_of(self.api).get(Lease, "mac-1", LEASES)

    def writes(self) -> int:
        return self.api.count("create") + self.api.count("update")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def note(leases: MacLeases, heard: Heard, mac: MacIdentity = MAC, *, proven: bool = False, node_uid: str = "n-1"):
    return await leases.note(mac, heard, proven=proven, node_uid=node_uid)


async def test_a_report_renews_the_lease_for_40_seconds_and_is_named_on_it(cluster: Cluster):
    leases = cluster.replica()
    assert await note(leases, report(1), node_uid="") == "newer"
    assert (await cluster.lease()).metadata.owner_references == ()
    cluster.clock.step(20)
    assert await note(leases, report(2)) == "newer"
    lease = await cluster.lease()
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("mac-1", 40)
    assert parse_rfc3339(lease.spec.renew_time or "") == cluster.clock.now()
    assert parse(lease.metadata.annotations[REPORT]) == report(2)
    assert lease.metadata.labels == {"tuist.dev/runtime": "tart"}
    assert [(each.kind, each.name, each.uid) for each in lease.metadata.owner_references] == [("Node", "mac-1", "n-1")]


async def test_no_lease_is_read_twice_by_a_replica_that_wrote_it_last(cluster: Cluster):
    leases = cluster.replica()
    for each in range(1, 11):
        await note(leases, report(each))
    assert cluster.api.count("get") == 1
    assert cluster.writes() == 10


async def test_an_older_report_is_dropped_and_renews_nothing(cluster: Cluster):
    leases, other = cluster.replica(), cluster.replica()
    await note(leases, report(5))
    cluster.clock.step(10)
    for replica in (leases, other):
        assert await note(replica, report(5)) == "older"
        assert await note(replica, report(4)) == "older"
    assert cluster.writes() == 1


async def test_two_agents_with_one_key_are_twins_and_the_lease_stays_the_first_ones(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(5))
    before = await cluster.lease()
    assert await note(leases, replace(report(6), word="other")) == "twin"
    assert await note(leases, replace(report(6), folder="other")) == "twin"
    assert await cluster.lease() == before


async def test_a_replica_that_kept_an_older_lease_reads_it_again(cluster: Cluster):
    slow, quick = cluster.replica(), cluster.replica()
    await note(slow, report(1))
    await note(quick, report(7))
    assert await note(slow, report(6)) == "older"
    assert await note(slow, report(8)) == "newer"
    # What a replica keeps may name a twin that has given up since: only a read says so.
    await note(quick, replace(report(1), life=2, word="x"))
    assert await note(slow, replace(report(2), life=2, word="x")) == "newer"


async def test_a_lease_that_changes_without_end_is_given_up_and_nothing_is_believed(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(1))
    cluster.api.faults.append(lambda call: status(409, "Conflict") if call.verb == "update" else None)
    with pytest.raises(ConflictError):
        await note(leases, report(2))
    assert cluster.api.count("update") == 4


async def test_a_lease_that_is_deleted_under_a_replica_is_made_anew(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(3))
    cluster.api.remove("leases.coordination.k8s.io", "mac-1", LEASES)
    assert await note(leases, report(4)) == "newer"
    assert parse((await cluster.lease()).metadata.annotations[REPORT]) == report(4)


async def test_while_the_api_server_is_away_no_report_counts(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(1))

    def away(call: Call) -> None:
        raise AwayError

    cluster.api.faults.append(away)
    for _ in range(2):
        with pytest.raises(KubeError):
            await note(leases, report(2))
    cluster.api.faults.clear()
    assert await note(leases, report(2)) == "newer"


async def test_a_key_is_named_once_the_mac_knows_that_it_is_good_and_stays_so(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(1))
    assert KEY_USED not in (await cluster.lease()).metadata.annotations
    await note(leases, report(2), proven=True)
    newer = replace(MAC, key_number=2, key_digits="b" * 16)
    await note(leases, replace(report(3), key_number=2), newer)
    assert (await cluster.lease()).metadata.annotations[KEY_USED] == "a" * 16
    await note(leases, replace(report(4), key_number=2), newer, proven=True)
    assert (await cluster.lease()).metadata.annotations[KEY_USED] == "b" * 16


async def test_a_namesake_inherits_nothing_and_waits_until_the_former_mac_is_silent(cluster: Cluster):
    leases = cluster.replica()
    await note(leases, report(90), proven=True)
    namesake = replace(MAC, machine_uid="uid-2", key_digits="c" * 16)
    assert await note(leases, report(1), namesake) == "twin"
    cluster.clock.step(timedelta(seconds=41).total_seconds())
    assert await note(leases, report(1), namesake) == "newer"
    notes = (await cluster.lease()).metadata.annotations
    assert (notes[OWNER_UID], KEY_USED in notes) == ("uid-2", False)


async def test_a_lease_of_a_node_that_is_no_mac_is_never_written(cluster: Cluster):
    theirs = {"metadata": {"name": "mac-1", "namespace": LEASES}, "spec": {"holderIdentity": "mac-1"}}
    cluster.api.put("leases.coordination.k8s.io", theirs)
    assert await note(cluster.replica(), report(1)) == "twin"
    assert cluster.writes() == 0


async def write_from(
    leases: MacLeases, name: str, heard: Heard, read: Callable[[], Awaitable[T]], write: Callable[[T], Awaitable[None]]
) -> bool:
    """As every writer of the gateway does it: the version first, then the Lease, then the write under that version."""
    found = await read()
    if not await leases.names(name, heard):
        return False
    await write(found)
    return True


async def test_nobody_writes_from_a_report_that_no_longer_counts(cluster: Cluster):
    leases, done = cluster.replica(), list[int]()

    async def read() -> int:
        await note(cluster.replica(), report(2))
        return 7

    async def write(version: int) -> None:
        done.append(version)

    await note(leases, report(1))
    assert await write_from(leases, "mac-1", report(1), read, write) is False
    assert await write_from(leases, "mac-2", report(1), read, write) is False
    assert done == []

    async def read_alone() -> int:
        return 8

    assert await write_from(leases, "mac-1", report(2), read_alone, write) is True
    assert done == [8]


class Slow(httpx2.AsyncBaseTransport):
    """Each request and each answer takes its own time."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(self._rng.random())
        answer = await self._inner.handle_async_request(request)
        await asyncio.sleep(self._rng.random())
        return answer


@pytest.mark.parametrize("seed", range(20))
@virtual
async def test_a_node_never_shows_an_older_report_after_a_newer_one(seed: int):
    api, rng, shown = FakeApi(), random.Random(seed), [0]
    clients = [Client(Config("http://fake"), Slow(api.transport(), rng)) for _ in range(3)]
    replicas = [MacLeases(each, LoopClock()) for each in clients]
    await client_of(api).create(thing("node", namespace="ns"))

    async def hear(sequence: int) -> None:
        at = rng.randrange(len(clients))
        client, leases = clients[at], replicas[at]
        await asyncio.sleep(sequence * 2.5 + rng.random() * 6)
        if await note(leases, report(sequence)) != "newer":
            return
        await asyncio.sleep(rng.random() * 3)

        async def write(found: Thing) -> None:
            stored = await client.update(replace(found, spec=ThingSpec(size=sequence)))
            shown.append(stored.spec.size)

        try:
            await write_from(leases, "mac-1", report(sequence), lambda: client.get(Thing, "node", "ns"), write)
        except ConflictError:
            return

    await asyncio.gather(*(hear(each) for each in range(1, 15)), return_exceptions=False)
    history = [obj["spec"].get("size", 0) for _, _, kind, obj in api.history if kind == "things.example.dev"]
    assert history == sorted(history)
    assert len(history) > 2
