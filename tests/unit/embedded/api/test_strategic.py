import copy
from typing import Any

import pytest

from paddock.embedded.api.patching.patches import strategic_merge_patch
from paddock.embedded.api.status import ApiFailure


def pod(**spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def patched_spec(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    target = pod(**spec)
    before, patch_before = copy.deepcopy(target), copy.deepcopy(patch)
    result = strategic_merge_patch(target, {"spec": patch})
    assert target == before
    assert patch == patch_before
    return result["spec"]


C1, C2 = {"name": "c1", "image": "i"}, {"name": "c2", "image": "j"}


def test_containers_merge_by_name():
    assert patched_spec({"containers": [C1, C2]}, {"containers": [{"name": "c2", "image": "k"}]}) == {
        "containers": [C1, {"name": "c2", "image": "k"}]
    }


def test_lists_inside_list_items_merge_by_their_own_keys():
    env = [{"name": "A", "value": "1"}]
    ports = [{"containerPort": 80}]
    result = patched_spec(
        {"containers": [{"name": "c", "env": env, "ports": ports, "args": ["x"]}]},
        {
            "containers": [
                {
                    "name": "c",
                    "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
                    "ports": [{"containerPort": 81}],
                    "args": ["y"],
                }
            ]
        },
    )
    (container,) = result["containers"]
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {"A": "2", "B": "3"}
    assert {entry["containerPort"] for entry in container["ports"]} == {80, 81}
    assert container["args"] == ["y"]


def test_tolerations_are_replaced_as_a_whole():
    assert patched_spec({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}) == {
        "tolerations": [{"key": "b"}]
    }


def test_an_item_is_deleted_by_its_key():
    assert patched_spec({"containers": [C1, C2]}, {"containers": [{"name": "c1", "$patch": "delete"}]}) == {
        "containers": [C2]
    }


def test_a_list_is_replaced_on_request():
    assert patched_spec({"containers": [C1, C2]}, {"containers": [{"$patch": "replace"}, {"name": "c3"}]}) == {
        "containers": [{"name": "c3"}]
    }


def test_an_object_is_replaced_or_emptied_on_request():
    assert patched_spec({"x": {"a": 1}}, {"x": {"$patch": "replace", "b": 2}}) == {"x": {"b": 2}}
    assert patched_spec({"x": {"a": 1}}, {"x": {"$patch": "delete"}}) == {"x": {}}


def test_the_order_of_elements_can_be_set():
    result = patched_spec(
        {"containers": [C1, C2]},
        {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}], "containers": [{"name": "c1", "image": "z"}]},
    )
    assert result == {"containers": [C2, {"name": "c1", "image": "z"}]}


def test_finalizers_are_a_set():
    target = {"kind": "ConfigMap", "metadata": {"finalizers": ["a", "b"]}}
    added = strategic_merge_patch(target, {"metadata": {"finalizers": ["c"]}})
    assert sorted(added["metadata"]["finalizers"]) == ["a", "b", "c"]
    removed = strategic_merge_patch(target, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert removed["metadata"]["finalizers"] == ["b"]


def test_owner_references_merge_by_uid():
    target = {"kind": "ConfigMap", "metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}
    patch = {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}, {"uid": "2", "name": "c"}]}}
    assert strategic_merge_patch(target, patch)["metadata"]["ownerReferences"] == [
        {"uid": "1", "name": "b"},
        {"uid": "2", "name": "c"},
    ]


def test_retained_keys_push_the_others_out():
    assert patched_spec({"x": {"a": 1, "b": 2}}, {"x": {"$retainKeys": ["b", "c"], "c": 3}}) == {"x": {"b": 2, "c": 3}}


def test_image_pull_secrets_merge_in_pods_and_are_replaced_in_service_accounts():
    old, new = [{"name": "a"}], [{"name": "b"}]
    assert len(patched_spec({"imagePullSecrets": old}, {"imagePullSecrets": new})["imagePullSecrets"]) == 2
    account = {"kind": "ServiceAccount", "imagePullSecrets": old, "secrets": old}
    result = strategic_merge_patch(account, {"imagePullSecrets": new, "secrets": new})
    assert result["imagePullSecrets"] == new
    assert len(result["secrets"]) == 2


def test_nulls_and_directives_of_new_values_are_dropped():
    assert patched_spec({}, {"x": {"a": None, "b": 1}, "containers": [{"name": "a", "$patch": "delete"}]}) == {
        "x": {"b": 1},
        "containers": [],
    }


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"containers": [{"image": "x"}]}, 500, "map: map[image:x] does not contain declared merge key: name"),
        (
            {"containers": [{"name": "c", "$patch": "bogus"}]},
            500,
            "unknown patch type: bogus in map: map[$patch:bogus name:c]",
        ),
        ({"x": {"$retainKeys": ["a"], "b": 1}}, 400, "invalid patch format of retainKeys"),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(patch: dict[str, Any], code: int, message: str):
    with pytest.raises(ApiFailure) as refused:
        patched_spec({"containers": [C1], "x": {"a": 1}}, patch)
    assert (refused.value.code, refused.value.message) == (code, message)
