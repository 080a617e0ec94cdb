"""Server-side apply: who owns which field, and what happens when two want the same one."""

from __future__ import annotations

import re

from conformance.target import APPLY, GROUP, Api, Json, entry, refusal


def wanted(api: Api, spec: Json, **metadata: object) -> Json:
    return api.gadget("g", spec, **metadata)


async def test_applying_what_is_absent_creates_it(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 2, "network": {"vpc": "a"}}), "kubectl")
    assert answer.status_code == 201
    made = answer.json()
    assert made["spec"] == {"slots": 2, "network": {"vpc": "a", "mode": "nat"}, "size": "medium", "replicas": 1}
    mine = entry(made, "kubectl")
    assert mine["apiVersion"] == f"{GROUP}/v1"
    assert mine["fieldsType"] == "FieldsV1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", mine["time"])
    assert mine["fieldsV1"] == {"f:spec": {"f:slots": {}, "f:network": {"f:vpc": {}}}}
    assert "subresource" not in mine


async def test_applying_the_same_again_changes_nothing(api: Api) -> None:
    first = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "kubectl")
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "kubectl")
    assert answer.status_code == 200
    assert answer.json() == first


async def test_a_field_that_is_no_longer_applied_is_removed(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2, "color": "red", "size": "large"}), "kubectl")
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "kubectl")
    assert changed["spec"] == {"slots": 2, "size": "medium", "replicas": 1}


async def test_a_field_of_somebody_else_stays(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "one")
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {"color": "red"}), "two")
    assert (changed["spec"]["slots"], changed["spec"]["color"]) == (2, "red")
    assert entry(changed, "one")["fieldsV1"] == {"f:spec": {"f:slots": {}}}
    assert entry(changed, "two")["fieldsV1"] == {"f:spec": {"f:color": {}}}


async def test_a_different_value_for_an_applied_field_conflicts(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"network": {"vpc": "a"}}), "one")
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"network": {"vpc": "b"}}), "two")
    assert refusal(answer, 409, "Conflict") == ('Apply failed with 1 conflict: conflict with "one": .spec.network.vpc')
    assert answer.json()["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.network.vpc"}
    ]


async def test_several_conflicts_are_told_together(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1, "color": "red"}), "one")
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 2, "color": "blue"}), "two")
    message = refusal(answer, 409, "Conflict")
    assert message.startswith('Apply failed with 2 conflicts: conflicts with "one":\n')
    assert {c["field"] for c in answer.json()["details"]["causes"]} == {".spec.slots", ".spec.color"}


async def test_a_conflict_with_an_updater_names_its_version(api: Api) -> None:
    await api.make(api.gadgets, wanted(api, {"slots": 1}), fieldManager="maker")
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "two")
    refusal(answer, 409, "Conflict")
    (cause,) = answer.json()["details"]["causes"]
    assert re.fullmatch(rf'conflict with "maker" using {GROUP}/v1', cause["message"])


async def test_force_takes_the_field(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1, "color": "red"}), "one")
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "two", force="true")
    assert changed["spec"]["slots"] == 2
    assert entry(changed, "one")["fieldsV1"] == {"f:spec": {"f:color": {}}}
    assert entry(changed, "two")["fieldsV1"] == {"f:spec": {"f:slots": {}}}


async def test_equal_values_are_shared_and_kept_by_the_last_owner(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1}), "one")
    shared = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1}), "two")
    assert entry(shared, "one")["fieldsV1"] == entry(shared, "two")["fieldsV1"]
    kept = await api.applied(f"{api.gadgets}/g", wanted(api, {}), "one")
    assert kept["spec"]["slots"] == 1
    gone = await api.applied(f"{api.gadgets}/g", wanted(api, {}), "two")
    assert "slots" not in gone["spec"]


async def test_an_update_takes_ownership_of_what_it_changes(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1, "color": "red"}), "one")
    changed = await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 2}}, fieldManager="hand")
    assert entry(changed, "one")["fieldsV1"] == {"f:spec": {"f:color": {}}}
    assert entry(changed, "hand", "Update")["fieldsV1"] == {"f:spec": {"f:slots": {}}}
    refusal(await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 1, "color": "red"}), "one"), 409, "Conflict")


async def test_a_create_owns_everything_including_defaults(api: Api) -> None:
    made = await api.make(api.gadgets, wanted(api, {"slots": 1}, labels={"a": "1"}), fieldManager="maker")
    assert entry(made, "maker", "Update")["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:replicas": {}, "f:size": {}, "f:slots": {}},
    }


async def test_items_of_a_keyed_list_are_merged_and_owned_one_by_one(api: Api) -> None:
    path = f"{api.gadgets}/g"
    await api.applied(path, wanted(api, {"ports": [{"port": 80, "name": "web"}]}), "one")
    both = await api.applied(path, wanted(api, {"ports": [{"port": 443, "protocol": "TCP", "name": "tls"}]}), "two")
    assert [(p["port"], p["name"]) for p in both["spec"]["ports"]] == [(80, "web"), (443, "tls")]
    key = 'k:{"port":443,"protocol":"TCP"}'
    assert entry(both, "two")["fieldsV1"] == {
        "f:spec": {"f:ports": {key: {".": {}, "f:port": {}, "f:protocol": {}, "f:name": {}}}}
    }
    left = await api.applied(path, wanted(api, {}), "one")
    assert [p["port"] for p in left["spec"]["ports"]] == [443]


async def test_items_of_a_set_are_owned_one_by_one(api: Api) -> None:
    path = f"{api.gadgets}/g"
    await api.applied(path, wanted(api, {"tags": ["a", "b"]}), "one")
    both = await api.applied(path, wanted(api, {"tags": ["b", "c"]}), "two")
    assert sorted(both["spec"]["tags"]) == ["a", "b", "c"]
    assert entry(both, "two")["fieldsV1"] == {"f:spec": {"f:tags": {'v:"b"': {}, 'v:"c"': {}}}}
    left = await api.applied(path, wanted(api, {"tags": ["a"]}), "one")
    assert sorted(left["spec"]["tags"]) == ["a", "b", "c"]
    left = await api.applied(path, wanted(api, {}), "one")
    assert sorted(left["spec"]["tags"]) == ["b", "c"]


async def test_an_atomic_list_has_one_owner(api: Api) -> None:
    path = f"{api.gadgets}/g"
    first = await api.applied(path, wanted(api, {"steps": [{"run": "x"}]}), "one")
    assert entry(first, "one")["fieldsV1"] == {"f:spec": {"f:steps": {}}}
    answer = await api.apply(path, wanted(api, {"steps": [{"run": "y"}]}), "two")
    assert ".spec.steps" in refusal(answer, 409, "Conflict")


async def test_the_status_is_applied_at_its_own_door(api: Api) -> None:
    path = f"{api.gadgets}/g"
    await api.applied(path, wanted(api, {"slots": 1}), "one")
    body = {
        **api.gadget("g"),
        "spec": {"slots": 9},
        "status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    changed = await api.applied(f"{path}/status", body, "controller")
    assert changed["spec"]["slots"] == 1
    assert changed["status"]["phase"] == "Up"
    assert entry(changed, "controller", subresource="status")["fieldsV1"] == {
        "f:status": {
            "f:phase": {},
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}},
        }
    }
    other = {**api.gadget("g"), "status": {"conditions": [{"type": "Synced", "status": "True"}]}}
    both = await api.applied(f"{path}/status", other, "second")
    assert [c["type"] for c in both["status"]["conditions"]] == ["Ready", "Synced"]


async def test_a_status_cannot_be_applied_to_an_absent_object(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g/status", {**api.gadget("g"), "status": {"phase": "Up"}}, "c")
    refusal(answer, 404, "NotFound")


async def test_an_apply_needs_a_manager(api: Api) -> None:
    answer = await api.patch(f"{api.gadgets}/g", wanted(api, {}), APPLY)
    assert "fieldManager: Required value: is required for apply patch" in refusal(answer, 422, "Invalid")


async def test_force_is_for_apply_only(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g", {"spec": {}}, force="true")
    assert "force: Forbidden: may not be specified for non-apply patch" in refusal(answer, 422, "Invalid")


async def test_managed_fields_cannot_be_applied(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {}, managedFields=[{"manager": "x"}]), "one")
    assert "metadata.managedFields must be nil" in refusal(answer, 400, "BadRequest")


async def test_an_unknown_field_cannot_be_applied(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"bogus": 1}), "one")
    message = refusal(answer, 500, "")
    assert "failed to create typed patch object" in message
    assert ".spec.bogus: field not declared in schema" in message


async def test_an_apply_with_a_stale_version_conflicts(api: Api) -> None:
    made = await api.make_gadget("g")
    await api.patched(f"{api.gadgets}/g", {"metadata": {"labels": {"x": "y"}}})
    stale = wanted(api, {"color": "red"}, resourceVersion=made["metadata"]["resourceVersion"])
    assert "the object has been modified" in refusal(await api.apply(f"{api.gadgets}/g", stale, "one"), 409, "Conflict")


async def test_an_apply_for_another_incarnation_makes_nothing(api: Api) -> None:
    body = wanted(api, {}, uid="11111111-1111-1111-1111-111111111111")
    answer = await api.apply(f"{api.gadgets}/g", body, "one")
    assert "uid mismatch" in refusal(answer, 409, "Conflict")
    assert (await api.http.get(f"{api.gadgets}/g")).status_code == 404


async def test_a_dry_run_apply_stores_nothing(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "one", dryRun="All")
    assert answer.status_code == 201
    assert (await api.http.get(f"{api.gadgets}/g")).status_code == 404


async def test_an_apply_is_validated(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", wanted(api, {"size": "huge"}), "one")
    refusal(answer, 422, "Invalid")


async def test_built_in_kinds_are_applied_by_the_same_rules(api: Api) -> None:
    path = f"{api.configmaps}/c"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    made = await api.applied(path, {**body, "data": {"a": "1"}}, "one")
    assert entry(made, "one")["fieldsV1"] == {"f:data": {"f:a": {}}}
    both = await api.applied(path, {**body, "data": {"b": "2"}}, "two")
    assert both["data"] == {"a": "1", "b": "2"}
    refusal(await api.apply(path, {**body, "data": {"a": "9"}}, "two"), 409, "Conflict")
    left = await api.applied(path, body, "one")
    assert left["data"] == {"b": "2"}


async def test_containers_of_a_pod_are_applied_by_name(api: Api) -> None:
    await api.eventually(lambda: account_is_there(api))
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "one"}]},
    }
    made = await api.applied(f"{api.pods}/p", body, "one")
    assert entry(made, "one")["fieldsV1"]["f:spec"]["f:containers"] == {
        'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}}
    }
    body["spec"]["containers"][0]["image"] = "two"
    changed = await api.applied(f"{api.pods}/p", body, "one")
    assert changed["spec"]["containers"][0]["image"] == "two"


async def test_the_record_of_owners_can_be_edited_and_cleared(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1}), "one")
    cleared = await api.patched(f"{api.gadgets}/g", {"metadata": {"managedFields": [{}]}}, fieldManager="hand")
    assert "managedFields" not in cleared["metadata"]


async def test_a_finalizer_can_be_applied_and_withdrawn(api: Api) -> None:
    made = await api.applied(f"{api.gadgets}/g", wanted(api, {}, finalizers=["example.com/f"]), "one")
    assert entry(made, "one")["fieldsV1"]["f:metadata"] == {"f:finalizers": {'v:"example.com/f"': {}}}
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {}), "one")
    assert "finalizers" not in changed["metadata"]


async def account_is_there(api: Api) -> bool:
    return (await api.http.get(f"{api.path('serviceaccounts')}/default")).status_code == 200


async def test_an_apply_may_be_written_in_yaml(api: Api) -> None:
    text = f"apiVersion: {GROUP}/v1\nkind: Gadget\nmetadata:\n  name: g\nspec:\n  slots: 3\n  color: red\n"
    answer = await api.http.patch(
        f"{api.gadgets}/g", content=text, headers={"Content-Type": APPLY}, params={"fieldManager": "one"}
    )
    assert answer.status_code == 201
    assert answer.json()["spec"]["color"] == "red"


async def test_an_applied_object_must_say_what_it_is(api: Api) -> None:
    answer = await api.apply(f"{api.gadgets}/g", {"metadata": {"name": "g"}}, "one")
    refusal(answer, 400, "BadRequest")


async def test_a_create_of_a_built_in_object_is_owned_in_this_shape(api: Api) -> None:
    made = await api.make(
        api.configmaps, {"metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1"}}, fieldManager="maker"
    )
    assert entry(made, "maker", "Update")["fieldsV1"] == {
        "f:data": {".": {}, "f:a": {}},
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
    }


async def test_an_apply_leaves_labels_of_others(api: Api) -> None:
    await api.make(api.gadgets, wanted(api, {}, labels={"theirs": "1"}), fieldManager="maker")
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {}, labels={"mine": "1"}), "one")
    assert changed["metadata"]["labels"] == {"theirs": "1", "mine": "1"}
    left = await api.applied(f"{api.gadgets}/g", wanted(api, {}), "one")
    assert left["metadata"]["labels"] == {"theirs": "1"}


async def test_an_apply_to_an_ending_object_still_works(api: Api) -> None:
    await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 1}, finalizers=["example.com/f"]), "one")
    await api.delete(f"{api.gadgets}/g")
    changed = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}, finalizers=["example.com/f"]), "one")
    assert changed["spec"]["slots"] == 2
    last = await api.applied(f"{api.gadgets}/g", wanted(api, {"slots": 2}), "one")
    assert last["metadata"]["deletionTimestamp"]
    assert (await api.http.get(f"{api.gadgets}/g")).status_code == 404
