"""Whose request it is, from caches that lag, fall silent or miss a key, and from an API server that may be away."""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
import structlog
from doubles.clocks import SteppedClock
from msgspec.structs import replace

from paddock.gateway.identities import BY_CLAIM, SILENT_AFTER, Followed, Identities, of_claim
from paddock.gateway.identity import MacIdentity
from paddock.gateway.refusals import Later, Refused
from paddock.hosts.api import HostClaim, HostRelease, HostSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.errors import TransportError
from paddock.kube.informer import Informer
from paddock.kube.objects import ObjectMeta
from paddock.kube.reader import CachedReader
from paddock.kube.store import Store

KEY, NEXT, WRONG = "k" * 43, "n" * 43, "w" * 43


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def bearer(name: str = "mac-1", key: str = KEY) -> str:
    return f"Bearer ci/{name}:{key}"


def host(name: str = "mac-1", *, key: str = KEY, next_key: str = "", uid: str = "", released: bool = False):
    claim = HostClaim(
        machine_namespace="ci",
        machine_name=name,
        machine_uid=uid or f"uid-{name}",
        key_hash=digest(key),
        key_number=1,
        next_key_hash=digest(next_key) if next_key else "",
        next_key_number=2 if next_key else 0,
    )
    return ScalewayAppleSiliconHost(
        metadata=ObjectMeta(name=f"host-of-{name}", namespace="paddock"),
        spec=HostSpec(claim=claim, release=HostRelease() if released else None),
    )


def machine(name: str = "mac-1", *, deleted: bool = False) -> ScalewayAppleSiliconMachine:
    meta = ObjectMeta(
        name=name,
        namespace="ci",
        uid=f"uid-{name}",
        deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC) if deleted else None,
    )
    return ScalewayAppleSiliconMachine(metadata=meta)


class Cache:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.synced = asyncio.Event()
        self.synced.set()
        self.unreadable: dict[tuple[str, str], str] = {}
        self.reader = CachedReader(store)
        self.age = 0.0

    def last_event_age(self) -> float:
        return self.age


def _fits(informer: Informer[ScalewayAppleSiliconMachine]) -> Followed[ScalewayAppleSiliconMachine]:
    return informer


class Server:
    """The API server: what it holds now, and what it was asked."""

    def __init__(self) -> None:
        self.machines: dict[str, ScalewayAppleSiliconMachine] = {}
        self.all_hosts: dict[str, ScalewayAppleSiliconHost] = {}
        self.away = False
        self.asked: list[str] = []

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            raise TransportError("away")

    async def machine(self, namespace: str, name: str) -> ScalewayAppleSiliconMachine | None:
        self._ask("machine")
        return self.machines.get(name)

    async def host(self, namespace: str, name: str) -> ScalewayAppleSiliconHost | None:
        self._ask("host")
        return self.all_hosts.get(name)

    async def hosts(self) -> Sequence[ScalewayAppleSiliconHost]:
        self._ask("hosts")
        return list(self.all_hosts.values())


class Gateway:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.server = Server()
        self.machines = Cache(Store())
        self.hosts = Cache(Store({BY_CLAIM: of_claim}))
        self.identities = Identities(self.machines, self.hosts, self.server, self.clock)
        self.has(machine(), host())

    def has(self, *objects: ScalewayAppleSiliconMachine | ScalewayAppleSiliconHost, cached: bool = True) -> None:
        for each in objects:
            if isinstance(each, ScalewayAppleSiliconMachine):
                self.server.machines[each.metadata.name] = each
                if cached:
                    self.machines.store.put(each)
            else:
                self.server.all_hosts[each.metadata.name] = each
                if cached:
                    self.hosts.store.put(each)

    async def of(self, name: str = "mac-1", key: str = KEY, *, fresh: bool = False) -> MacIdentity | Refused | Later:
        return await self.identities.of(bearer(name, key), fresh=fresh)


def good(found: MacIdentity | Refused | Later) -> MacIdentity:
    assert isinstance(found, MacIdentity), found
    return found


def status(found: MacIdentity | Refused | Later) -> int:
    return 200 if isinstance(found, MacIdentity) else found.status


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


async def test_a_mac_that_the_caches_know_is_recognised_without_a_read(gateway: Gateway):
    found = good(await gateway.of())
    assert (found.name, found.rights, found.leaving, found.key_digits) == ("mac-1", "all", False, digest(KEY)[:16])
    assert gateway.server.asked == []


async def test_a_key_counts_while_its_claim_stands_and_no_release_is_recorded(gateway: Gateway):
    assert status(await gateway.of(fresh=True)) == 200
    gateway.has(host(released=True), cached=False)
    assert status(await gateway.of(fresh=True)) == 401
    gateway.has(host(released=True))
    assert status(await gateway.of()) == 401
    gateway.has(replace(host(), spec=HostSpec()))
    assert status(await gateway.of()) == 401


async def test_the_record_of_a_release_is_the_revocation_whatever_the_cache_still_shows(gateway: Gateway):
    gateway.has(host(released=True), cached=False)
    assert status(await gateway.of(fresh=True)) == 401


async def test_no_mac_that_was_answered_is_locked_out_by_a_key_that_is_made_late_lost_or_half_way(gateway: Gateway):
    # The claim has the new key, and the caches do not yet: either key counts.
    gateway.has(host(next_key=NEXT), cached=False)
    assert good(await gateway.of(key=NEXT)).key_number == 2
    assert good(await gateway.of()).key_number == 1
    gateway.has(host(next_key=NEXT))
    assert good(await gateway.of(key=NEXT)).key_number == 2
    assert good(await gateway.of()).key_number == 1


async def test_a_refusal_rests_on_a_complete_fresh_read(gateway: Gateway):
    assert status(await gateway.of(key=WRONG)) == 401
    assert gateway.server.asked == ["hosts", "machine"]


async def test_where_no_fresh_read_was_made_nobody_is_refused(gateway: Gateway):
    gateway.server.away = True
    found = await gateway.of(key=WRONG)
    assert isinstance(found, Later)
    assert (found.status, found.retry_after) == (503, 5.0)
    assert status(await gateway.of(fresh=True)) == 503
    assert status(await gateway.of()) == 200  # the caches are good for another minute


async def test_nobody_who_knows_a_name_can_shut_its_mac_out(gateway: Gateway):
    answers = [status(await gateway.of(key=WRONG)) for _ in range(1000)]
    assert answers == [401] * 3 + [503] * 997
    for _ in range(1000):
        assert status(await gateway.of()) == 200
        assert status(await gateway.of(fresh=True)) == 200
    # Nor while the caches say nothing: a key that they match is looked up each time.
    gateway.hosts.age = SILENT_AFTER + 1
    assert status(await gateway.of()) == 200
    assert len(gateway.server.asked) < 5 * 1000


async def test_invented_names_use_up_no_macs_fresh_reads(gateway: Gateway):
    answers = [status(await gateway.of(f"mac-{each}", WRONG)) for each in range(100, 1100)]
    assert answers == [401] * 5 + [503] * 995
    gateway.has(host(next_key=NEXT), cached=False)
    assert status(await gateway.of(key=NEXT)) == 200


async def test_who_was_not_looked_up_is_looked_up_later(gateway: Gateway):
    answers = [await gateway.of(key=WRONG) for _ in range(4)]
    last = answers[-1]
    assert isinstance(last, Later)
    gateway.clock.step(last.retry_after)
    assert status(await gateway.of(key=WRONG)) == 401


async def test_a_mac_that_the_caches_do_not_know_yet_is_found_afresh(gateway: Gateway):
    gateway.has(machine("mac-2"), host("mac-2"), cached=False)
    assert good(await gateway.of("mac-2")).host == "host-of-mac-2"


@pytest.mark.parametrize("kind", ["machines", "hosts"])
async def test_a_cache_without_event_or_bookmark_for_90_s_counts_as_none(gateway: Gateway, kind: str):
    cache = gateway.machines if kind == "machines" else gateway.hosts
    cache.age = SILENT_AFTER
    assert status(await gateway.of()) == 200
    assert gateway.server.asked == []
    cache.age = SILENT_AFTER + 0.1
    assert status(await gateway.of()) == 200
    assert gateway.server.asked == ["host", "machine"]
    gateway.server.away = True
    assert status(await gateway.of()) == 503


async def test_a_cache_that_was_never_read_counts_as_none(gateway: Gateway):
    gateway.hosts.synced.clear()
    gateway.server.away = True
    assert status(await gateway.of()) == 503


async def test_a_host_that_no_longer_decodes_may_have_a_release_and_is_read_afresh(gateway: Gateway):
    gateway.hosts.unreadable["paddock", "host-of-mac-1"] = "a field is wrong"
    gateway.has(host(released=True), cached=False)
    assert status(await gateway.of()) == 401


async def test_a_claim_whose_machine_is_gone_counts_for_how_its_pods_end_alone(gateway: Gateway):
    del gateway.server.machines["mac-1"]
    assert good(await gateway.of(fresh=True)).rights == "ends"
    gateway.machines.store.remove(("ci", "mac-1"))
    assert good(await gateway.of()).rights == "ends"


async def test_a_machine_that_is_being_deleted_is_leaving_in_the_fresh_read_at_once(gateway: Gateway):
    gateway.has(machine(deleted=True), cached=False)
    assert good(await gateway.of()).leaving is False
    assert good(await gateway.of(fresh=True)).leaving is True


async def test_a_machine_that_was_claimed_anew_is_found_at_its_new_host(gateway: Gateway):
    moved = host(key=KEY)
    del gateway.server.all_hosts["host-of-mac-1"]
    gateway.server.all_hosts["host-9"] = replace(moved, metadata=replace(moved.metadata, name="host-9"))
    assert good(await gateway.of(fresh=True)).host == "host-9"


@pytest.mark.parametrize("shown", ["", "Bearer x", f"Basic {KEY}", f"Bearer ci/mac-1:{KEY} "])
async def test_what_shows_no_key_is_refused_without_a_read(gateway: Gateway, shown: str):
    assert status(await gateway.identities.of(shown)) == 401
    assert gateway.server.asked == []


async def test_neither_key_nor_hash_reach_answers_or_logs(gateway: Gateway):
    with structlog.testing.capture_logs() as logs:
        answers = [await gateway.of(key=WRONG), await gateway.of("mac-7", WRONG), await gateway.of()]
        gateway.server.away = True
        answers += [await gateway.of(key=WRONG) for _ in range(5)]
    shown = repr(answers) + repr(logs)
    assert WRONG not in shown
    assert KEY not in shown
    assert digest(KEY) not in shown
    assert "mac-7" not in shown
