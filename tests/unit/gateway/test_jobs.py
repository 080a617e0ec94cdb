"""A waiting VM ends by a refusal, so that none rests on a cache, a read that failed, or too many of them."""

import asyncio

import pytest
from doubles.clocks import SteppedClock
from msgspec.structs import replace
from unit.gateway.macs import MAC, MACHINE, UID, pod
from unit.kube.fake_api import FakeApi, status
from unit.kube.things import client_of

from paddock.gateway.identities import BY_CLAIM, Identities, KubeHosts, of_claim
from paddock.gateway.jobs import JobRefusals, may_ask
from paddock.hosts.api import HostClaim, HostRelease, HostSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Pod
from paddock.kube.objects import ObjectMeta
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import Store

CLAIM = HostClaim(
    machine_namespace="ci", machine_name="mac-1", machine_uid="uid-1", key_hash=MAC.key_digits, key_number=1
)
HOST = ScalewayAppleSiliconHost(metadata=ObjectMeta(name="host-1", namespace="ci"), spec=HostSpec(claim=CLAIM))


def runner(*, fleet: str = "m4", deleted: bool = False, uid: str = UID) -> Pod:
    made = pod(uid=uid, deleted=deleted)
    return replace(
        made,
        metadata=replace(made.metadata, labels={"tuist.dev/runner-pool": "mac"}),
        spec=replace(made.spec, node_selector={"tuist.dev/fleet": fleet}),
    )


class Cache:
    def __init__(self, store: Store) -> None:
        self.synced = asyncio.Event()
        self.unreadable: dict[tuple[str, str], str] = {}
        self.reader = CachedReader(store)

    def last_event_age(self) -> float:
        return 0.0


class Rig:
    """The caches show nothing yet; the API server has these objects."""

    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), SteppedClock()
        self.client = client_of(self.api)
        fresh = FreshReader(self.client)
        identities = Identities(Cache(Store()), Cache(Store({BY_CLAIM: of_claim})), KubeHosts(fresh, "ci"), self.clock)
        self.refusals = JobRefusals(identities, fresh, self.clock)

    async def has(
        self,
        *objects: ScalewayAppleSiliconHost | ScalewayAppleSiliconMachine | Pod,
    ) -> "Rig":
        for each in objects:
            await self.client.create(each)
        return self

    async def answer(self) -> int:
        return (await self.refusals.of(replace(MAC, rights="ends"), runner())).status


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_mac_whose_machine_no_cache_shows_yet_asks_later(rig: Rig):
    await rig.has(HOST, MACHINE, runner())
    assert await rig.answer() == 503


async def test_a_mac_whose_machine_is_gone_or_another_ones_gets_no_more_jobs(rig: Rig):
    await rig.has(HOST, runner())
    assert await rig.answer() == 410
    await rig.has(replace(MACHINE, metadata=replace(MACHINE.metadata, uid="uid-2")))
    assert await rig.answer() == 410


async def test_a_pod_of_another_fleet_is_refused(rig: Rig):
    await rig.has(HOST, MACHINE, runner(fleet="m2"))
    assert await rig.answer() == 403


@pytest.mark.parametrize("kind", ["hosts", "machines", "/pods/"])
async def test_nobody_is_refused_because_the_api_server_does_not_answer(rig: Rig, kind: str):
    await rig.has(HOST, runner(fleet="m2"))
    rig.api.faults.append(lambda call: status(503, "ServiceUnavailable") if kind in call.path else None)
    assert await rig.answer() == 503


async def test_whether_a_key_is_good_and_a_pod_gone_is_learned_from_reports_alone(rig: Rig):
    await rig.has(replace(HOST, spec=replace(HOST.spec, release=HostRelease())), runner())
    assert await rig.answer() == 503
    other = await Rig().has(HOST)
    assert await other.answer() == 503


async def test_a_mac_that_asks_for_what_it_may_not_have_costs_a_bounded_number_of_reads(rig: Rig):
    await rig.has(HOST, MACHINE, runner(fleet="m2"))
    assert {await rig.answer() for _ in range(50)} == {403, 503}
    assert rig.api.count("get") <= 4 * 4


def test_a_mac_asks_for_pods_of_its_own_that_a_pool_wants_on_its_fleet():
    assert may_ask(runner(), UID, "mac-1", "m4") is None
    assert "not bound" in (may_ask(runner(), UID, "mac-2", "m4") or "")
    assert "not bound" in (may_ask(runner(uid="uid-of-a-namesake"), UID, "mac-1", "m4") or "")
    assert "being deleted" in (may_ask(runner(deleted=True), UID, "mac-1", "m4") or "")
    assert "fleet" in (may_ask(runner(), UID, "mac-1", "") or "")
    assert "no pool" in (may_ask(pod(), UID, "mac-1", "") or "")
