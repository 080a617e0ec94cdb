import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.embedded.api.widget_kind import SCHEMA, STATUS, widget

from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.conformity import conforming
from paddock.embedded.api.validation.schema import apply_defaults, prune, validate
from paddock.embedded.api.validation.violations import _explain


def told(**spec: Any) -> list[tuple[str, str, str]]:
    return [(cause.reason, cause.field, cause.message) for cause in validate(SCHEMA, widget(**spec))]


# ------------------------------------------------------------------------ pruning


def test_unknown_fields_go_and_their_paths_are_told_in_order():
    obj = {**widget(bogus=1, items=[{"name": "a", "x": 1}], net={"sub": {"q": 1}}), "other": {}}
    pruned, unknown = prune(SCHEMA, obj)
    assert unknown == ["other", "spec.bogus", "spec.items[0].x", "spec.net.sub.q"]
    assert pruned == widget(items=[{"name": "a"}], net={"sub": {}})


def test_pruning_never_changes_its_input():
    obj = widget(bogus=1, net={"sub": {"q": 1}}, embed={"metadata": {"extra": 1}})
    before = copy.deepcopy(obj)
    prune(SCHEMA, obj)
    assert obj == before


def test_an_object_without_unknown_fields_is_returned_as_it_is():
    obj = widget(type="M1-M", free={"any": {"thing": [1]}}, map={"k": "v"})
    pruned, unknown = prune(SCHEMA, obj)
    assert pruned is obj
    assert unknown == []


def test_preserved_objects_keep_unknown_fields_but_not_inside_their_declared_ones():
    pruned, unknown = prune(SCHEMA, widget(free={"a": {"b": 1}}, half={"u": {"v": 1}, "known": {"q": "1", "w": 2}}))
    assert pruned["spec"] == {"free": {"a": {"b": 1}}, "half": {"u": {"v": 1}, "known": {"q": "1"}}}
    assert unknown == ["spec.half.known.w"]


def test_values_of_free_maps_are_pruned_too():
    schema = {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}}
    wrapped = {"type": "object", "properties": {"spec": schema}}
    pruned, unknown = prune(wrapped, {"spec": {"any": {"k": "v", "x": 1}}})
    assert pruned == {"spec": {"any": {"k": "v"}}}
    assert unknown == ["spec.any.x"]


def test_metadata_loses_unknown_and_empty_fields_only():
    obj = widget(metadata={"extra": 1, "labels": {}, "finalizers": ["h.dev/a"]})
    pruned, unknown = prune(SCHEMA, obj)
    assert pruned["metadata"] == {"name": "w", "namespace": "default", "finalizers": ["h.dev/a"]}
    assert unknown == ["metadata.extra"]


def test_an_embedded_resource_keeps_its_type_and_metadata():
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "extra": 1}, "spec": {"x": 1}}
    pruned, unknown = prune(SCHEMA, widget(embed=embedded))
    assert pruned["spec"]["embed"] == {**embedded, "metadata": {"name": "p"}}
    assert unknown == ["spec.embed.metadata.extra"]


# ----------------------------------------------------------------------- defaults


def test_defaults_are_filled_in_at_every_depth_that_is_there():
    spec = apply_defaults(SCHEMA, widget(net={}, items=[{"name": "a"}], keyed=[{"port": 1}]))["spec"]
    assert spec == {
        "slots": 2,
        "nul": "d",
        "net": {"sub": {"z": "zz"}},
        "items": [{"name": "a", "mode": "auto"}],
        "keyed": [{"port": 1, "proto": "TCP"}],
    }


def test_a_null_gives_way_to_a_default_unless_it_is_allowed():
    spec = apply_defaults(SCHEMA, widget(slots=None, nul=None, type=None, net=None))["spec"]
    assert spec == {"slots": 2, "nul": None}


def test_defaulting_changes_neither_its_input_nor_the_schema():
    obj = widget(net={})
    before, schema_before = copy.deepcopy(obj), copy.deepcopy(SCHEMA)
    apply_defaults(SCHEMA, obj)["spec"]["net"]["sub"]["z"] = "changed"
    assert obj == before
    assert schema_before == SCHEMA


def test_an_object_that_lacks_nothing_is_returned_as_it_is():
    obj = widget(slots=1, nul="x")
    assert apply_defaults(SCHEMA, obj) is obj


# --------------------------------------------------------------------- violations

_OF_ONE_FIELD = [
    (
        {"type": "BAD"},
        "FieldValueNotSupported",
        "spec.type",
        'Unsupported value: "BAD": supported values: "M1-M", "M2-M"',
    ),
    (
        {"slots": 0},
        "FieldValueInvalid",
        "spec.slots",
        "Invalid value: 0: spec.slots in body should be greater than or equal to 1",
    ),
    (
        {"slots": 11},
        "FieldValueInvalid",
        "spec.slots",
        "Invalid value: 11: spec.slots in body should be less than or equal to 10",
    ),
    (
        {"slots": "x"},
        "FieldValueTypeInvalid",
        "spec.slots",
        'Invalid value: "string": spec.slots in body must be of type integer: "string"',
    ),
    (
        {"small": True},
        "FieldValueTypeInvalid",
        "spec.small",
        'Invalid value: "": spec.small in body must be of type int32: ""',
    ),
    (
        {"small": 2**40},
        "FieldValueInvalid",
        "<nil>",
        'Invalid value: "": Checked value must be of type integer with format int32 in spec.small',
    ),
    (
        {"ratio": 0.1},
        "FieldValueInvalid",
        "spec.ratio",
        "Invalid value: 0.1: spec.ratio in body should be greater than or equal to 0.5",
    ),
    ({"tags": ["a", "b", "a"]}, "FieldValueDuplicate", "spec.tags[2]", 'Duplicate value: "a"'),
    (
        {"items": [{"name": "a"}, {"name": "a"}]},
        "FieldValueDuplicate",
        "spec.items[1]",
        'Duplicate value: {"name":"a"}',
    ),
    ({"items": [{"port": 1}]}, "FieldValueRequired", "spec.items[0].name", "Required value"),
    (
        {"plain": []},
        "FieldValueInvalid",
        "spec.plain",
        "Invalid value: 0: spec.plain in body should have at least 1 items",
    ),
    ({"plain": ["a"] * 4}, "FieldValueTooMany", "spec.plain", "Too many: 4: must have at most 3 items"),
    ({"plain": ["toolong"]}, "FieldValueTooLong", "spec.plain[0]", "Too long: may not be more than 5 bytes"),
    (
        {"pat": "b"},
        "FieldValueInvalid",
        "spec.pat",
        'Invalid value: "b": spec.pat in body should be at least 3 chars long',
    ),
    (
        {"pat": "abc"},
        "FieldValueInvalid",
        "spec.pat",
        "Invalid value: \"abc\": spec.pat in body should match '^a[0-9]+$'",
    ),
    (
        {"pat": "a12\n"},
        "FieldValueInvalid",
        "spec.pat",
        "Invalid value: \"a12\\n\": spec.pat in body should match '^a[0-9]+$'",
    ),
    (
        {"when": "noon"},
        "FieldValueTypeInvalid",
        "spec.when",
        'Invalid value: "noon": spec.when in body must be of type date-time: "noon"',
    ),
    (
        {"ios": True},
        "FieldValueTypeInvalid",
        "spec.ios",
        'Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"',
    ),
    (
        {"map": {"a": 1}},
        "FieldValueTypeInvalid",
        "spec.map.a",
        'Invalid value: "integer": spec.map.a in body must be of type string: "integer"',
    ),
    (
        {"net": [1]},
        "FieldValueTypeInvalid",
        "spec.net",
        'Invalid value: "array": spec.net in body must be of type object: "array"',
    ),
    ({"embed": {"kind": "Pod"}}, "FieldValueRequired", "spec.embed.apiVersion", "Required value"),
]


@pytest.mark.parametrize(("spec", "reason", "field", "message"), _OF_ONE_FIELD, ids=lambda value: str(value)[:40])
def test_a_violation_is_told_in_the_words_of_the_real_server(
    spec: dict[str, Any], reason: str, field: str, message: str
):
    assert (reason, field, message) in told(**spec)


def test_all_violations_are_told_at_once():
    fields = [field for _, field, _ in told(type="BAD", slots=0, items=[{"name": "a"}, {"name": "a"}], flag=1)]
    assert fields == ["spec.type", "spec.slots", "spec.flag", "spec.items[1]"]


def test_a_value_of_the_wrong_type_is_also_held_against_the_enum():
    assert [reason for reason, _, _ in told(type=5)] == ["FieldValueTypeInvalid", "FieldValueNotSupported"]


def test_oneof_is_told_without_a_field_and_with_the_closest_alternative():
    assert told(either={}) == [
        (
            "FieldValueInvalid",
            "<nil>",
            'Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found none valid',
        ),
        ("FieldValueRequired", "spec.either.a", "Required value"),
    ]
    assert told(either={"a": "1", "b": "2"})[0][2].endswith("Found 2 valid alternatives")


def test_a_valid_object_has_no_violations():
    assert told(type="M1-M", slots=3, ratio=1, tags=["a"], when="2026-01-01T00:00:00.5+02:00", ios="x", nul=None) == []


def test_a_missing_spec_is_a_violation_of_its_own():
    obj = widget()
    del obj["spec"]
    assert validate(SCHEMA, obj) == [Cause("FieldValueRequired", "Required value", "spec")]


def test_what_was_invalid_before_and_did_not_change_is_let_through_an_update():
    old = widget(type="BAD", slots=0, tags=["a", "a"])
    new = widget(type="BAD", slots=-1, tags=["a", "a"], flag=True)
    assert [cause.field for cause in validate(SCHEMA, new, old)] == ["spec.slots"]


def test_items_of_a_keyed_list_are_compared_with_their_former_selves():
    old = widget(items=[{"name": "a", "port": 0}])
    new = widget(items=[{"name": "b", "port": 0}, {"name": "a", "port": 0}])
    assert [cause.field for cause in validate(SCHEMA, new, old)] == ["spec.items[0].port"]


def test_through_status_only_the_status_is_judged_and_its_messages_leave_the_prefix_out():
    obj = {**widget(type="BAD"), "status": {"phase": 1}}
    assert validate(SCHEMA, obj, subresource="status") == [
        Cause(
            "FieldValueTypeInvalid",
            'Invalid value: "integer": phase in body must be of type string: "integer"',
            "status.phase",
        )
    ]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 20)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from(["a", "a12", "M1-M", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "port", "a", "b", "type", "phase", "conditions"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(SCHEMA["properties"]["spec"]["properties"])), _JSON)
def test_the_quick_check_never_passes_what_the_thorough_one_refuses(name: str, value: Any):
    schema = SCHEMA["properties"]["spec"]["properties"][name]
    if conforming(schema)(value):
        assert _explain(schema, value, "x", object()) == []


@given(_JSON)
def test_the_quick_check_of_a_status_never_passes_what_the_thorough_one_refuses(value: Any):
    if conforming(STATUS)(value):
        assert _explain(STATUS, value, "x", object()) == []


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"]["spec"]["properties"])), _JSON, max_size=4))
def test_pruning_and_defaulting_twice_is_as_once(spec: dict[str, Any]):
    once = apply_defaults(SCHEMA, prune(SCHEMA, widget(**spec))[0])
    again, unknown = prune(SCHEMA, once)
    assert unknown == []
    assert apply_defaults(SCHEMA, again) == once
