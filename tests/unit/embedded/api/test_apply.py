import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.embedded.api.widget_kind import WIDGET, widget

from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.managed_fields.apply import LAST_APPLIED, apply, manager_from, track_update
from paddock.embedded.api.managed_fields.fields import PathSet
from paddock.embedded.api.status import ApiFailure

NOW = datetime(2026, 6, 12, 7, 6, 59, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
Json = dict[str, Any]


def applying(live: Json | None, config: Json, manager: str = "a", **options: Any) -> Json:
    options.setdefault("now", NOW)
    result = apply(WIDGET, live, config, manager=manager, **options)
    if live is None:
        result["metadata"]["uid"] = "u"
    return result


def created(manager: str = "m", **spec: Any) -> Json:
    obj = widget(metadata={"uid": "u"}, **spec)
    obj["metadata"]["managedFields"] = track_update(WIDGET, None, obj, manager=manager, now=NOW)
    return obj


def updated(live: Json, manager: str = "m", *, subresource: str = "", now: datetime = NOW, **parts: Any) -> Json:
    new = {**copy.deepcopy(live), **parts}
    entries = track_update(WIDGET, live, new, manager=manager, subresource=subresource, now=now)
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def fields_of(obj: Json, manager: str, operation: str = "") -> Json | None:
    for entry in obj["metadata"].get("managedFields", []):
        if entry["manager"] == manager and operation in {"", entry["operation"]}:
            return entry["fieldsV1"]
    return None


# ------------------------------------------------------------------ ordinary writes


def test_a_create_owns_everything_it_wrote_containers_included():
    obj = created(
        type="M1-M", items=[{"name": "x", "port": 1}], tags=["a"], map={"k": "v"}, one={"a": "1"}, plain=["p"]
    )
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "h.dev/v1",
            "time": "2026-06-12T07:06:59Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    ".": {},
                    "f:items": {".": {}, 'k:{"name":"x"}': {".": {}, "f:name": {}, "f:port": {}}},
                    "f:map": {".": {}, "f:k": {}},
                    "f:one": {},
                    "f:plain": {},
                    "f:tags": {".": {}, 'v:"a"': {}},
                    "f:type": {},
                }
            },
        }
    ]


def test_what_the_server_sets_is_nobodys():
    obj = widget(
        metadata={"uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "t", "labels": {"a": "b"}}
    )
    (entry,) = track_update(WIDGET, None, obj, manager="m", now=NOW)
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {}}


def test_a_change_moves_the_field_to_whoever_made_it():
    live = created(type="M1-M", slots=1)
    after = updated(live, "other", spec={"type": "M1-M", "slots": 2}, now=LATER)
    assert fields_of(after, "m") == {"f:spec": {".": {}, "f:type": {}}}
    assert fields_of(after, "other") == {"f:spec": {"f:slots": {}}}


def test_a_write_that_changes_nothing_keeps_every_entry_as_it_was():
    live = created(type="M1-M")
    assert updated(live, "other", now=LATER)["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_the_same_field_written_again_renews_the_time_and_leaves_other_entries_alone():
    live = updated(created(slots=1), "c", subresource="status", status={"phase": "A"})
    after = updated(live, "c", subresource="status", status={"phase": "B"}, now=LATER)
    mine, other = sorted(after["metadata"]["managedFields"], key=lambda entry: entry["manager"])
    assert (mine["time"], mine["subresource"]) == ("2026-06-12T07:07:59Z", "status")
    assert any(other is entry for entry in live["metadata"]["managedFields"])


def test_what_is_removed_belongs_to_nobody_and_an_empty_entry_goes():
    live = updated(created(type="M1-M"), "other", spec={"type": "M1-M", "flag": True})
    after = updated(live, "third", spec={"type": "M1-M"})
    assert fields_of(after, "other") is None
    assert fields_of(after, "third") is None


def test_status_is_not_counted_through_the_main_resource_nor_spec_through_status():
    live = created(type="M1-M")
    assert updated(live, "x", status={"phase": "A"})["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    after = updated(live, "x", subresource="status", spec={"type": "M2-M"}, status={"phase": "A"})
    assert fields_of(after, "x") == {"f:status": {".": {}, "f:phase": {}}}


def test_an_empty_list_of_managed_fields_clears_them_until_the_next_apply():
    live = created(type="M1-M")
    for cleared in ([], [{}]):
        new = {**live, "metadata": {**live["metadata"], "managedFields": cleared}}
        assert track_update(WIDGET, live, new, manager="m", now=NOW) == []
    bare = widget(metadata={"uid": "u"}, type="M1-M")
    assert track_update(WIDGET, bare, {**bare, "spec": {}}, manager="m", now=NOW) == []
    after = applying(bare, widget(slots=3), "a")
    assert fields_of(after, "before-first-apply") == {"f:spec": {".": {}, "f:type": {}}}


def test_managed_fields_that_make_no_sense_are_ignored():
    live = created(type="M1-M")
    new = {**live, "metadata": {**live["metadata"], "managedFields": [{"manager": "x", "operation": "Steal"}]}}
    assert track_update(WIDGET, live, new, manager="m", now=NOW) == live["metadata"]["managedFields"]


def test_old_updates_are_joined_when_there_are_more_than_ten_managers():
    live = created(slots=1)
    for number in range(14):
        spec = {**live["spec"], "map": {**live["spec"].get("map", {}), f"k{number}": "v"}}
        live = updated(live, f"m{number:02}", spec=spec, now=NOW + timedelta(seconds=number))
    managers = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert "ancient-changes" in managers
    assert "m13" in managers


def test_a_built_in_does_not_own_the_parts_its_type_always_has():
    kind = Kind(group="", version="v1", kind="Pod", plural="pods", singular="pod", namespaced=True, status=True)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}},
    }
    (entry,) = track_update(kind, None, pod, manager="m", now=NOW)
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:containers": {
                'k:{"name":"c"}': {".": {}, "f:name": {}, "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}}}
            },
            "f:nodeSelector": {},
        }
    }


def test_the_manager_is_named_by_the_request_or_its_user_agent():
    assert manager_from("me", "kubectl/v1") == "me"
    assert manager_from("", "kubectl/v1.36 (linux)") == "kubectl"
    assert manager_from(None, "a\tb/1") == "ab"
    assert manager_from(None, None) == "unknown"
    assert len(manager_from(None, "é" * 200).encode()) <= 128


# ---------------------------------------------------------------------------- apply


def test_an_apply_owns_just_what_was_sent():
    live = applying(None, widget(type="M1-M", items=[{"name": "x"}], map={"k": "v"}, net={"vpc": "a"}, tags=["t"]))
    assert live["metadata"]["managedFields"][0]["operation"] == "Apply"
    assert fields_of(live, "a") == {
        "f:spec": {
            "f:items": {'k:{"name":"x"}': {".": {}, "f:name": {}}},
            "f:map": {"f:k": {}},
            "f:net": {"f:vpc": {}},
            "f:tags": {'v:"t"': {}},
            "f:type": {},
        }
    }


def test_a_field_left_out_of_the_next_apply_goes_unless_somebody_else_owns_it():
    live = applying(None, widget(type="M1-M", flag=True, items=[{"name": "x", "port": 1}, {"name": "y"}]))
    live = applying(live, widget(flag=True), "b")
    after = applying(live, widget(items=[{"name": "y"}]))
    assert after["spec"] == {"flag": True, "items": [{"name": "y"}]}
    assert fields_of(after, "b") == {"f:spec": {"f:flag": {}}}


def test_an_item_goes_with_its_owner_whatever_others_put_into_it():
    live = applying(None, widget(items=[{"name": "x", "port": 1}, {"name": "y"}]))
    live = updated(live, "other", spec={"items": [{"name": "x", "port": 1, "opts": {"x": "1"}}, {"name": "y"}]})
    after = applying(live, widget(items=[{"name": "y"}]))
    assert after["spec"]["items"] == [{"name": "y"}]
    assert fields_of(after, "other") is None


def test_equal_values_are_shared_without_conflict():
    live = applying(None, widget(slots=3))
    after = applying(live, widget(slots=3), "b", now=LATER)
    assert fields_of(after, "a") == fields_of(after, "b") == {"f:spec": {"f:slots": {}}}


def test_a_different_value_is_a_conflict_that_names_the_field_and_its_owner():
    live = applying(None, widget(net={"vpc": "a"}), "kubectl")
    with pytest.raises(ApiFailure) as refused:
        applying(live, widget(net={"vpc": "b"}), "other")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "kubectl": .spec.net.vpc'
    assert refused.value.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".spec.net.vpc"}]
    }


def test_conflicts_with_several_owners_are_listed_by_owner():
    live = updated(
        created("ctl", slots=1, items=[{"name": "x", "port": 1}]), "st", subresource="status", status={"phase": "P"}
    )
    with pytest.raises(ApiFailure) as refused:
        applying(live, widget(slots=2, items=[{"name": "x", "port": 2}]))
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "ctl" using h.dev/v1:\n- .spec.slots\n- .spec.items[name="x"].port'
    )
    with pytest.raises(ApiFailure) as refused:
        applying(live, {**widget(), "status": {"phase": "Q"}}, subresource="status")
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "st" with subresource "status" using h.dev/v1: .status.phase'
    )


def test_force_takes_the_field_away():
    live = applying(None, widget(slots=3, flag=True))
    after = applying(live, widget(slots=4), "b", force=True)
    assert after["spec"]["slots"] == 4
    assert fields_of(after, "a") == {"f:spec": {"f:flag": {}}}


def test_keyed_items_come_in_the_applied_order_and_others_keep_their_place():
    live = created(items=[{"name": n} for n in ("a", "b", "c", "d")])
    after = applying(live, widget(items=[{"name": "e"}, {"name": "c"}, {"name": "a"}]))
    assert [item["name"] for item in after["spec"]["items"]] == ["b", "e", "c", "d", "a"]


def test_a_key_with_a_default_identifies_an_item_even_when_it_is_left_out():
    live = created(keyed=[{"port": 1, "proto": "TCP", "v": "x"}])
    after = applying(live, widget(keyed=[{"port": 1, "v": "y"}]), force=True)
    assert after["spec"]["keyed"] == [{"port": 1, "proto": "TCP", "v": "y"}]


def test_atomic_objects_and_lists_are_replaced_as_one():
    live = applying(None, widget(one={"a": "1"}, plain=["x"]))
    after = applying(live, widget(one={"b": "2"}, plain=["y"]))
    assert after["spec"] == {"one": {"b": "2"}, "plain": ["y"]}


def test_metadata_is_owned_label_by_label_and_finalizer_by_finalizer():
    config = widget(
        metadata={"labels": {"a": "1"}, "finalizers": ["h.dev/f"], "ownerReferences": [{"uid": "o", "name": "n"}]}
    )
    live = applying(None, config)
    assert fields_of(live, "a") == {
        "f:metadata": {
            "f:finalizers": {'v:"h.dev/f"': {}},
            "f:labels": {"f:a": {}},
            "f:ownerReferences": {'k:{"uid":"o"}': {}},
        },
        "f:spec": {},
    }


@pytest.mark.parametrize(
    ("config", "manager", "code", "message"),
    [
        (
            widget(bogus=1),
            "m",
            500,
            "failed to create typed patch object (default/w; h.dev/v1, Kind=Widget): .spec.bogus: field not declared in schema",
        ),
        (
            widget(slots="x"),
            "m",
            500,
            "failed to create typed patch object (default/w; h.dev/v1, Kind=Widget): .spec.slots: expected numeric (int or float), got string",
        ),
        (
            widget(tags=["a", "a"]),
            "m",
            500,
            'failed to create typed patch object (default/w; h.dev/v1, Kind=Widget): .spec.tags: duplicate entries for key [="a"]',
        ),
        (
            widget(),
            "",
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (widget(metadata={"managedFields": []}), "m", 400, "metadata.managedFields must be nil"),
        ({**widget(), "apiVersion": "h.dev/v2"}, "m", 400, "invalid object type: h.dev/v2, Kind=Widget"),
    ],
    ids=["undeclared", "type", "duplicate", "no manager", "managedFields", "version"],
)
def test_an_apply_that_cannot_be_read_is_refused(config: Json, manager: str, code: int, message: str):
    with pytest.raises(ApiFailure) as refused:
        applying(None, config, manager)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_kubectl_may_take_over_what_its_client_side_apply_wrote():
    before = widget(slots=1)
    annotations = {LAST_APPLIED: json.dumps(before)}
    live = widget(metadata={"uid": "u", "annotations": annotations}, slots=1)
    live["metadata"]["managedFields"] = track_update(WIDGET, None, live, manager="kubectl-client-side-apply", now=NOW)
    with pytest.raises(ApiFailure):
        applying(live, widget(slots=2), "somebody")
    after = applying(live, widget(slots=2), "kubectl")
    assert after["spec"]["slots"] == 2
    assert json.loads(after["metadata"]["annotations"][LAST_APPLIED]) == widget(slots=2)


# ----------------------------------------------------------------------- properties

_NAMES = st.sampled_from(["x", "y", "z"])
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["M1-M", "M2-M"]),
        "slots": st.integers(1, 3),
        "tags": st.lists(_NAMES, unique=True, max_size=3),
        "items": st.lists(_NAMES, unique=True, max_size=3).flatmap(
            lambda names: st.tuples(
                *(
                    st.fixed_dictionaries(
                        {"name": st.just(n)}, optional={"port": st.integers(1, 2), "opts": st.just({"x": "1"})}
                    )
                    for n in names
                )
            ).map(list)
        ),
        "map": st.dictionaries(_NAMES, st.sampled_from(["1", "2"]), max_size=2),
        "net": st.fixed_dictionaries({}, optional={"vpc": _NAMES}),
        "free": st.dictionaries(_NAMES, st.dictionaries(_NAMES, st.integers(0, 1), max_size=2), max_size=2),
        "one": st.fixed_dictionaries({}, optional={"a": _NAMES}),
    },
)


@given(_SPECS, _SPECS)
def test_applying_twice_is_as_once(base: Json, spec: Json):
    live = created(**base)
    once = applying(live, widget(**spec), force=True)
    assert applying(once, widget(**spec), now=LATER) == once


@given(_SPECS, _SPECS, _SPECS)
def test_an_apply_never_changes_its_inputs(base: Json, first: Json, second: Json):
    live = applying(created(**base), widget(**first), force=True)
    config, before = widget(**second), copy.deepcopy(live)
    config_before = copy.deepcopy(config)
    applying(live, config, force=True)
    assert live == before
    assert config == config_before


@given(_SPECS)
def test_what_one_manager_applied_and_then_dropped_disappears(spec: Json):
    live = applying(None, widget(type="M1-M"), "keeper")
    live = applying(live, widget(**spec), force=True)
    after = applying(live, {key: value for key, value in widget().items() if key != "spec"})
    # A set or keyed list that was applied empty is owned by nobody, so nothing takes it away.
    left = {name: value for name, value in after.get("spec", {}).items() if value not in ([], None)}
    expected = {"type": "M1-M"} if spec.get("type", "M1-M") == "M1-M" else {}
    assert left == expected


@given(_SPECS)
def test_what_is_dropped_stays_while_another_manager_owns_it(spec: Json):
    live = applying(applying(None, widget(**spec), "a"), widget(**spec), "b")
    after = applying(live, {key: value for key, value in widget().items() if key != "spec"}, "a")
    assert after.get("spec", {}) == live.get("spec", {})
    assert fields_of(after, "a") is None
    assert fields_of(after, "b") == fields_of(live, "b")


@given(_SPECS, _SPECS, st.sampled_from(["m", "n"]))
def test_after_an_update_every_owned_path_is_still_there(first: Json, second: Json, manager: str):
    live = created(**first)
    after = updated(live, manager, spec=second)
    whole = PathSet(track_update(WIDGET, None, after, manager="x", now=NOW)[0]["fieldsV1"])
    for entry in after["metadata"]["managedFields"]:
        assert not PathSet.parse(entry["fieldsV1"]).difference(whole)
