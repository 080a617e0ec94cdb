"""An object that cannot be meant is refused with its field named, and one that is stored all the same ends its own turn only."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from paddock.base.clock import SystemClock
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore
from paddock.simulator.transport import InProcessTransport

Json = dict[str, Any]
TOKEN = "the-administrators"
PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
async def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def api(store: MemoryStore) -> AsyncIterator[httpx2.AsyncClient]:
    plane = ControlPlane(
        store,
        SystemClock(),
        random.Random(1),
        admin_token=Secret(TOKEN),
        signing_key=generate_key(),
        definitions=[],
    )
    started, stop = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with plane.running():
            started.set()
            await stop.wait()

    running = asyncio.create_task(run())
    await started.wait()
    transport = InProcessTransport(plane.app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://paddock", headers=headers) as http:
        async with asyncio.timeout(10):
            while (await http.get("/api/v1/namespaces/default")).status_code != 200:
                await asyncio.sleep(0.01)
        yield http
    stop.set()
    await running


def pod(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def container(**parts: Any) -> Json:
    return pod("p", containers=[{"name": "c", "image": "i", **parts}])


def affinity(*terms: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": required}


def bound(role: Json, subjects: list[Any]) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    return {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects, **role}


NODE = {"metadata": {"name": "n"}, "spec": {"taints": [None]}}
SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [None]}}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PODS, pod("p", tolerations=[None]), "spec.tolerations"),
        (PODS, pod("p", containers=[None]), "spec.containers"),
        (PODS, pod("p", initContainers=[None]), "spec.initContainers"),
        (PODS, pod("p", volumes=[None]), "spec.volumes"),
        (PODS, container(env=[None]), "spec.containers.env"),
        (PODS, container(ports=[None]), "spec.containers.ports"),
        (PODS, container(volumeMounts=[None]), "spec.containers.volumeMounts"),
        (PODS, pod("p", affinity=affinity(None)), "nodeSelectorTerms"),
        (PODS, {**pod("p"), "metadata": {"name": "p", "finalizers": [None]}}, "metadata.finalizers"),
        (PODS, {**pod("p"), "metadata": {"name": "p", "ownerReferences": [None]}}, "metadata.ownerReferences"),
        ("/api/v1/nodes", NODE, "spec.taints"),
        ("/api/v1/namespaces/default/services", SERVICE, "spec.ports"),
        (f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "r"}, "rules": [None]}, "rules"),
        (f"{RBAC}/namespaces/default/rolebindings", bound({}, [None]), "subjects"),
    ],
    ids=lambda part: part if isinstance(part, str) and not part.startswith("/") else "",
)
async def test_an_empty_place_in_a_list_is_refused_with_its_field(
    api: httpx2.AsyncClient, path: str, body: Json, field: str
) -> None:
    answer = await api.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert field in answer.json()["message"]
    assert "null" in answer.json()["message"]


async def test_a_patch_that_leaves_an_empty_place_in_a_list_is_refused(api: httpx2.AsyncClient) -> None:
    assert (await api.post(PODS, json=pod("p"))).status_code == 201
    patch = [{"op": "add", "path": "/spec/tolerations/-", "value": None}]
    headers = {"Content-Type": "application/json-patch+json"}
    answer = await api.patch(f"{PODS}/p", content=json.dumps(patch), headers=headers)
    assert answer.status_code == 400, answer.text
    assert "spec.tolerations" in answer.json()["message"]


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [[], [1], "text", 7, True, {"a": [None]}, [[]]])
@pytest.mark.parametrize("path", [PODS, "/api/v1/nodes", "/api/v1/namespaces/default/configmaps"])
async def test_a_part_of_a_wrong_type_is_a_clear_refusal_or_left_out(
    api: httpx2.AsyncClient, path: str, part: str, value: Any
) -> None:
    answer = await api.post(path, json={**pod("p"), part: value})
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("number", ["9" * 5000, "--5", "\u0665", "1e3", " 1"])
@pytest.mark.parametrize("name", ["limit", "resourceVersion", "continue"])
async def test_a_number_that_is_none_is_a_bad_request(api: httpx2.AsyncClient, name: str, number: str) -> None:
    answer = await api.get(PODS, params={name: number})
    assert answer.status_code == 400, answer.text


def _deep(levels: int, kind: str) -> bytes:
    if kind == "lists":
        return b"[" * levels + b"]" * levels
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [200, 500, 900, 3000, 100_000])
@pytest.mark.parametrize("kind", ["lists", "objects"])
@pytest.mark.parametrize("media", ["application/json", "application/apply-patch+yaml"])
async def test_a_body_that_is_nested_too_deeply_is_refused_and_nothing_is_stored(
    api: httpx2.AsyncClient, levels: int, kind: str, media: str
) -> None:
    whole = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[],"x":%b}}'
    content, headers = whole % _deep(levels, kind), {"Content-Type": media}
    if media == "application/json":
        answer = await api.post(PODS, content=content, headers=headers)
    else:
        answer = await api.patch(f"{PODS}/p", params={"fieldManager": "m"}, content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    assert "nested" in answer.json()["message"]
    assert (await api.get(f"{PODS}/p")).status_code == 404


async def test_patches_cannot_nest_an_object_deeper_than_a_body_may_be(api: httpx2.AsyncClient) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    assert (await api.post(maps, json={"metadata": {"name": "c", "annotations": {"a": "b"}}})).status_code == 201
    doubling = [{"op": "copy", "from": "/metadata", "path": "/metadata/labels"}] * 12
    headers = {"Content-Type": "application/json-patch+json"}
    answer = await api.patch(f"{maps}/c", content=json.dumps(doubling), headers=headers)
    assert 400 <= answer.status_code < 500, answer.text


async def _until_bound(api: httpx2.AsyncClient, *names: str) -> None:
    async with asyncio.timeout(10):
        for name in names:
            while not (await api.get(f"{PODS}/{name}")).json()["spec"].get("nodeName"):
                await asyncio.sleep(0.01)


def _node() -> Json:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9", "cpu": "4"}}
    return {"metadata": {"name": "n"}, "status": ready}


async def _stored_as(store: MemoryStore, name: str, **spec: Any) -> None:
    """A Pod as an earlier release stored it, which refused less."""
    record = await store.get(Key("pods", "default", name))
    assert record is not None
    obj = json.loads(record.value)
    obj["spec"].update(spec)
    await store.update(record.key, obj, record.revision)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": affinity(None)},
        {"affinity": affinity({"matchExpressions": [None]})},
        {"affinity": affinity({"matchExpressions": [{"key": [1], "operator": "In", "values": 7}]})},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [None]}}},
        {"tolerations": [None]},
        {"containers": [None]},
        {"containers": [{"resources": {"requests": {"cpu": "many"}}}]},
    ],
    ids=str,
)
async def test_a_pod_that_the_scheduler_cannot_read_keeps_no_other_pod_waiting(
    api: httpx2.AsyncClient, store: MemoryStore, spec: Json
) -> None:
    assert (await api.post(PODS, json=pod("a-bad"))).status_code == 201
    await _stored_as(store, "a-bad", **spec)
    assert (await api.post("/api/v1/nodes", json=_node())).status_code == 201
    assert (await api.post(PODS, json=pod("good"))).status_code == 201
    await _until_bound(api, "good")
    assert (await api.delete(f"{PODS}/a-bad")).status_code == 200
    assert (await api.post(PODS, json=pod("later"))).status_code == 201
    await _until_bound(api, "later")


async def test_a_pod_that_the_scheduler_cannot_read_says_so(api: httpx2.AsyncClient, store: MemoryStore) -> None:
    assert (await api.post(PODS, json=pod("bad"))).status_code == 201
    await _stored_as(store, "bad", affinity=affinity(None))
    assert (await api.post("/api/v1/nodes", json=_node())).status_code == 201
    async with asyncio.timeout(10):
        while "cannot be read" not in json.dumps((await api.get(f"{PODS}/bad")).json()["status"]):
            await asyncio.sleep(0.01)


async def test_a_node_that_cannot_be_read_takes_no_pod_and_keeps_none_from_others(
    api: httpx2.AsyncClient, store: MemoryStore
) -> None:
    assert (await api.post("/api/v1/nodes", json=_node() | {"metadata": {"name": "bad"}})).status_code == 201
    record = await store.get(Key("nodes", "", "bad"))
    assert record is not None
    await store.update(record.key, {**json.loads(record.value), "spec": {"taints": [None]}}, record.revision)
    assert (await api.post("/api/v1/nodes", json=_node())).status_code == 201
    assert (await api.post(PODS, json=pod("good"))).status_code == 201
    await _until_bound(api, "good")


async def test_an_object_that_cannot_be_read_keeps_the_collector_from_no_other(
    api: httpx2.AsyncClient, store: MemoryStore
) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    owner = (await api.post(maps, json={"metadata": {"name": "owner"}})).json()["metadata"]
    bad = (await api.post(maps, json={"metadata": {"name": "bad"}})).json()
    record = await store.get(Key("configmaps", "default", "bad"))
    assert record is not None
    bad["metadata"]["ownerReferences"] = [None]
    await store.update(record.key, bad, record.revision)
    refers = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    owned = {"metadata": {"name": "owned", "ownerReferences": [refers]}}
    assert (await api.post(maps, json=owned)).status_code == 201
    assert (await api.delete(f"{maps}/owner")).status_code == 200
    async with asyncio.timeout(10):
        while (await api.get(f"{maps}/owned")).status_code != 404:
            await asyncio.sleep(0.01)
