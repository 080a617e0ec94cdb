"""Schemas: unknown fields, defaults, pruning, and violations that are told all at once."""

from __future__ import annotations

import json

from conformance.target import GROUP, Api, causes, refusal


async def test_unknown_fields_are_dropped_with_a_warning_by_default(api: Api) -> None:
    for query in ({}, {"fieldValidation": "Warn"}):
        answer = await api.http.post(
            api.gadgets,
            json={
                **api.gadget(generateName="g-", spec={"bogus": 1, "network": {"vpc": "a", "nope": 2}}),
                "extra": True,
            },
            params=query,
        )
        assert answer.status_code == 201
        assert "bogus" not in answer.json()["spec"]
        assert "extra" not in answer.json()
        assert answer.json()["spec"]["network"] == {"vpc": "a", "mode": "nat"}
        assert sorted(answer.headers.get_list("warning")) == [
            '299 - "unknown field \\"extra\\""',
            '299 - "unknown field \\"spec.bogus\\""',
            '299 - "unknown field \\"spec.network.nope\\""',
        ]


async def test_unknown_fields_are_dropped_in_silence_when_asked(api: Api) -> None:
    answer = await api.http.post(api.gadgets, json=api.gadget("g", {"bogus": 1}), params={"fieldValidation": "Ignore"})
    assert answer.status_code == 201
    assert "warning" not in answer.headers
    assert "bogus" not in answer.json()["spec"]


async def test_unknown_fields_are_refused_when_strict(api: Api) -> None:
    answer = await api.http.post(
        api.gadgets,
        json={**api.gadget("g", {"bogus": 1}), "extra": True},
        params={"fieldValidation": "Strict"},
    )
    assert refusal(answer, 400, "BadRequest") == (
        'Gadget in version "v1" cannot be handled as a Gadget: strict decoding error: '
        'unknown field "extra", unknown field "spec.bogus"'
    )


async def test_unknown_metadata_is_refused_when_strict(api: Api) -> None:
    answer = await api.http.post(api.gadgets, json=api.gadget("g", nonsense="x"), params={"fieldValidation": "Strict"})
    assert 'unknown field "metadata.nonsense"' in refusal(answer, 400, "BadRequest")


async def test_unknown_fields_in_a_put_are_refused_when_strict(api: Api) -> None:
    made = await api.make_gadget("g")
    made["spec"]["bogus"] = 1
    answer = await api.http.put(f"{api.gadgets}/g", json=made, params={"fieldValidation": "Strict"})
    assert 'strict decoding error: unknown field "spec.bogus"' in refusal(answer, 400, "BadRequest")


async def test_unknown_fields_in_a_patch_are_refused_when_strict(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g", {"spec": {"bogus": 1}}, fieldValidation="Strict")
    assert 'strict decoding error: unknown field "spec.bogus"' in refusal(answer, 422, "Invalid")
    assert list(causes(answer)) == ["patch"]


async def test_unknown_fields_of_built_in_kinds_follow_the_same_rule(api: Api) -> None:
    body = {"metadata": {"name": "c"}, "data": {"a": "1"}, "bogus": 1}
    answer = await api.http.post(api.configmaps, json=body, params={"fieldValidation": "Strict"})
    assert 'strict decoding error: unknown field "bogus"' in refusal(answer, 400, "BadRequest")
    answer = await api.http.post(api.configmaps, json=body)
    assert answer.status_code == 201
    assert "bogus" not in answer.json()
    assert answer.headers.get_list("warning") == ['299 - "unknown field \\"bogus\\""']


MISSPELT = {
    "pods": (
        {
            "spec": {
                "containers": [{"name": "c", "image": "registry.invalid/c", "env": [{"name": "A", "valeu": "1"}]}],
                "nodeName": "no-such-node",
                "bogusspec": 1,
            },
        },
        ("spec.bogusspec", "spec.containers[0].env[0].valeu"),
    ),
    "services": (
        {"spec": {"ports": [{"port": 80, "prot": "TCP"}], "clusterIP": "None", "selektor": {"a": "b"}}},
        ("spec.ports[0].prot", "spec.selektor"),
    ),
    "nodes": (
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule", "vlue": "b"}], "unscheduled": True}},
        ("spec.taints[0].vlue", "spec.unscheduled"),
    ),
}


async def test_a_misspelt_field_of_a_pod_a_node_or_a_service_is_dropped_with_a_warning(api: Api) -> None:
    for plural, (body, fields) in MISSPELT.items():
        path = "/api/v1/nodes" if plural == "nodes" else api.path(plural)
        named = {"metadata": {"name": api.unique("misspelt")}, **body}
        refused = await api.http.post(path, json=named, params={"fieldValidation": "Strict"})
        message = refusal(refused, 400, "BadRequest")
        answer = await api.http.post(path, json=named)
        assert answer.status_code == 201, answer.text
        warnings = " ".join(answer.headers.get_list("warning"))
        for field in fields:
            assert f'unknown field "{field}"' in message
            assert f'unknown field \\"{field}\\"' in warnings
            assert f'"{field.rpartition(".")[2]}"' not in json.dumps({"spec": answer.json()["spec"]})
        if plural == "nodes":
            await api.delete(f"{path}/{named['metadata']['name']}")


async def test_a_misspelt_field_of_a_pod_cannot_be_applied(api: Api) -> None:
    body, _ = MISSPELT["pods"]
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **body}
    answer = await api.apply(f"{api.pods}/p", applied, "m")
    assert ".spec.bogusspec: field not declared in schema" in refusal(answer, 500, "")


async def test_a_field_named_twice_is_refused_when_strict(api: Api) -> None:
    text = json.dumps(api.gadget("g", {"slots": 2})).replace('"slots": 2', '"slots": 2, "slots": 3')
    answer = await api.http.post(
        api.gadgets,
        content=text,
        headers={"Content-Type": "application/json"},
        params={"fieldValidation": "Strict"},
    )
    assert 'duplicate field "spec.slots"' in refusal(answer, 400, "BadRequest")


async def test_an_unknown_validation_level_is_refused(api: Api) -> None:
    answer = await api.http.post(api.gadgets, json=api.gadget("g"), params={"fieldValidation": "Hmm"})
    message = refusal(answer, 422, "Invalid")
    assert 'fieldValidation: Unsupported value: "Hmm": supported values: "", "Ignore", "Strict", "Warn"' in message


async def test_defaults_are_filled_in_at_every_depth(api: Api) -> None:
    made = await api.make_gadget("g", {"network": {"vpc": "a"}, "ports": [{"port": 80}]})
    assert made["spec"] == {
        "size": "medium",
        "replicas": 1,
        "network": {"vpc": "a", "mode": "nat"},
        "ports": [{"port": 80, "protocol": "TCP"}],
    }


async def test_a_default_does_not_make_its_parent(api: Api) -> None:
    made = await api.make_gadget("g")
    assert "network" not in made["spec"]
    without = await api.make(api.gadgets, {**api.gadget("h"), "spec": None})
    assert "spec" not in without or without["spec"] is None


async def test_a_null_takes_the_default_unless_null_is_allowed(api: Api) -> None:
    made = await api.make_gadget("g", {"size": None, "note": None})
    assert made["spec"]["size"] == "medium"
    assert made["spec"]["note"] is None


async def test_a_preserving_field_keeps_what_nobody_declared(api: Api) -> None:
    extra = {"any": {"thing": [1, "two", {"three": None}]}}
    made = await api.make_gadget("g", {"extra": extra, "settings": {"free": "text"}})
    assert made["spec"]["extra"] == extra
    assert made["spec"]["settings"] == {"free": "text"}


async def test_an_int_or_string_is_either(api: Api) -> None:
    assert (await api.make_gadget("a", {"limit": 5}))["spec"]["limit"] == 5
    assert (await api.make_gadget("b", {"limit": "50%"}))["spec"]["limit"] == "50%"
    answer = await api.http.post(api.gadgets, json=api.gadget("c", {"limit": 1.5}))
    refusal(answer, 422, "Invalid")


async def test_all_violations_are_told_at_once(api: Api) -> None:
    answer = await api.http.post(
        api.gadgets,
        json=api.gadget("g", {"size": "huge", "slots": 0, "network": {"mode": "x"}, "code": "UPPER1", "replicas": -1}),
    )
    message = refusal(answer, 422, "Invalid")
    assert message.startswith(f'Gadget.{GROUP} "g" is invalid: [')
    found = causes(answer)
    assert found["spec.size"] == (
        'FieldValueNotSupported: Unsupported value: "huge": supported values: "small", "medium", "large"'
    )
    assert found["spec.slots"] == (
        "FieldValueInvalid: Invalid value: 0: spec.slots in body should be greater than or equal to 1"
    )
    assert found["spec.network.vpc"] == "FieldValueRequired: Required value"
    assert "spec.code" in found
    assert "spec.replicas" in found
    details = answer.json()["details"]
    assert (details["name"], details["group"], details["kind"]) == ("g", GROUP, "Gadget")


async def test_each_rule_has_its_own_words(api: Api) -> None:
    for spec, field, words in (
        ({"slots": 11}, "spec.slots", "Invalid value: 11: spec.slots in body should be less than or equal to 10"),
        ({"code": "A"}, "spec.code", "Invalid value: \"A\": spec.code in body should match '^[a-z]+$'"),
        ({"code": "abcdef"}, "spec.code", "Too long: may not be more than 5 bytes"),
        ({"steps": [{}]}, "spec.steps[0].run", "Required value"),
        ({"steps": [{"run": "x"}] * 5}, "spec.steps", "Too many: 5: must have at most 4 items"),
        ({"tags": ["a", "a"]}, "spec.tags[1]", 'Duplicate value: "a"'),
        (
            {"ports": [{"port": 1}, {"port": 1}]},
            "spec.ports[1]",
            'Duplicate value: {"port":1,"protocol":"TCP"}',
        ),
    ):
        answer = await api.http.post(api.gadgets, json=api.gadget("g", spec))
        refusal(answer, 422, "Invalid")
        assert causes(answer)[field].split(": ", 1)[1] == words, spec


async def test_a_wrong_type_is_named(api: Api) -> None:
    for spec, field, words in (
        (
            {"slots": "two"},
            "spec.slots",
            'Invalid value: "string": spec.slots in body must be of type integer: "string"',
        ),
        ({"slots": 1.5}, "spec.slots", 'Invalid value: "number": spec.slots in body must be of type integer: "number"'),
        (
            {"enabled": "yes"},
            "spec.enabled",
            'Invalid value: "string": spec.enabled in body must be of type boolean: "string"',
        ),
        ({"tags": "x"}, "spec.tags", 'Invalid value: "string": spec.tags in body must be of type array: "string"'),
        (
            {"tags": [1]},
            "spec.tags[0]",
            'Invalid value: "integer": spec.tags[0] in body must be of type string: "integer"',
        ),
        (
            {"network": []},
            "spec.network",
            'Invalid value: "array": spec.network in body must be of type object: "array"',
        ),
    ):
        answer = await api.http.post(api.gadgets, json=api.gadget("g", spec))
        refusal(answer, 422, "Invalid")
        assert causes(answer)[field] == f"FieldValueTypeInvalid: {words}", spec


async def test_an_update_is_validated_too(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g", {"spec": {"slots": 0, "size": "huge"}})
    assert set(causes(answer)) == {"spec.slots", "spec.size"}
    refusal(answer, 422, "Invalid")


async def test_a_status_is_validated_at_its_own_door(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.patch(f"{api.gadgets}/g/status", {"status": {"conditions": [{"type": "Ready"}], "phase": 5}})
    refusal(answer, 422, "Invalid")
    assert set(causes(answer)) == {"status.conditions[0].status", "status.phase"}


async def test_a_value_of_the_wrong_shape_in_a_built_in_kind_is_a_bad_request(api: Api) -> None:
    answer = await api.http.post(api.configmaps, json={"metadata": {"name": "c"}, "data": {"a": 5}})
    assert "cannot unmarshal number" in refusal(answer, 400, "BadRequest")


async def test_a_config_map_key_is_checked(api: Api) -> None:
    answer = await api.http.post(api.configmaps, json={"metadata": {"name": "c"}, "data": {"bad key": "x"}})
    refusal(answer, 422, "Invalid")
    assert "data[bad key]" in causes(answer)
