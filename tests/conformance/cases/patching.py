"""PATCH in its plain forms: merge, JSON and strategic."""

from __future__ import annotations

import asyncio

from conformance.target import APPLY, GROUP, JSON_PATCH, MERGE, STRATEGIC, Api, causes, refusal


async def test_a_merge_patch_merges_maps_and_replaces_lists(api: Api) -> None:
    await api.make_gadget("g", {"network": {"vpc": "a"}, "tags": ["x", "y"], "color": "red"})
    changed = await api.patched(
        f"{api.gadgets}/g", {"spec": {"network": {"mode": "bridge"}, "tags": ["z"], "color": None}}
    )
    assert changed["spec"] == {
        "network": {"vpc": "a", "mode": "bridge"},
        "tags": ["z"],
        "size": "medium",
        "replicas": 1,
    }


async def test_a_default_returns_when_its_field_is_removed(api: Api) -> None:
    await api.make_gadget("g", {"size": "large"})
    changed = await api.patched(f"{api.gadgets}/g", {"spec": {"size": None}})
    assert changed["spec"]["size"] == "medium"


async def test_a_patch_with_a_stale_version_conflicts(api: Api) -> None:
    made = await api.make_gadget("g")
    await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 2}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"slots": 3}}
    assert "the object has been modified" in refusal(await api.patch(f"{api.gadgets}/g", stale), 409, "Conflict")


async def test_a_patch_cannot_change_the_uid(api: Api) -> None:
    await api.make_gadget("g")
    uid = "11111111-1111-1111-1111-111111111111"
    answer = await api.patch(f"{api.gadgets}/g", {"metadata": {"uid": uid}, "spec": {"slots": 3}})
    refusal(answer, 422, "Invalid")
    assert causes(answer)["metadata.uid"] == f'FieldValueInvalid: Invalid value: "{uid}": field is immutable'


async def test_a_patch_of_an_absent_object_is_not_found(api: Api) -> None:
    answer = await api.patch(f"{api.gadgets}/nope", {"spec": {}})
    assert refusal(answer, 404, "NotFound") == f'gadgets.{GROUP} "nope" not found'


async def test_a_json_patch_adds_replaces_removes_moves_copies_and_tests(api: Api) -> None:
    await api.make_gadget("g", {"tags": ["x", "z"], "color": "red", "settings": {"a/b": "1", "t~u": "2"}})
    changed = await api.patched(
        f"{api.gadgets}/g",
        [
            {"op": "test", "path": "/spec/color", "value": "red"},
            {"op": "add", "path": "/spec/tags/1", "value": "y"},
            {"op": "add", "path": "/spec/tags/-", "value": "end"},
            {"op": "replace", "path": "/spec/color", "value": "blue"},
            {"op": "remove", "path": "/spec/settings/a~1b"},
            {"op": "move", "from": "/spec/settings/t~0u", "path": "/spec/settings/moved"},
            {"op": "copy", "from": "/spec/color", "path": "/spec/settings/copied"},
        ],
        JSON_PATCH,
    )
    assert changed["spec"]["tags"] == ["x", "y", "z", "end"]
    assert changed["spec"]["color"] == "blue"
    assert changed["spec"]["settings"] == {"moved": "2", "copied": "blue"}


async def test_a_json_patch_whose_test_fails_changes_nothing(api: Api) -> None:
    made = await api.make_gadget("g", {"color": "red"})
    answer = await api.patch(
        f"{api.gadgets}/g",
        [
            {"op": "replace", "path": "/spec/color", "value": "blue"},
            {"op": "test", "path": "/spec/color", "value": "red"},
        ],
        JSON_PATCH,
    )
    refusal(answer, 422, "Invalid")
    assert await api.see(f"{api.gadgets}/g") == made


async def test_a_json_patch_to_a_place_that_is_not_there_is_invalid(api: Api) -> None:
    await api.make_gadget("g")
    for operation in (
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "replace", "path": "/spec/no/where", "value": 1},
    ):
        refusal(await api.patch(f"{api.gadgets}/g", [operation], JSON_PATCH), 422, "Invalid")


async def test_a_json_patch_that_is_no_list_is_a_bad_request(api: Api) -> None:
    await api.make_gadget("g")
    refusal(await api.patch(f"{api.gadgets}/g", {"spec": {}}, JSON_PATCH), 400, "BadRequest")


async def test_a_custom_kind_knows_no_strategic_patch(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g", {"spec": {}}, STRATEGIC)
    assert refusal(answer, 415, "UnsupportedMediaType").startswith(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE}, {APPLY}"
    )


async def test_a_patch_without_a_known_type_is_refused(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c"}})
    refusal(await api.patch(f"{api.configmaps}/c", {"data": {}}, "application/json"), 415, "UnsupportedMediaType")


async def test_a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}],
        },
    }
    await api.eventually(lambda: account_is_there(api))
    await api.make(api.pods, pod)
    changed = await api.patched(
        f"{api.pods}/p",
        {"metadata": {"labels": {"x": "1"}}, "spec": {"containers": [{"name": "b", "image": "three"}]}},
        STRATEGIC,
    )
    assert [(c["name"], c["image"]) for c in changed["spec"]["containers"]] == [("a", "one"), ("b", "three")]
    assert changed["metadata"]["labels"] == {"x": "1"}


async def test_a_strategic_patch_merges_conditions_by_type(api: Api) -> None:
    node = api.unique("node")
    await api.make("/api/v1/nodes", {"metadata": {"name": node}})
    path = f"/api/v1/nodes/{node}/status"
    await api.patched(path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC)
    changed = await api.patched(
        path, {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}, STRATEGIC
    )
    assert {c["type"] for c in changed["status"]["conditions"]} == {"Ready", "DiskPressure"}
    await api.delete(f"/api/v1/nodes/{node}")


async def test_a_strategic_patch_removes_what_is_null_or_marked(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"a": "1", "b": "2"}})
    changed = await api.patched(f"{api.configmaps}/c", {"data": {"a": None}}, STRATEGIC)
    assert changed["data"] == {"b": "2"}
    changed = await api.patched(f"{api.configmaps}/c", {"data": {"$patch": "replace", "z": "9"}}, STRATEGIC)
    assert changed["data"] == {"z": "9"}


async def test_a_strategic_patch_merges_finalizers_and_owners(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c", "finalizers": ["example.com/a"]}})
    path = f"{api.configmaps}/c"
    changed = await api.patched(path, {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC)
    assert sorted(changed["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    changed = await api.patched(
        path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC
    )
    assert changed["metadata"]["finalizers"] == ["example.com/b"]
    await api.patched(path, {"metadata": {"finalizers": None}})


async def test_a_patch_cannot_rename(api: Api) -> None:
    await api.make_gadget("g")
    refusal(await api.patch(f"{api.gadgets}/g", {"metadata": {"name": "h"}}), 400, "BadRequest")


async def test_a_null_patch_of_metadata_maps_clears_them(api: Api) -> None:
    await api.make_gadget("g", labels={"a": "1", "b": "2"}, annotations={"x": "y"})
    changed = await api.patched(f"{api.gadgets}/g", {"metadata": {"labels": {"a": None}, "annotations": None}})
    assert changed["metadata"]["labels"] == {"b": "2"}
    assert "annotations" not in changed["metadata"]


async def account_is_there(api: Api) -> bool:
    return (await api.http.get(f"{api.path('serviceaccounts')}/default")).status_code == 200


async def test_writers_that_do_not_name_a_version_never_lose_each_others_fields(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c"}})
    keys = [f"k{number}" for number in range(6)]
    answers = await asyncio.gather(*(api.patch(f"{api.configmaps}/c", {"data": {key: "1"}}) for key in keys))
    assert {answer.status_code for answer in answers} == {200}
    assert set((await api.see(f"{api.configmaps}/c"))["data"]) == set(keys)


async def test_of_writers_that_name_the_same_version_one_wins(api: Api) -> None:
    made = await api.make_gadget("g")
    bodies = [{**made, "spec": {"slots": number}} for number in range(1, 6)]
    answers = await asyncio.gather(*(api.http.put(f"{api.gadgets}/g", json=body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
