"""CustomResourceDefinitions: kinds that come, change and go while the server runs."""

from __future__ import annotations

from conformance.gadgets import DEFINITIONS, is_established, small_definition
from conformance.target import GROUP, TABLE, Api, Json, causes, refusal


async def define(api: Api, definition: Json) -> str:
    """The path of the new kind's collection, once it is served."""
    await api.make(DEFINITIONS, definition)
    plural = definition["spec"]["names"]["plural"]
    path = api.path(plural, f"{GROUP}/v1")

    async def served() -> bool:
        seen = await api.see(f"{DEFINITIONS}/{plural}.{GROUP}")
        return is_established(seen) and (await api.http.get(path)).status_code == 200

    await api.eventually(served)
    return path


def fresh(api: Api) -> tuple[str, str]:
    plural = api.unique("things").replace("-", "")
    return plural, plural.capitalize()


async def test_a_definition_is_accepted_and_says_so(api: Api) -> None:
    plural, kind = fresh(api)
    await define(api, small_definition(plural, kind))
    seen = await api.see(f"{DEFINITIONS}/{plural}.{GROUP}")
    conditions = {c["type"]: (c["status"], c["reason"]) for c in seen["status"]["conditions"]}
    assert conditions["NamesAccepted"] == ("True", "NoConflicts")
    assert conditions["Established"] == ("True", "InitialNamesAccepted")
    assert seen["status"]["storedVersions"] == ["v1"]
    assert seen["status"]["acceptedNames"]["kind"] == kind
    assert seen["spec"]["conversion"] == {"strategy": "None"}
    assert seen["metadata"]["generation"] == 1
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_the_name_of_a_definition_is_its_plural_and_group(api: Api) -> None:
    plural, kind = fresh(api)
    definition = small_definition(plural, kind)
    definition["metadata"]["name"] = f"other.{GROUP}"
    answer = await api.http.post(DEFINITIONS, json=definition)
    refusal(answer, 422, "Invalid")
    assert causes(answer)["metadata.name"].endswith('must be spec.names.plural+"."+spec.group')


async def test_a_deleted_definition_takes_its_objects_along(api: Api) -> None:
    plural, kind = fresh(api)
    path = await define(api, small_definition(plural, kind))
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"text": "x"}}
    await api.make(path, body)
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")
    await api.gone(f"{DEFINITIONS}/{plural}.{GROUP}")
    await api.gone(path)
    again = await define(api, small_definition(plural, kind))
    assert await api.names(again) == []
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_definition_waits_for_the_finalizers_of_its_objects(api: Api) -> None:
    plural, kind = fresh(api)
    path = await define(api, small_definition(plural, kind))
    meta = {"name": "a", "finalizers": ["example.com/held"]}
    await api.make(path, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta})
    answer = await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")
    assert answer.status_code == 200
    definition = await api.see(f"{DEFINITIONS}/{plural}.{GROUP}")
    assert definition["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]

    async def object_is_ending() -> bool:
        return "deletionTimestamp" in (await api.see(f"{path}/a"))["metadata"]

    await api.eventually(object_is_ending)
    await api.patched(f"{path}/a", {"metadata": {"finalizers": None}})
    await api.gone(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_changed_definition_changes_columns_and_rules(api: Api) -> None:
    plural, kind = fresh(api)
    path = await define(api, small_definition(plural, kind))
    await api.make(path, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"text": "x"}})
    column = {"name": "Text", "type": "string", "jsonPath": ".spec.text"}
    properties = {"text": {"type": "string"}, "level": {"type": "integer", "maximum": 3, "default": 1}}
    version = small_definition(plural, kind, properties, additionalPrinterColumns=[column])["spec"]["versions"]
    await api.patched(f"{DEFINITIONS}/{plural}.{GROUP}", {"spec": {"versions": version}})

    async def shown() -> bool:
        table = (await api.http.get(path, headers={"Accept": TABLE})).json()
        return [c["name"] for c in table.get("columnDefinitions") or ()] == ["Name", "Text"]

    await api.eventually(shown)
    assert (await api.see(f"{path}/a"))["spec"] == {"text": "x", "level": 1}
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "b"}, "spec": {"level": 4}}
    refusal(await api.http.post(path, json=body), 422, "Invalid")
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_kind_without_columns_shows_name_and_age(api: Api) -> None:
    plural, kind = fresh(api)
    path = await define(api, small_definition(plural, kind))
    table = (await api.http.get(path, headers={"Accept": TABLE})).json()
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Age"]
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_kind_without_a_status_door_keeps_status_in_front(api: Api) -> None:
    plural, kind = fresh(api)
    definition = small_definition(plural, kind)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"] = {"type": "object", "properties": {"phase": {"type": "string"}}}
    path = await define(api, definition)
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}, "status": {"phase": "Up"}}
    made = await api.make(path, body)
    assert made["status"] == {"phase": "Up"}
    changed = await api.patched(f"{path}/a", {"status": {"phase": "Down"}})
    assert changed["status"] == {"phase": "Down"}
    assert changed["metadata"]["generation"] == 2
    answer = await api.http.get(f"{path}/a/status")
    assert answer.status_code == 404
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_cluster_scoped_kind_has_no_namespace(api: Api) -> None:
    plural, kind = fresh(api)
    definition = small_definition(plural, kind)
    definition["spec"]["scope"] = "Cluster"
    await api.make(DEFINITIONS, definition)
    path = f"/apis/{GROUP}/v1/{plural}"

    async def served() -> bool:
        return (await api.http.get(path)).status_code == 200

    await api.eventually(served)
    made = await api.make(path, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "a"}})
    assert "namespace" not in made["metadata"]
    assert (await api.http.get(api.path(plural, f"{GROUP}/v1"))).status_code == 404
    await api.delete(f"{DEFINITIONS}/{plural}.{GROUP}")


async def test_a_schema_must_be_structural(api: Api) -> None:
    plural, kind = fresh(api)
    definition = small_definition(plural, kind, {"text": {"description": "no type"}})
    answer = await api.http.post(DEFINITIONS, json=definition)
    refusal(answer, 422, "Invalid")
    assert any("must not be empty for specified object fields" in cause for cause in causes(answer).values())


async def test_a_definition_needs_exactly_one_storage_version(api: Api) -> None:
    plural, kind = fresh(api)
    definition = small_definition(plural, kind, storage=False)
    answer = await api.http.post(DEFINITIONS, json=definition)
    refusal(answer, 422, "Invalid")
    assert causes(answer)["spec.versions"].endswith("must have exactly one version marked as storage version")
