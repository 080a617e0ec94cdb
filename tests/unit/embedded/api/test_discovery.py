import pytest

from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.documents.discovery import (
    aggregated,
    core_versions,
    group,
    groups,
    resources,
    version_order,
    wants_aggregated,
)
from paddock.embedded.api.kinds import Kind, Kinds
from paddock.kube.resource import Scale

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


def pool(version="v1alpha1", **more):
    return Kind(
        "tuist.dev",
        version,
        "RunnerPool",
        "runnerpools",
        "runnerpool",
        namespaced=True,
        custom=True,
        short_names=("rpool",),
        categories=("tuist",),
        status=True,
        scale=Scale(),
        **more,
    )


@pytest.fixture
def kinds():
    return Kinds([*KINDS, pool()])


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (f"{V2},{V2BETA1},application/json", True),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;q=0.9", True),
        ("application/json; g=apidiscovery.k8s.io; v=v2; as=APIGroupDiscoveryList", True),
        (f"{V2BETA1},application/json", False),
        ("application/json", False),
        ("", False),
        ("*/*", False),
        ("application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", False),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", False),
    ],
)
def test_the_aggregated_list_goes_only_to_clients_that_name_v2(accept, wanted):
    assert wants_aggregated(accept) is wanted


def test_the_core_group_is_one_item_without_a_name(kinds):
    document = aggregated(kinds, core=True)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (item,) = document["items"]
    assert item["metadata"] == {}
    assert [version["version"] for version in item["versions"]] == ["v1"]
    assert {"pods", "nodes", "namespaces", "secrets"} <= {r["resource"] for r in item["versions"][0]["resources"]}


def test_named_groups_list_their_kinds_with_everything_kubectl_needs(kinds):
    items = {item["metadata"]["name"]: item for item in aggregated(kinds, core=False)["items"]}
    assert "" not in items
    (entry,) = items["tuist.dev"]["versions"][0]["resources"]
    own = {"group": "tuist.dev", "version": "v1alpha1", "kind": "RunnerPool"}
    assert entry == {
        "resource": "runnerpools",
        "singularResource": "runnerpool",
        "scope": "Namespaced",
        "responseKind": own,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["rpool"],
        "categories": ["tuist"],
        "subresources": [
            {"subresource": "status", "responseKind": own, "verbs": ["get", "patch", "update"]},
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_subresources_of_built_ins_are_listed_with_the_kind_that_travels_through_them(kinds):
    (core,) = aggregated(kinds, core=True)["items"]
    by_name = {r["resource"]: r for r in core["versions"][0]["resources"]}
    assert [s["subresource"] for s in by_name["pods"]["subresources"]] == ["binding", "eviction", "status"]
    (token,) = by_name["serviceaccounts"]["subresources"]
    assert token["responseKind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert "subresources" not in by_name["secrets"]
    assert by_name["nodes"]["scope"] == "Cluster"


def test_the_plain_documents_name_groups_versions_and_resources(kinds):
    assert core_versions("here:1") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "here:1"}],
    }
    listed = {g["name"]: g for g in groups(kinds)["groups"]}
    preferred = {"groupVersion": "tuist.dev/v1alpha1", "version": "v1alpha1"}
    assert listed["tuist.dev"] == {"name": "tuist.dev", "versions": [preferred], "preferredVersion": preferred}
    assert "" not in listed
    one = group(kinds, "tuist.dev")
    assert one is not None
    assert (one["kind"], one["preferredVersion"]) == ("APIGroup", preferred)


def test_the_plain_resource_list_has_subresources_as_entries_of_their_own(kinds):
    listed = resources(kinds, "tuist.dev", "v1alpha1")
    assert listed is not None
    assert listed["groupVersion"] == "tuist.dev/v1alpha1"
    assert [r["name"] for r in listed["resources"]] == ["runnerpools", "runnerpools/status", "runnerpools/scale"]
    main, status, scale = listed["resources"]
    assert (main["singularName"], main["namespaced"], main["shortNames"]) == ("runnerpool", True, ["rpool"])
    assert (status["kind"], "group" in status) == ("RunnerPool", False)
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_the_core_resource_list_has_the_token_and_eviction_doors(kinds):
    listed = resources(kinds, "", "v1")
    assert listed is not None
    by_name = {r["name"]: r for r in listed["resources"]}
    assert by_name["serviceaccounts/token"]["group"] == "authentication.k8s.io"
    assert by_name["pods/eviction"]["kind"] == "Eviction"
    assert "group" not in by_name["pods/binding"]
    assert "deletecollection" not in by_name["namespaces"]["verbs"]


def test_what_is_not_served_has_no_document(kinds):
    assert group(kinds, "apps") is None
    assert group(kinds, "") is None
    assert resources(kinds, "tuist.dev", "v9") is None


def test_the_most_stable_and_newest_version_is_preferred():
    versions = ["v1alpha1", "v1beta1", "v1", "foo", "v2", "v1beta2", "v10alpha1"]
    assert sorted(versions, key=version_order) == ["v2", "v1", "v1beta2", "v1beta1", "v10alpha1", "v1alpha1", "foo"]
    several = Kinds([pool("v1alpha1"), pool("v1beta1"), pool("v1")])
    assert groups(several)["groups"][0]["preferredVersion"]["version"] == "v1"
    (item,) = aggregated(several, core=False)["items"]
    assert [v["version"] for v in item["versions"]] == ["v1", "v1beta1", "v1alpha1"]
