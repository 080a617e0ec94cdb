"""How a client learns what the API serves: discovery, OpenAPI, version."""

from __future__ import annotations

from conformance.target import GROUP, Api, Json, refusal

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


async def test_aggregated_discovery_says_so_in_its_content_type(api: Api) -> None:
    for path in ("/api", "/apis"):
        answer = await api.http.get(path, headers={"Accept": AGGREGATED})
        assert answer.status_code == 200
        parts = {part.strip() for part in answer.headers["content-type"].split(";")}
        assert {"application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"} <= parts
        assert (answer.json()["kind"], answer.json()["apiVersion"]) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        )


async def test_aggregated_discovery_shows_a_custom_kind_with_its_subresources(api: Api) -> None:
    answer = await api.http.get("/apis", headers={"Accept": AGGREGATED})
    (group,) = [item for item in answer.json()["items"] if item["metadata"]["name"] == GROUP]
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    version = group["versions"][0]
    assert version["freshness"] == "Current"
    (gadgets,) = [r for r in version["resources"] if r["resource"] == "gadgets"]
    assert gadgets["responseKind"] == {"group": GROUP, "version": "v1", "kind": "Gadget"}
    assert (gadgets["scope"], gadgets["singularResource"]) == ("Namespaced", "gadget")
    assert (gadgets["shortNames"], gadgets["categories"]) == (["gd"], ["conformance"])
    assert set(gadgets["verbs"]) == VERBS
    subresources = {s["subresource"]: s for s in gadgets["subresources"]}
    assert subresources["status"]["responseKind"] == gadgets["responseKind"]
    assert subresources["scale"]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert set(subresources["status"]["verbs"]) == {"get", "patch", "update"}


async def test_aggregated_core_discovery_has_one_nameless_group(api: Api) -> None:
    items = (await api.http.get("/api", headers={"Accept": AGGREGATED})).json()["items"]
    assert len(items) == 1
    assert not items[0]["metadata"].get("name")
    resources = {r["resource"]: r for r in items[0]["versions"][0]["resources"]}
    assert {"pods", "configmaps", "secrets", "namespaces", "nodes", "events", "serviceaccounts"} <= set(resources)
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["nodes"]["scope"] == "Cluster"
    pod_doors = {s["subresource"] for s in resources["pods"]["subresources"]}
    assert {"status", "binding", "eviction"} <= pod_doors
    assert "token" in {s["subresource"] for s in resources["serviceaccounts"]["subresources"]}


async def test_clients_that_know_only_v2beta1_get_plain_discovery(api: Api) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    answer = await api.http.get("/apis", headers={"Accept": accept})
    assert answer.json()["kind"] == "APIGroupList"
    assert answer.headers["content-type"] == "application/json"


async def test_plain_discovery_walks_from_the_groups_to_the_resources(api: Api) -> None:
    core = await api.see("/api")
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    groups = await api.see("/apis")
    (group,) = [g for g in groups["groups"] if g["name"] == GROUP]
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    alone = await api.see(f"/apis/{GROUP}")
    assert (alone["kind"], alone["name"]) == ("APIGroup", GROUP)
    assert alone["preferredVersion"] == group["preferredVersion"]
    listed = await api.see(f"/apis/{GROUP}/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", f"{GROUP}/v1")
    resources: dict[str, Json] = {r["name"]: r for r in listed["resources"]}
    assert {"gadgets", "gadgets/status", "gadgets/scale"} <= set(resources)
    assert resources["gadgets"]["kind"] == "Gadget"
    assert resources["gadgets"]["namespaced"] is True
    assert resources["gadgets"]["shortNames"] == ["gd"]
    assert (resources["gadgets/scale"]["group"], resources["gadgets/scale"]["kind"]) == ("autoscaling", "Scale")


async def test_plain_core_discovery_lists_built_in_kinds(api: Api) -> None:
    listed = await api.see("/api/v1")
    resources: dict[str, Json] = {r["name"]: r for r in listed["resources"]}
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    assert resources["namespaces"]["namespaced"] is False
    assert resources["pods/eviction"]["kind"] == "Eviction"
    assert resources["serviceaccounts/token"]["kind"] == "TokenRequest"
    assert resources["configmaps"]["shortNames"] == ["cm"]


async def test_an_unknown_group_or_kind_is_a_plain_404_page(api: Api) -> None:
    for path in ("/apis/nope.example.com/v1/things", f"/apis/{GROUP}/v1/nothings", "/nowhere", f"/apis/{GROUP}/v9"):
        answer = await api.http.get(path)
        assert answer.status_code == 404, path
        assert answer.text.strip() == "404 page not found", path
        assert answer.headers["content-type"].startswith("text/plain")


async def test_the_openapi_index_names_every_group_version_with_a_hash(api: Api) -> None:
    paths = (await api.see("/openapi/v3"))["paths"]
    for group in ("api/v1", f"apis/{GROUP}/v1", f"apis/{GROUP}/v1beta1", "apis/coordination.k8s.io/v1"):
        url = paths[group]["serverRelativeURL"]
        assert url.startswith(f"/openapi/v3/{group}?hash=")


async def test_the_openapi_document_offers_field_validation_on_patch(api: Api) -> None:
    for group_version, path, kind in (
        (f"apis/{GROUP}/v1", f"/apis/{GROUP}/v1/namespaces/{{namespace}}/gadgets/{{name}}", "Gadget"),
        ("api/v1", "/api/v1/namespaces/{namespace}/configmaps/{name}", "ConfigMap"),
        ("api/v1", "/api/v1/nodes/{name}", "Node"),
    ):
        url = (await api.see("/openapi/v3"))["paths"][group_version]["serverRelativeURL"]
        # A document that changed since its index was read is at another address, to which the server redirects, as clients expect.
        answer = await api.http.get(url, follow_redirects=True)
        assert answer.headers["cache-control"] == "public, immutable"
        document = answer.json()
        patch = document["paths"][path]["patch"]
        assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
        gvk = patch["x-kubernetes-group-version-kind"]
        assert (gvk["kind"], gvk["version"]) == (kind, "v1")
        assert patch["x-kubernetes-action"] == "patch"
        said = [
            schema
            for schema in document["components"]["schemas"].values()
            if any(g["kind"] == kind for g in schema.get("x-kubernetes-group-version-kind") or ())
        ]
        assert said
        assert "metadata" in said[0]["properties"]


async def test_the_openapi_document_carries_the_schema_of_a_custom_kind(api: Api) -> None:
    document = await api.see(f"/openapi/v3/apis/{GROUP}/v1")
    (schema,) = [
        s
        for s in document["components"]["schemas"].values()
        if any(g["kind"] == "Gadget" for g in s.get("x-kubernetes-group-version-kind") or ())
    ]
    assert schema["description"] == "A thing that tests turn over."
    spec = schema["properties"]["spec"]["properties"]
    assert spec["size"] == {
        "description": "How big.",
        "type": "string",
        "enum": ["small", "medium", "large"],
        "default": "medium",
    }
    assert spec["ports"]["x-kubernetes-list-map-keys"] == ["port", "protocol"]
    assert schema["properties"]["apiVersion"]["type"] == "string"


async def test_the_version_is_one_that_kubectl_can_read(api: Api) -> None:
    version = await api.see("/version")
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor'].rstrip('+')}.")
    assert version["platform"]


async def test_health_endpoints_say_ok(api: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = await api.http.get(path)
        assert (answer.status_code, answer.text) == (200, "ok")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_method_that_a_built_in_collection_lacks_is_405(api: Api) -> None:
    for answer in (
        await api.http.put(api.configmaps, json={"metadata": {"name": "c"}}),
        await api.http.post(f"{api.configmaps}/c", json={"metadata": {"name": "c"}}),
    ):
        message = refusal(answer, 405, "MethodNotAllowed")
        assert message == "the server does not allow this method on the requested resource"
