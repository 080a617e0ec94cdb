"""What a Mac is answered about Pods: nothing destructive follows from a cache, a failed read, or a ledger that is away."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import pytest
from doubles.clocks import NOON, SteppedClock
from msgspec.structs import replace
from unit.gateway.macs import CLUSTER, POD, UID, accepted, pod
from unit.kube.fake_api import FakeApi, status
from unit.kube.things import client_of
from unit.kube.virtual_time import virtual

from paddock.clients.gateway.messages import PodReport, PodState
from paddock.gateway.answers import Answers, version_of
from paddock.gateway.bound_pods import BY_NODE, BoundPods, of_node
from paddock.gateway.identities import SILENT_AFTER
from paddock.kube.builtin import Pod
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.store import Store

HANDED = replace(POD, state=PodState.HANDED, handed_at=NOON)
COLLECTION = "pods"


class Cache:
    def __init__(self) -> None:
        self.store: Store[Pod] = Store({BY_NODE: of_node})
        self.synced = asyncio.Event()
        self.synced.set()
        self.unreadable: dict[tuple[str, str], str] = {}
        self.reader = CachedReader(self.store)
        self.age = 0.0

    def last_event_age(self) -> float:
        return self.age


class Rig:
    def __init__(self) -> None:
        self.api, self.cache, self.clock = FakeApi(), Cache(), SteppedClock()
        self.work: dict[str, Literal["running", "none"]] | None = {}
        self.answers = Answers(
            BoundPods(self.cache),
            FreshReader(client_of(self.api)),
            self,
            self.clock,
            cluster=CLUSTER,
            authorities=lambda: ("PEM",),
        )

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        if self.work is None:
            raise ConnectionError("no ledger")
        return {uid: self.work[uid] for uid in uids if uid in self.work}

    async def absent(self, report: PodReport, uid: str = UID) -> str | None:
        return (await self.answers.of("mac-1", accepted({uid: report}))).absent.get(uid)

    def there(self, uid: str = UID) -> None:
        self.api.put(COLLECTION, {"metadata": {"name": "p1", "namespace": "runners", "uid": uid}})


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_the_answer_has_every_pod_that_is_bound_to_the_mac_and_says_that_it_is_everything(rig: Rig):
    for each in (pod(), pod("p2", "uid-2", node="mac-2")):
        rig.cache.store.put(each)
    answer = await rig.answers.of("mac-1", accepted({UID: POD}))
    assert [each.uid for each in answer.pods] == [UID]
    assert (answer.complete, answer.cluster, answer.authorities) == (True, CLUSTER, ("PEM",))
    assert answer.version == version_of(answer.pods)
    assert answer.absent == {}
    rig.cache.store.put(pod(deleted=True))
    assert version_of(rig.answers.wanted("mac-1")) != answer.version


async def test_a_watch_that_has_fallen_silent_or_has_not_begun_is_no_complete_answer(rig: Rig):
    rig.cache.age = SILENT_AFTER
    assert not (await rig.answers.of("mac-1", accepted())).complete
    rig.cache.age = 0.0
    rig.cache.synced.clear()
    assert not (await rig.answers.of("mac-1", accepted())).complete


async def test_an_idle_pod_is_gone_where_a_fresh_read_has_none_or_its_namesake_alone(rig: Rig):
    assert await rig.absent(POD) == "gone"
    rig.there("uid-of-a-namesake")
    assert await rig.absent(POD) == "gone"


async def test_what_only_the_cache_misses_is_not_gone(rig: Rig):
    rig.there()
    assert await rig.absent(POD) == "unknown"


@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
async def test_no_pod_is_gone_because_the_api_server_does_not_answer(rig: Rig, code: int):
    rig.api.faults.append(lambda call: status(code, "Away") if call.verb == "get" else None)
    assert await rig.absent(POD) == "unknown"


@pytest.mark.parametrize(
    ("work", "answer"), [({UID: "none"}, "gone"), ({UID: "running"}, "unknown"), ({}, "unknown"), (None, "unknown")]
)
async def test_a_vm_that_was_handed_a_job_is_gone_only_with_the_ledgers_word(
    rig: Rig, work: dict[str, Literal["running", "none"]] | None, answer: str
):
    rig.work = work
    assert await rig.absent(HANDED) == answer
    assert await rig.absent(replace(HANDED, state=PodState.READY)) == answer, "its hand-over is what counts"
    assert await rig.absent(replace(POD, state=PodState.UNREADABLE)) == answer


async def test_of_a_job_that_another_cluster_handed_over_nothing_is_known_here(rig: Rig):
    rig.work = {UID: "none"}
    assert await rig.absent(replace(HANDED, cluster="cluster-0")) == "unknown"
    assert await rig.absent(replace(HANDED, cluster="")) == "unknown"
    assert await rig.absent(replace(POD, cluster="cluster-0")) == "gone", "an idle one can get no job any more"


async def test_what_has_ended_needs_no_word_of_the_ledger(rig: Rig):
    rig.work = None
    assert await rig.absent(replace(HANDED, state=PodState.ENDED)) == "gone"


async def test_of_an_entry_without_a_name_nobody_knows_whose_it_is(rig: Rig):
    rig.work = {UID: "none"}
    assert await rig.absent(PodReport(state=PodState.UNREADABLE, namespace="", name="")) == "unknown"


@virtual
async def test_pods_that_nobody_answers_about_cost_one_wait_and_not_one_each():
    rig = Rig()
    rig.api.hang = lambda call: call.verb == "get"
    many = {f"0c1d2e3f-0000-4000-8000-{number:012}": replace(POD, name=f"p{number}") for number in range(8)}
    began = asyncio.get_running_loop().time()
    answer = await rig.answers.of("mac-1", accepted(many))
    assert set(answer.absent.values()) == {"unknown"}
    assert asyncio.get_running_loop().time() - began <= 5.0


async def test_a_mac_that_names_pods_without_end_costs_a_bounded_number_of_reads(rig: Rig):
    many = {f"0c1d2e3f-0000-4000-8000-{number:012}": replace(POD, name=f"p{number}") for number in range(64)}
    absent = (await rig.answers.of("mac-1", accepted(many))).absent
    assert sorted(set(absent.values())) == ["gone", "unknown"]
    assert rig.api.count("get") <= 16
