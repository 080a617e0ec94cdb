import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.embedded.api.patching.patches import json_patch, merge_patch, same_json
from paddock.embedded.api.status import ApiFailure

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "y"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c/d", "~"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


# --------------------------------------------------------------------- merge patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_its_rfc(target: Any, patch: Any, result: Any):
    assert merge_patch(target, patch) == result


def test_nulls_inside_new_lists_are_treated_as_the_real_server_does():
    assert merge_patch({}, {"a": [{"d": None, "e": 1}, None]}) == {"a": [{"e": 1}, None]}


def with_clean_lists(value: Any) -> Any:
    """Nulls inside lists go: the real server drops them or not, depending on what the list replaces."""
    if isinstance(value, dict):
        return {k: with_clean_lists(v) for k, v in value.items()}
    return without_nulls(value)


@given(OBJECT, OBJECT)
def test_merging_a_patch_twice_is_as_once(target: dict[str, Any], patch: dict[str, Any]):
    patch = with_clean_lists(patch)
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@given(OBJECT)
def test_an_empty_patch_changes_nothing(target: dict[str, Any]):
    assert merge_patch(target, {}) == target


@given(OBJECT)
def test_a_patch_of_nothing_becomes_the_patch_without_its_nulls(patch: dict[str, Any]):
    assert merge_patch({}, patch) == without_nulls(patch)


@given(OBJECT, OBJECT)
def test_patches_never_change_their_inputs(target: dict[str, Any], patch: dict[str, Any]):
    before, patch_before = copy.deepcopy(target), copy.deepcopy(patch)
    merge_patch(target, patch)
    assert same_json(target, before)
    assert same_json(patch, patch_before)


# ---------------------------------------------------------------------- JSON patch

DOCUMENT = {"a": 1, "l": [1, 2, 3], "o": {"x": {"y": 2}}, "a/b~c": 0}


@pytest.mark.parametrize(
    ("operation", "path", "result"),
    [
        ({"op": "add", "path": "/l/-", "value": 4}, "l", [1, 2, 3, 4]),
        ({"op": "add", "path": "/l/1", "value": 9}, "l", [1, 9, 2, 3]),
        ({"op": "add", "path": "/l/3", "value": 9}, "l", [1, 2, 3, 9]),
        ({"op": "add", "path": "/a", "value": {"z": 1}}, "a", {"z": 1}),
        ({"op": "remove", "path": "/l/0"}, "l", [2, 3]),
        ({"op": "remove", "path": "/l/-1"}, "l", [1, 2]),
        ({"op": "remove", "path": "/o/x"}, "o", {}),
        ({"op": "replace", "path": "/l/2", "value": 0}, "l", [1, 2, 0]),
        ({"op": "replace", "path": "/o/new", "value": 0}, "o", {"x": {"y": 2}, "new": 0}),
        ({"op": "replace", "path": "/a~1b~0c", "value": 1}, "a/b~c", 1),
        ({"op": "move", "from": "/a", "path": "/o/a"}, "o", {"x": {"y": 2}, "a": 1}),
        ({"op": "copy", "from": "/o/x", "path": "/o/z"}, "o", {"x": {"y": 2}, "z": {"y": 2}}),
        ({"op": "test", "path": "/o/x", "value": {"y": 2}}, "a", 1),
        ({"op": "test", "path": "/absent", "value": None}, "a", 1),
    ],
)
def test_an_operation_does_what_it_says(operation: dict[str, Any], path: str, result: Any):
    before = copy.deepcopy(DOCUMENT)
    assert json_patch(DOCUMENT, [operation])[path] == result
    assert before == DOCUMENT


def test_operations_follow_each_other():
    patch = [{"op": "move", "from": "/a", "path": "/b"}, {"op": "test", "path": "/b", "value": 1}]
    assert "a" not in json_patch(DOCUMENT, patch)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": "/l/9"},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/l/9", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "value": 1},
        {"op": "move", "from": "/nope", "path": "/b"},
        {"op": "bogus", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_an_operation_that_fails_is_unprocessable(operation: dict[str, Any]):
    with pytest.raises(ApiFailure) as refused:
        json_patch(DOCUMENT, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        ([1], "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
    ],
)
def test_what_is_no_patch_is_a_bad_request(patch: Any, message: str):
    with pytest.raises(ApiFailure) as refused:
        json_patch(DOCUMENT, patch)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_a_patch_has_a_limit():
    with pytest.raises(ApiFailure) as refused:
        json_patch({}, [{"op": "test", "path": "/a", "value": None}] * 10_001)
    assert refused.value.code == 413


@given(OBJECT, JSON)
def test_what_is_added_can_be_tested_and_removed_again(target: dict[str, Any], value: Any):
    added = json_patch(target, [{"op": "add", "path": "/new", "value": value}])
    assert json_patch(added, [{"op": "test", "path": "/new", "value": value}]) == added
    assert json_patch(added, [{"op": "remove", "path": "/new"}]) == target
