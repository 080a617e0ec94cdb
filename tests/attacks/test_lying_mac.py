"""A Mac is somebody else's from its first job on: what it sends to the gateway spoils its own jobs at most.

Each test is root on `mac-1`, with its key, and tries to reach past it.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator

import httpx2
import msgspec
import pytest
from integration.gateway.rig import HOSTS, NAMESPACE, FakeMac, Rig, a_rig, key_of, until
from msgspec.structs import replace

from paddock.clients.gateway.messages import REPORT, End, Event, PodReport, PodState, Stated
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.kube.builtin import Lease, Node, Pod

FUTURE = "9999-12-31T23:59:59Z"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with a_rig() as made:
        yield made


async def raw(mac: FakeMac, body: bytes, **headers: str) -> httpx2.Response:
    return await mac.rig.http[0].post(REPORT, content=body, headers={**mac.headers, **headers})


async def written(rig: Rig, node: str = "mac-1") -> Node:
    """The Node, once everything that was reported is written."""
    await until(lambda: rig.node(node))
    gateway = rig.gateways[0]
    await until(lambda: gateway.writing.idle(node))
    found = await rig.node(node)
    assert found is not None
    return found


async def test_no_size_depth_number_or_moment_reaches_the_cluster_or_stops_the_gateway(rig: Rig):
    mac = await rig.machine("mac-1")
    good = json.loads(msgspec.json.encode(mac.body()))
    hostile = [
        b"",
        b"[" * 60_000,
        b'{"pods":' * 8_000,
        b"\xff\xfe",
        b'{"life":' + b"9" * 60_000 + b"}",
        json.dumps(good | {"life": 10**400}).encode(),
        json.dumps(good | {"sequence": -1}).encode(),
        json.dumps(good | {"folder": "../../etc"}).encode(),
        json.dumps(good | {"mac": good["mac"] | {"booted_at": "0001-01-01T00:00:00+23:59"}}).encode(),
        json.dumps(good | {"mac": good["mac"] | {"clock": FUTURE, "cpus": 10**30}}).encode(),
        json.dumps(good | {"x" * 60_000: 1}).encode(),
    ]
    for body in hostile:
        assert (await raw(mac, body)).status_code in (200, 400, 409)
    assert (await raw(mac, b"x" * 65_537)).status_code == 413
    await mac.report()
    node = await written(rig)
    assert int(node.status.capacity["cpu"]) <= 1024


async def test_moments_of_the_future_and_endless_texts_are_bounded_in_what_is_written(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    said = {
        "state": "ended",
        "namespace": NAMESPACE,
        "name": "runner-1",
        "accepted_at": "0001-01-01T00:00:00Z",
        "running_at": FUTURE,
        "end": {
            "succeeded": False,
            "code": 10**9,
            "reason": "x" * 9999,
            "finished_at": FUTURE,
            "message": "\u202e" * 9999,
        },
    }
    body = json.loads(msgspec.json.encode(mac.body()))
    body["conditions"] = {"Ready": {"holds": True, "reason": "A" * 9999, "message": "\x1b[2J" * 9999}}
    answer = await raw(mac, json.dumps(body | {"pods": {pod.metadata.uid: said}}).encode())
    assert answer.status_code == 413, "it is larger than any report"
    body["conditions"]["Ready"]["message"] = "\x1b[2J" * 99
    said["end"]["message"] = "\u202e" * 999
    assert (await raw(mac, json.dumps(body | {"pods": {pod.metadata.uid: said}}).encode())).status_code == 200
    await until(lambda: failed(rig, pod))
    seen = await rig.client.get(Pod.RESOURCE, "runner-1", NAMESPACE)
    ended = seen["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["finishedAt"] < "2100"
    assert "\u202e" not in ended["message"]
    node = await written(rig)
    assert all("\x1b" not in each.message and len(each.message) <= 1024 for each in node.status.conditions)


async def failed(rig: Rig, pod: Pod) -> bool:
    seen = await rig.seen(pod)
    return seen is not None and seen.status.phase == "Failed"


async def test_it_chooses_neither_fleet_nor_name_nor_taints_nor_labels_nor_more_seats(rig: Rig):
    mac = await rig.machine("mac-1")
    mac.facts = replace(
        mac.facts, seats=99, cpus=9_999, goldens=("0" * 16, "a/b", "x" * 64, "zz"), hostname="mac-2", address="kube-dns"
    )
    body = json.loads(msgspec.json.encode(mac.body()))
    body |= {"labels": {"tuist.dev/fleet": "gold"}, "taints": [], "name": "mac-2", "node": "mac-2", "spec": {"x": 1}}
    assert (await raw(mac, json.dumps(body).encode())).status_code == 200
    node = await written(rig)
    assert node.metadata.labels["tuist.dev/fleet"] == "m4"
    assert {key for key in node.metadata.labels if key.startswith("tuist.dev/golden-")} == {
        "tuist.dev/golden-" + "0" * 16
    }
    assert node.status.capacity["tuist.dev/vm"] == "2"
    assert await rig.node("mac-2") is None


async def test_made_up_conditions_and_events_are_left_out_or_renamed(rig: Rig):
    mac = await rig.machine("mac-1")
    await mac.report()
    await written(rig)
    mac.conditions |= {
        "OtherClusterVMs": Stated(False, "NoJob", "nothing runs here"),
        "NetworkUnavailable": Stated(False, "Fine", "believe me"),
    }
    job = PodReport(state=PodState.HANDED, namespace="other", name="a-job", vm="pdk-x")
    report = mac.body({"uid-of-a-job": job})
    event = Event("Drained", "the operator drained this Node", rig.clock.now())
    await mac.send(replace(report, events=(event,) * 500))
    await until(lambda: has_job(rig))
    node = await written(rig)
    assert "NetworkUnavailable" not in {each.type for each in node.status.conditions}


async def has_job(rig: Rig) -> bool:
    node = await rig.node("mac-1")
    return node is not None and any(
        each.type == "OtherClusterVMs" and each.reason == "OneJob" for each in node.status.conditions
    )


async def test_another_macs_pods_jobs_and_logs_are_out_of_reach(rig: Rig):
    mac, other = await rig.machine("mac-1"), await rig.machine("mac-2")
    await other.report()
    theirs = await rig.pod("runner-2", "mac-2")
    uid = theirs.metadata.uid
    rig.dispatch.working = {}
    end = End(False, 1, "Error", rig.clock.now())
    for state in PodState:
        await mac.report({uid: PodReport(state=state, namespace=NAMESPACE, name="runner-2", end=end)})
    assert (await mac.job(uid)).json()["error"] == "unbound"
    assert (await mac.log(uid, 0, b"lies")).status_code == 404
    await written(rig)
    seen = await rig.seen(theirs)
    assert seen is not None
    assert seen.status.phase == "Pending"
    for path in ("..%2f..%2freport", "%00", "a" * 300):
        answer = await rig.http[0].post(f"/mac/v1/pods/{path}/job", json={"softnet": True}, headers=mac.headers)
        assert answer.status_code in (400, 404, 503)
    assert rig.dispatch.asked == []


async def test_a_mac_that_never_says_cleared_keeps_its_own_pod_and_nothing_else(rig: Rig):
    mac = await rig.machine("mac-1")
    pod = await rig.pod("runner-1", "mac-1")
    await rig.delete(pod)
    for _ in range(5):
        await mac.report({pod.metadata.uid: PodReport(state=PodState.READY, namespace=NAMESPACE, name="runner-1")})
    assert await rig.seen(pod) is not None
    await rig.client.delete(Pod, "runner-1", NAMESPACE, grace_period=0)
    assert await rig.seen(pod) is None, "a person, or the healing of Pods that hang, removes it"


async def test_a_key_of_another_time_or_place_opens_nothing(rig: Rig):
    mac = await rig.machine("mac-1")
    await rig.machine("mac-2")
    for key, name in (
        (key_of("mac-2"), "mac-1"),
        (key_of("mac-1", 2), "mac-1"),
        (mac.key, "mac-2"),
        ("k" * 43, "mac-9"),
    ):
        thief = FakeMac(rig, name, key)
        assert (await thief.send(thief.body())).status_code == 401
    for header in ("", "Bearer", f"Basic {mac.key}", f"Bearer {HOSTS}/mac-1:", f"Bearer {HOSTS}/mac-1:{mac.key}\u00e9"):
        answer = await rig.http[0].post(REPORT, content=b"{}", headers=[(b"Authorization", header.encode("latin-1"))])
        assert answer.status_code == 401
        assert mac.key not in answer.text
    await rig.client.merge_patch(
        ScalewayAppleSiliconHost, "host-of-mac-1", {"spec": {"release": {"policy": "pool", "reason": "Deleted"}}}, HOSTS
    )
    await until(lambda: is_refused(mac))


async def is_refused(mac: FakeMac) -> bool:
    return (await mac.send(mac.body())).status_code == 401


async def test_names_that_nobody_has_use_up_nobodys_fresh_reads(rig: Rig):
    mac = await rig.machine("mac-1")
    rng = random.Random(7)
    for number in range(60):
        thief = FakeMac(rig, f"no-such-{rng.randrange(10**9)}", key_of(str(number)))
        await thief.send(thief.body())
    wrong = FakeMac(rig, "mac-1", key_of("wrong"))
    answers = {(await wrong.send(wrong.body())).status_code for _ in range(30)}
    assert answers <= {401, 503}
    assert 503 in answers, "they are not all looked up"
    await mac.report()


async def test_a_crowd_of_reports_from_one_mac_hurts_that_mac_alone():
    async with a_rig(paced=True) as rig:
        mac, other = await rig.machine("mac-1"), await rig.machine("mac-2")
        answers = await asyncio.gather(*(mac.send(mac.body()) for _ in range(300)))
        assert sum(each.status_code == 200 for each in answers) <= 10
        await other.report()
        lease = await rig.client.get(Lease, "mac-1", "kube-node-lease")
        assert int(lease.metadata.resource_version) > 0
        assert (await written(rig, "mac-2")).metadata.labels["tuist.dev/fleet"] == "m4"
