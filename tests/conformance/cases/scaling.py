"""The scale subresource of a custom kind."""

from __future__ import annotations

import json

from conformance.target import Api, entry, refusal


async def test_an_object_shows_its_scale(api: Api) -> None:
    made = await api.make_gadget("g", {"replicas": 2})
    await api.patched(f"{api.gadgets}/g/status", {"status": {"replicas": 1, "selector": "a=b"}})
    scale = await api.see(f"{api.gadgets}/g/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    assert scale["metadata"]["namespace"] == api.namespace
    assert set(scale["metadata"]) == {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}


async def test_a_scale_patch_changes_the_replicas_only(api: Api) -> None:
    made = await api.make_gadget("g", {"slots": 3})
    scale = await api.patched(f"{api.gadgets}/g/scale", {"spec": {"replicas": 5}}, fieldManager="scaler")
    assert scale["kind"] == "Scale"
    assert scale["spec"] == {"replicas": 5}
    assert scale["status"] == {"replicas": 0}
    seen = await api.see(f"{api.gadgets}/g")
    assert seen["spec"] == {**made["spec"], "replicas": 5}
    assert seen["metadata"]["generation"] == 2
    assert entry(seen, "scaler", "Update", "scale")["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


async def test_a_scale_put_needs_the_version_it_was_read_at(api: Api) -> None:
    await api.make_gadget("g")
    scale = await api.see(f"{api.gadgets}/g/scale")
    scale["spec"]["replicas"] = 4
    answer = await api.http.put(f"{api.gadgets}/g/scale", content=json.dumps(scale))
    assert answer.status_code == 200
    assert answer.json()["spec"] == {"replicas": 4}
    scale["spec"]["replicas"] = 6
    refusal(await api.http.put(f"{api.gadgets}/g/scale", json=scale), 409, "Conflict")


async def test_a_negative_scale_is_refused(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g/scale", {"spec": {"replicas": -1}})
    assert "spec.replicas: Invalid value: -1: should be a non-negative integer" in refusal(answer, 422, "Invalid")


async def test_the_scale_of_an_absent_object_is_not_found(api: Api) -> None:
    refusal(await api.http.get(f"{api.gadgets}/nope/scale"), 404, "NotFound")
