"""PUT, the status door, generations, and writes that change nothing."""

from __future__ import annotations

import copy
import json

from conformance.target import GROUP, MERGE, Api, causes, refusal

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_a_put_replaces_the_object(api: Api) -> None:
    made = await api.make_gadget("g", {"slots": 2, "color": "red"}, labels={"a": "1"})
    new = copy.deepcopy(made)
    new["spec"] = {"slots": 3}
    new["metadata"]["labels"] = {"b": "2"}
    answer = await api.http.put(f"{api.gadgets}/g", json=new)
    assert answer.status_code == 200
    put = answer.json()
    assert put["spec"] == {"slots": 3, "size": "medium", "replicas": 1}
    assert put["metadata"]["labels"] == {"b": "2"}
    assert int(put["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert put["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_put_cannot_touch_what_the_server_sets(api: Api) -> None:
    made = await api.make_gadget("g")
    new = copy.deepcopy(made)
    new["spec"]["slots"] = 4
    new["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    new["metadata"]["generation"] = 99
    put = (await api.http.put(f"{api.gadgets}/g", json=new)).json()
    assert put["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert put["metadata"]["generation"] == 2


async def test_a_put_of_a_custom_object_must_name_its_version(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.http.put(f"{api.gadgets}/g", json=api.gadget("g"))
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {
        "metadata.resourceVersion": "FieldValueInvalid: Invalid value: 0: must be specified for an update"
    }


async def test_a_put_of_a_config_map_need_not_name_its_version(api: Api) -> None:
    made = await api.make(api.configmaps, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    answer = await api.http.put(f"{api.configmaps}/c", json={"metadata": {"name": "c"}, "data": {"a": "2"}})
    assert answer.status_code == 200
    assert answer.json()["metadata"]["uid"] == made["metadata"]["uid"]
    assert answer.json()["data"] == {"a": "2"}


async def test_a_put_from_a_stale_read_conflicts(api: Api) -> None:
    made = await api.make_gadget("g")
    await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 2}})
    answer = await api.http.put(f"{api.gadgets}/g", json=made)
    assert refusal(answer, 409, "Conflict") == f'Operation cannot be fulfilled on gadgets.{GROUP} "g": {MODIFIED}'
    assert answer.json()["details"] == {"name": "g", "group": GROUP, "kind": "gadgets"}


async def test_a_put_for_another_incarnation_conflicts(api: Api) -> None:
    made = await api.make_gadget("g")
    made["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    answer = await api.http.put(f"{api.gadgets}/g", json=made)
    assert "Precondition failed: UID in precondition: 11111111-" in refusal(answer, 409, "Conflict")


async def test_a_put_to_an_absent_custom_object_is_not_found(api: Api) -> None:
    answer = await api.http.put(f"{api.gadgets}/g", json=api.gadget("g", resourceVersion="5"))
    refusal(answer, 404, "NotFound")


async def test_a_put_under_another_name_is_refused(api: Api) -> None:
    made = await api.make_gadget("g")
    made["metadata"]["name"] = "h"
    answer = await api.http.put(f"{api.gadgets}/g", json=made)
    assert refusal(answer, 400, "BadRequest") == "the name of the object (h) does not match the name on the URL (g)"


async def test_the_status_door_changes_nothing_but_the_status(api: Api) -> None:
    made = await api.make_gadget("g", {"slots": 2}, labels={"a": "1"})
    new = copy.deepcopy(made)
    new["spec"]["slots"] = 9
    new["metadata"]["labels"] = {"a": "2"}
    new["metadata"]["annotations"] = {"x": "y"}
    new["metadata"]["finalizers"] = ["example.com/f"]
    new["status"] = {"phase": "Up"}
    put = (await api.http.put(f"{api.gadgets}/g/status", json=new)).json()
    assert put["status"] == {"phase": "Up"}
    assert put["spec"] == made["spec"]
    assert put["metadata"]["labels"] == {"a": "1"}
    assert "annotations" not in put["metadata"]
    assert "finalizers" not in put["metadata"]
    assert put["metadata"]["generation"] == 1
    assert put["metadata"]["managedFields"][-1]["subresource"] == "status"


async def test_the_front_door_cannot_change_the_status(api: Api) -> None:
    await api.make_gadget("g")
    await api.patched(f"{api.gadgets}/g/status", {"status": {"phase": "Up"}})
    seen = await api.see(f"{api.gadgets}/g")
    answer = await api.patched(f"{api.gadgets}/g", {"status": {"phase": "Down"}})
    assert answer == seen
    new = copy.deepcopy(seen)
    del new["status"]
    new["spec"]["slots"] = 5
    put = (await api.http.put(f"{api.gadgets}/g", json=new)).json()
    assert put["status"] == {"phase": "Up"}


async def test_the_status_can_be_read_at_its_own_door(api: Api) -> None:
    await api.make_gadget("g")
    changed = await api.patched(f"{api.gadgets}/g/status", {"status": {"phase": "Up"}})
    assert await api.see(f"{api.gadgets}/g/status") == changed


async def test_a_stale_status_put_conflicts(api: Api) -> None:
    made = await api.make_gadget("g")
    await api.patched(f"{api.gadgets}/g", {"metadata": {"labels": {"a": "1"}}})
    refusal(await api.http.put(f"{api.gadgets}/g/status", json={**made, "status": {"phase": "Up"}}), 409, "Conflict")


async def test_the_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    await api.make_gadget("g")
    path = f"{api.gadgets}/g"

    async def generation(patch: dict, to: str = path) -> int:
        return (await api.patched(to, patch))["metadata"]["generation"]

    assert await generation({"metadata": {"labels": {"a": "1"}}}) == 1
    assert await generation({"metadata": {"annotations": {"a": "1"}}}) == 1
    assert await generation({"metadata": {"finalizers": ["example.com/f"]}}) == 1
    assert await generation({"status": {"phase": "Up"}}, f"{path}/status") == 1
    assert await generation({"spec": {"slots": 2}}) == 2
    assert await generation({"spec": {"slots": 2}}) == 2
    await api.delete(path)
    assert (await api.see(path))["metadata"]["generation"] == 3
    await api.patched(path, {"metadata": {"finalizers": None}})


async def test_a_write_that_changes_nothing_is_no_write(api: Api) -> None:
    made = await api.make_gadget("g", {"slots": 2})
    path = f"{api.gadgets}/g"
    async with api.watching(api.gadgets, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        assert await api.patched(path, {"spec": {"slots": 2}}) == made
        assert await api.patched(path, {}) == made
        assert (await api.http.put(path, json=made)).json() == made
        assert await api.patched(f"{path}/status", {"metadata": {"labels": {"x": "y"}}}) == made
        changed = await api.patched(path, {"spec": {"slots": 3}})
        event = await events.next()
        assert event["object"]["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_a_write_that_changes_nothing_on_a_built_in_kind_is_no_write(api: Api) -> None:
    made = await api.make(api.configmaps, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    assert await api.patched(f"{api.configmaps}/c", {"data": {"a": "1"}}) == made
    assert (await api.http.put(f"{api.configmaps}/c", json=made)).json() == made


async def test_a_dry_run_update_is_shown_and_not_stored(api: Api) -> None:
    made = await api.make_gadget("g")
    shown = await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 4}}, MERGE, dryRun="All")
    assert shown["spec"]["slots"] == 4
    assert shown["metadata"]["generation"] == 2
    assert await api.see(f"{api.gadgets}/g") == made


async def test_metadata_in_the_put_may_be_cleared(api: Api) -> None:
    made = await api.make_gadget("g", labels={"a": "1"}, annotations={"b": "2"}, finalizers=["example.com/f"])
    for key in ("labels", "annotations", "finalizers"):
        del made["metadata"][key]
    put = (await api.http.put(f"{api.gadgets}/g", json=made)).json()
    assert not {"labels", "annotations", "finalizers"} & set(put["metadata"])


async def test_a_put_to_an_absent_built_in_object_is_not_found_unless_the_kind_may_be_made_so(api: Api) -> None:
    answer = await api.http.put(f"{api.configmaps}/c", json={"metadata": {"name": "c"}})
    assert refusal(answer, 404, "NotFound") == 'configmaps "c" not found'
    leases = api.path("leases", "coordination.k8s.io/v1")
    answer = await api.http.put(f"{leases}/l", json={"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert answer.status_code == 201
    assert (await api.see(f"{leases}/l"))["spec"]["holderIdentity"] == "me"


async def test_empty_parts_of_a_built_in_object_are_not_kept(api: Api) -> None:
    made = await api.make(
        api.configmaps,
        {"metadata": {"name": "c", "labels": {}, "annotations": None, "creationTimestamp": None}, "data": {}},
    )
    assert "data" not in made
    assert not {"labels", "annotations"} & set(made["metadata"])


async def test_empty_parts_of_a_custom_object_are_kept_below_the_metadata(api: Api) -> None:
    made = await api.make_gadget("g", {"settings": {}, "tags": []}, labels={}, finalizers=[])
    assert made["spec"]["settings"] == {}
    assert made["spec"]["tags"] == []
    assert not {"labels", "finalizers"} & set(made["metadata"])


async def test_a_whole_number_may_be_written_with_a_point(api: Api) -> None:
    body = api.gadget("g", {"slots": 2.0})
    answer = await api.http.post(
        api.gadgets, content=json.dumps(body), headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["slots"] == 2


async def test_labels_must_be_text(api: Api) -> None:
    for path, body in (
        (api.gadgets, api.gadget("g", labels={"a": 1})),
        (api.configmaps, {"metadata": {"name": "c", "labels": {"a": 1}}}),
    ):
        refusal(await api.http.post(path, json=body), 400, "BadRequest")


def _pod(**metadata: object) -> dict[str, object]:
    spec = {
        "containers": [{"name": "c", "image": "registry.invalid/c"}],
        "nodeName": "no-such-node",
        # What a real server fills in for a new Pod alone, and a manifest that is put again would take away: the account, and the
        # volume of its token, under a name that the server draws.
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": spec}


async def test_a_pod_is_replaced_by_its_own_manifest(api: Api) -> None:
    made = await api.make(api.pods, _pod())
    answer = await api.http.put(f"{api.pods}/p", json=_pod(labels={"again": "yes"}))
    assert answer.status_code == 200, answer.text
    replaced = answer.json()
    assert replaced["spec"]["priority"] == made["spec"]["priority"]
    assert replaced["spec"]["preemptionPolicy"] == made["spec"]["preemptionPolicy"]
    assert replaced["metadata"]["labels"] == {"again": "yes"}


async def test_a_pod_is_applied_by_its_own_manifest_again(api: Api) -> None:
    made = await api.make(api.pods, _pod())
    applied = await api.applied(f"{api.pods}/p", _pod(labels={"again": "yes"}), "m", force="true")
    assert applied["spec"]["priority"] == made["spec"]["priority"]
    assert applied["metadata"]["labels"] == {"again": "yes"}
    again = await api.applied(f"{api.pods}/p", _pod(), "m", force="true")
    assert "labels" not in again["metadata"]


async def test_a_pods_priority_cannot_change(api: Api) -> None:
    made = await api.make(api.pods, _pod())
    made["spec"]["priority"] = 7
    refusal(await api.http.put(f"{api.pods}/p", json=made), 422, "Invalid")
