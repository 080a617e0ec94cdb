"""The control plane that other suites lean on is a real one, and complete enough for them."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

FORBIDDEN = httpx2.codes.FORBIDDEN.value
NOT_FOUND = httpx2.codes.NOT_FOUND.value


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[httpx2.Client]:
    with control_plane.client() as client:
        yield client


@pytest.fixture
def namespace(admin: httpx2.Client) -> Iterator[str]:
    name = f"test-{secrets.token_hex(4)}"
    admin.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    admin.delete(f"/api/v1/namespaces/{name}").raise_for_status()


def eventually(reached: Callable[[], bool], within: float = 90.0) -> bool:
    deadline = time.perf_counter() + within
    while not reached():
        if time.perf_counter() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_the_server_answers_version_with_the_pinned_minor_release(admin: httpx2.Client) -> None:
    version = admin.get("/version").raise_for_status().json()
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


def test_a_custom_resource_can_be_created_once_its_definition_is_established(
    admin: httpx2.Client, namespace: str
) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = f"{definitions}/stables.{group}"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"boxes": {"type": "integer"}}}},
    }
    admin.post(
        definitions,
        json={
            "metadata": {"name": f"stables.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "stables", "singular": "stable", "kind": "Stable"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    ).raise_for_status()

    def is_established() -> bool:
        # A definition that was just created carries `conditions: null`.
        conditions = admin.get(definition).json().get("status", {}).get("conditions") or []
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    assert eventually(is_established)
    collection = f"/apis/{group}/v1/namespaces/{namespace}/stables"
    # The route appears a moment after the condition.
    assert eventually(lambda: admin.get(collection).is_success)
    stable = {"apiVersion": f"{group}/v1", "kind": "Stable", "metadata": {"name": "north"}}
    admin.post(collection, json=stable | {"spec": {"boxes": 4}}).raise_for_status()
    assert admin.get(f"{collection}/north").json()["spec"] == {"boxes": 4}
    refused = admin.post(collection, json=stable | {"metadata": {"name": "south"}, "spec": {"boxes": "four"}})
    assert refused.status_code == httpx2.codes.UNPROCESSABLE_CONTENT.value
    admin.delete(definition).raise_for_status()


def test_the_kubectl_of_the_same_release_lists_namespaces(control_plane: ControlPlane) -> None:
    listed = json.loads(control_plane.run_kubectl("get", "namespaces", "-o", "json"))
    assert {"default", "kube-system"} <= {item["metadata"]["name"] for item in listed["items"]}
    versions = json.loads(control_plane.run_kubectl("version", "-o", "json"))
    assert versions["clientVersion"]["minor"] == versions["serverVersion"]["minor"] == "36"


@pytest.fixture
def controllers(control_plane: ControlPlane) -> None:
    assert control_plane.has_controllers, (
        "kube-controller-manager is not among the binaries; add it, or unset KUBEBUILDER_ASSETS to build all of them"
    )


@pytest.mark.usefixtures("controllers")
def test_an_object_is_collected_after_its_owner_is_deleted(admin: httpx2.Client, namespace: str) -> None:
    collection = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = admin.post(collection, json={"metadata": {"name": "owner"}}).raise_for_status().json()
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    admin.post(collection, json=owned).raise_for_status()
    admin.post(collection, json={"metadata": {"name": "bystander"}}).raise_for_status()
    admin.delete(f"{collection}/owner").raise_for_status()
    assert eventually(lambda: admin.get(f"{collection}/owned").status_code == NOT_FOUND)
    assert admin.get(f"{collection}/bystander").is_success


@pytest.mark.usefixtures("controllers")
def test_a_deleted_namespace_takes_its_objects_along(admin: httpx2.Client) -> None:
    name = f"test-{secrets.token_hex(4)}"
    admin.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    object_path = f"/api/v1/namespaces/{name}/configmaps"
    admin.post(object_path, json={"metadata": {"name": "inside"}}).raise_for_status()
    admin.delete(f"/api/v1/namespaces/{name}").raise_for_status()
    assert eventually(lambda: admin.get(f"/api/v1/namespaces/{name}").status_code == NOT_FOUND)


def test_a_user_without_rights_is_known_by_name_and_forbidden(control_plane: ControlPlane) -> None:
    with control_plane.client(control_plane.limited) as limited:
        answer = limited.get("/api/v1/namespaces/default/pods")
    assert answer.status_code == FORBIDDEN
    assert 'User "limited" cannot list resource "pods"' in answer.json()["message"]


def test_a_wrong_token_is_unauthorized_and_not_merely_forbidden(control_plane: ControlPlane) -> None:
    with control_plane.client() as stranger:
        stranger.headers["Authorization"] = "Bearer nobody"
        answer = stranger.get("/api/v1/namespaces")
    assert answer.status_code == httpx2.codes.UNAUTHORIZED.value


def test_a_user_made_during_the_run_gets_exactly_the_rights_of_its_role(
    control_plane: ControlPlane, admin: httpx2.Client, namespace: str
) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    role = {"metadata": {"name": "reader"}, "rules": [rule]}
    admin.post(f"{rbac}/roles", json=role).raise_for_status()
    group = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "readers"}
    account = {"kind": "ServiceAccount", "namespace": namespace, "name": "robot"}
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [group, account],
    }
    admin.post(f"{rbac}/rolebindings", json=binding).raise_for_status()
    for who in (
        control_plane.user("rita", groups=("readers",)),
        control_plane.service_account(namespace, "robot"),
    ):
        with control_plane.client(who) as client:
            maps = f"/api/v1/namespaces/{namespace}/configmaps"
            assert eventually(lambda: client.get(maps).is_success)  # noqa: B023 - used within the turn
            assert client.get(f"/api/v1/namespaces/{namespace}/secrets").status_code == FORBIDDEN
        assert control_plane.run_kubectl("auth", "can-i", "list", "cm", f"-n={namespace}", who=who) == "yes\n"
