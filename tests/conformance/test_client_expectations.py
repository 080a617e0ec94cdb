"""What official clients demand of an answer beyond what kubectl reads, and what this API says of what it does not do."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from conformance.embedded import embedded
from conformance.gadgets import DEFINITIONS, definition
from conformance.target import Api, Json

from paddock.embedded.store.memory import MemoryStore

METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with embedded(MemoryStore(), tmp_path) as plane, plane.api() as target:
        yield target


async def test_the_bookmark_of_a_quiet_kind_follows_the_store(api: Api) -> None:
    made = await api.make_gadget("a")
    query = {"resourceVersion": made["metadata"]["resourceVersion"], "allowWatchBookmarks": "true"}
    async with api.watching(api.gadgets, **query, timeoutSeconds="1") as events:
        other = await api.make(api.configmaps, {"metadata": {"name": "elsewhere"}})
        [bookmark] = await events.until_the_end()
    assert bookmark["type"] == "BOOKMARK"
    newest = other["metadata"]["resourceVersion"]
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(newest)
    # Whoever goes on from there needs none of the history before it.
    await api.forget_history()
    since = bookmark["object"]["metadata"]["resourceVersion"]
    async with api.watching(api.gadgets, resourceVersion=since) as events:
        await api.patched(f"{api.gadgets}/a", {"spec": {"slots": 2}})
        assert (await events.next())["type"] == "MODIFIED"


async def test_the_version_has_every_field_that_the_official_client_demands(api: Api) -> None:
    demanded = {
        "buildDate",
        "compiler",
        "gitCommit",
        "gitTreeState",
        "gitVersion",
        "goVersion",
        "major",
        "minor",
        "platform",
    }
    assert set(await api.see("/version")) == demanded


async def test_the_versions_of_the_core_name_the_servers_address(api: Api) -> None:
    assert (await api.see("/api"))["serverAddressByClientCIDRs"] == [
        {"clientCIDR": "0.0.0.0/0", "serverAddress": "paddock"}
    ]


async def test_a_token_review_repeats_its_spec_and_needs_a_token(api: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    answered = await api.make(path, {"spec": {"token": "no.such.token", "audiences": ["x"]}})
    assert answered["spec"] == {"token": "no.such.token", "audiences": ["x"]}
    for empty in ({}, {"spec": {"token": ""}}):
        refused = await api.http.post(path, json=empty)
        assert (refused.status_code, refused.json()["reason"]) == (400, "BadRequest")
        assert "token is required" in refused.json()["message"]


async def test_lists_objects_and_watches_come_as_metadata_alone(api: Api) -> None:
    made = await api.make_gadget("a", {"slots": 3}, labels={"l": "1"})
    many = (await api.http.get(api.gadgets, headers={"Accept": METADATA.format("List")})).json()
    assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    one = (await api.http.get(f"{api.gadgets}/a", headers={"Accept": METADATA.format("")})).json()
    assert many["items"] == [one]
    assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    async with api.watching(api.gadgets, accept=METADATA.format(""), **query) as events:
        added, bookmark = await events.until_the_end()
    assert (added["type"], added["object"]) == ("ADDED", one)
    assert (bookmark["type"], bookmark["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")


async def test_openapi_v2_is_json_for_who_asks_for_json(api: Api) -> None:
    document = await api.see("/openapi/v2")
    assert document["swagger"] == "2.0"
    assert "com.github.proto" not in str(document)
    assert any(name.endswith("v1.Gadget") for name in document["definitions"])
    assert "#/components/" not in str(document["definitions"])
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert "protobuf" in (await api.http.get("/openapi/v2", headers={"Accept": asked})).headers["content-type"]


async def test_the_roles_that_every_cluster_has_are_there_and_grow_from_view_to_admin(api: Api) -> None:
    def allowed(role: Json) -> set[tuple[str, str, str]]:
        return {
            (g, r, v)
            for rule in role["rules"]
            for g in rule["apiGroups"]
            for r in rule["resources"]
            for v in rule["verbs"]
        }

    view, edit, admin = [
        allowed(await api.see(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"))
        for name in ("view", "edit", "admin")
    ]
    assert view < edit < admin
    assert ("", "pods/log", "get") in view
    assert not [each for each in view if each[1] == "secrets" or each[2] not in ("get", "list", "watch")]
    assert ("rbac.authorization.k8s.io", "roles", "create") in admin - edit


def defining(name: str, **spec: object) -> Json:
    made = copy.deepcopy(definition())
    plural, group = f"{name}s", made["spec"]["group"]
    made["metadata"]["name"] = f"{plural}.{group}"
    made["spec"]["names"] = {"plural": plural, "kind": name.capitalize()}
    made["spec"] |= spec
    return made


async def test_rules_in_cel_are_warned_about(api: Api) -> None:
    made = defining("ruled")
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.slots < 3 &&& nonsense"}]
    answer = await api.http.post(DEFINITIONS, json=made)
    assert answer.status_code == 201
    assert "does not evaluate so much of CEL" in answer.headers["warning"]
    assert "at .spec" in answer.headers["warning"]
    assert "warning" not in (await api.http.post(DEFINITIONS, json=defining("plain"))).headers


async def test_a_conversion_webhook_is_refused_because_nothing_would_call_it(api: Api) -> None:
    webhook = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}},
    }
    answer = await api.http.post(DEFINITIONS, json=defining("converted", conversion=webhook))
    assert answer.status_code == 422
    assert 'spec.conversion.strategy: Unsupported value: "Webhook"' in answer.json()["message"]


@pytest.mark.parametrize(
    ("review", "spec", "field"),
    [
        ("selfsubjectaccessreviews", {}, "spec.resourceAttributes"),
        ("subjectaccessreviews", {"resourceAttributes": {"verb": "get"}}, "spec.user"),
    ],
)
async def test_a_review_that_asks_nothing_or_of_nobody_is_refused(
    api: Api, review: str, spec: Json, field: str
) -> None:
    answer = await api.http.post(f"{REVIEWS}/{review}", json={"spec": spec})
    assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, field)


async def test_a_local_review_is_about_its_own_namespace(api: Api) -> None:
    asked = {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": api.namespace}}
    path = api.path("localsubjectaccessreviews", "authorization.k8s.io/v1")
    answered = await api.make(path, {"spec": asked})
    assert (answered["kind"], answered["status"]) == ("LocalSubjectAccessReview", {"allowed": False})
    asked["resourceAttributes"]["namespace"] = "default"
    assert (await api.http.post(path, json={"spec": asked})).status_code == 422


async def test_what_the_document_says_is_not_served_is_refused_and_not_half_done(api: Api) -> None:
    """`docs/design/control-plane.md`, what it does not do: a client meets a clear refusal, or an answer it can read."""
    events = await api.http.get("/apis/events.k8s.io/v1/events")
    assert events.status_code == 404
    authority = await api.http.get(f"{api.path('configmaps')}/kube-root-ca.crt")
    assert (authority.status_code, authority.json()["reason"]) == (404, "NotFound")
    here = f"/api/v1/namespaces/{api.namespace}"
    yaml = await api.http.get(here, headers={"Accept": "application/yaml"})
    assert (yaml.status_code, yaml.json()["reason"]) == (406, "NotAcceptable")
    assert "application/json" in yaml.json()["message"]
    plain = await api.http.get(here, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert plain.json()["metadata"]["name"] == api.namespace
