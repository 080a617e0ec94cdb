"""POST: what the server adds, what it ignores, what it refuses."""

from __future__ import annotations

import re

from conformance.target import GROUP, Api, causes, refusal


async def test_a_created_object_carries_what_only_the_server_may_set(api: Api) -> None:
    made = await api.make(
        api.gadgets,
        api.gadget(
            "g",
            {"size": "small"},
            uid="11111111-1111-1111-1111-111111111111",
            generation=7,
            creationTimestamp="2001-01-01T00:00:00Z",
            deletionTimestamp="2001-01-01T00:00:00Z",
            selfLink="/somewhere",
            labels={"a": "b"},
        ),
    )
    meta = made["metadata"]
    assert meta["uid"] != "11111111-1111-1111-1111-111111111111"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert meta["generation"] == 1
    assert not meta["creationTimestamp"].startswith("2001")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])
    assert "deletionTimestamp" not in meta
    assert meta["namespace"] == api.namespace
    assert meta["labels"] == {"a": "b"}
    assert int(meta["resourceVersion"]) > 0
    assert (made["apiVersion"], made["kind"]) == (f"{GROUP}/v1", "Gadget")
    assert await api.see(f"{api.gadgets}/g") == made


async def test_kinds_without_a_spec_have_no_generation(api: Api) -> None:
    made = await api.make(api.configmaps, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    assert "generation" not in made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


async def test_the_status_is_dropped_where_it_has_its_own_door(api: Api) -> None:
    made = await api.make(api.gadgets, {**api.gadget("g"), "status": {"phase": "Ready"}})
    assert "status" not in made


async def test_a_generated_name_ends_in_five_characters_that_spell_nothing(api: Api) -> None:
    made = await api.make(api.gadgets, api.gadget(generateName="gen-"))
    assert re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["generateName"] == "gen-"
    again = await api.make(api.gadgets, api.gadget(generateName="gen-"))
    assert again["metadata"]["name"] != made["metadata"]["name"]


async def test_a_long_generated_name_is_cut_to_fit(api: Api) -> None:
    made = await api.make(api.configmaps, {"metadata": {"generateName": "x" * 80}})
    assert len(made["metadata"]["name"]) == 63


async def test_a_given_name_beats_a_generated_one(api: Api) -> None:
    made = await api.make(api.gadgets, api.gadget("mine", generateName="gen-"))
    assert made["metadata"]["name"] == "mine"
    assert made["metadata"]["generateName"] == "gen-"


async def test_a_second_object_of_the_same_name_is_refused(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.http.post(api.gadgets, json=api.gadget("g"))
    assert refusal(answer, 409, "AlreadyExists") == f'gadgets.{GROUP} "g" already exists'
    assert answer.json()["details"] == {"name": "g", "group": GROUP, "kind": "gadgets"}
    await api.make(api.configmaps, {"metadata": {"name": "c"}})
    answer = await api.http.post(api.configmaps, json={"metadata": {"name": "c"}})
    assert refusal(answer, 409, "AlreadyExists") == 'configmaps "c" already exists'
    assert answer.json()["details"] == {"name": "c", "kind": "configmaps"}


async def test_a_dry_run_answers_in_full_and_stores_nothing(api: Api) -> None:
    made = await api.make(api.gadgets, api.gadget("g"), dryRun="All")
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert "resourceVersion" not in made["metadata"]
    assert made["spec"]["size"] == "medium"
    assert (await api.http.get(f"{api.gadgets}/g")).status_code == 404


async def test_a_dry_run_of_a_name_that_exists_is_refused_too(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.http.post(api.gadgets, json=api.gadget("g"), params={"dryRun": "All"})
    refusal(answer, 409, "AlreadyExists")


async def test_an_unknown_dry_run_value_is_refused(api: Api) -> None:
    answer = await api.http.post(api.gadgets, json=api.gadget("g"), params={"dryRun": "Some"})
    message = refusal(answer, 422, "Invalid")
    assert message == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )


async def test_nothing_can_be_created_in_a_namespace_that_does_not_exist(api: Api) -> None:
    for plural, group_version, body in (
        ("gadgets", f"{GROUP}/v1", api.gadget("g")),
        ("configmaps", "v1", {"metadata": {"name": "c"}}),
    ):
        answer = await api.http.post(api.path(plural, group_version, namespace="nowhere-at-all"), json=body)
        assert refusal(answer, 404, "NotFound") == 'namespaces "nowhere-at-all" not found'
        assert answer.json()["details"] == {"name": "nowhere-at-all", "kind": "namespaces"}


async def test_a_name_must_be_a_dns_subdomain(api: Api) -> None:
    for path, body in ((api.gadgets, api.gadget("Not_A_Name")), (api.configmaps, {"metadata": {"name": "Not_A_Name"}})):
        answer = await api.http.post(path, json=body)
        assert "is invalid: metadata.name: Invalid value" in refusal(answer, 422, "Invalid")
        assert causes(answer)["metadata.name"].startswith(
            'FieldValueInvalid: Invalid value: "Not_A_Name": a lowercase RFC 1123 subdomain must consist of'
        )


async def test_a_namespace_name_must_be_a_dns_label(api: Api) -> None:
    answer = await api.http.post("/api/v1/namespaces", json={"metadata": {"name": "a.b"}})
    refusal(answer, 422, "Invalid")
    assert causes(answer)["metadata.name"] == 'FieldValueInvalid: Invalid value: "a.b": must not contain dots'


async def test_an_object_needs_a_name_or_a_base_for_one(api: Api) -> None:
    for path, body, kind in (
        (api.gadgets, api.gadget(), f"Gadget.{GROUP}"),
        (api.configmaps, {"metadata": {}}, "ConfigMap"),
    ):
        answer = await api.http.post(path, json=body)
        message = refusal(answer, 422, "Invalid")
        assert message == f'{kind} "" is invalid: metadata.name: Required value: name or generateName is required'
        assert causes(answer)["metadata.name"].startswith("FieldValueRequired: ")


async def test_labels_and_annotations_keys_are_checked(api: Api) -> None:
    answer = await api.http.post(
        api.gadgets, json=api.gadget("g", labels={"bad key": "x", "ok": "bad value!"}, annotations={"/no": "y"})
    )
    found = answer.json()["details"]["causes"]
    refusal(answer, 422, "Invalid")
    assert {cause["field"] for cause in found} == {"metadata.labels", "metadata.annotations"}


async def test_a_resource_version_cannot_be_chosen(api: Api) -> None:
    for path, body in ((api.gadgets, api.gadget("g")), (api.configmaps, {"metadata": {"name": "c"}})):
        body["metadata"]["resourceVersion"] = "5"
        answer = await api.http.post(path, json=body)
        assert refusal(answer, 500, "") == "resourceVersion should not be set on objects to be created"


async def test_the_body_must_not_contradict_the_url(api: Api) -> None:
    answer = await api.http.post(api.gadgets, json=api.gadget("g", namespace="elsewhere"))
    assert (
        refusal(answer, 400, "BadRequest")
        == "the namespace of the provided object does not match the namespace sent on the request"
    )
    answer = await api.http.post(api.gadgets, json={**api.gadget("g"), "apiVersion": "other/v1"})
    refusal(answer, 400, "BadRequest")
    answer = await api.http.post(api.gadgets, json={**api.gadget("g"), "kind": "Widget"})
    refusal(answer, 422, "Invalid")
    assert causes(answer) == {"kind": 'FieldValueInvalid: Invalid value: "Widget": must be Gadget'}
    answer = await api.http.post(api.configmaps, json={"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}})
    assert 'Secret in version "v1" cannot be handled as a ConfigMap' in refusal(answer, 400, "BadRequest")


async def test_a_body_in_yaml_is_understood(api: Api) -> None:
    text = f"apiVersion: {GROUP}/v1\nkind: Gadget\nmetadata:\n  name: from-yaml\nspec:\n  slots: 3\n"
    answer = await api.http.post(api.gadgets, content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201
    assert answer.json()["spec"]["slots"] == 3


async def test_a_body_that_cannot_be_read_is_a_bad_request(api: Api) -> None:
    for path in (api.gadgets, api.configmaps):
        answer = await api.http.post(path, content="{not json", headers={"Content-Type": "application/json"})
        refusal(answer, 400, "BadRequest")


async def test_a_body_of_an_unknown_media_type_is_refused(api: Api) -> None:
    for path in (api.gadgets, api.configmaps):
        answer = await api.http.post(path, content="<xml/>", headers={"Content-Type": "text/xml"})
        message = refusal(answer, 415, "UnsupportedMediaType")
        assert "the body of the request was in an unknown format - accepted media types include: " in message


async def test_the_manager_is_named_by_the_query_or_by_the_user_agent(api: Api) -> None:
    named = await api.make(api.gadgets, api.gadget("a"), fieldManager="boss")
    assert [e["manager"] for e in named["metadata"]["managedFields"]] == ["boss"]
    answer = await api.http.post(api.gadgets, json=api.gadget("b"), headers={"User-Agent": "robot/1.2 (x)"})
    assert [e["manager"] for e in answer.json()["metadata"]["managedFields"]] == ["robot"]


async def test_finalizers_must_be_qualified_names_or_known(api: Api) -> None:
    answer = await api.http.post(api.configmaps, json={"metadata": {"name": "c", "finalizers": ["nonsense"]}})
    refusal(answer, 422, "Invalid")
    assert "metadata.finalizers" in next(iter(causes(answer)))


async def test_owner_references_must_be_complete(api: Api) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": ""}
    answer = await api.http.post(api.configmaps, json={"metadata": {"name": "c", "ownerReferences": [reference]}})
    refusal(answer, 422, "Invalid")
    assert set(causes(answer)) == {"metadata.ownerReferences.name", "metadata.ownerReferences.uid"}
