"""kubectl api-resources, api-versions, explain, auth, version, cluster-info, --raw."""

from __future__ import annotations

import json

from conformance.kubectl import Kubectl, rows
from conformance.target import GROUP


async def test_api_resources_lists_kinds(kubectl: Kubectl) -> None:
    listed = rows(await kubectl("api-resources"))
    assert ["gadgets", "gd", f"{GROUP}/v1", "true", "Gadget"] in listed
    assert ["pods", "po", "v1", "true", "Pod"] in listed
    assert ["nodes", "no", "v1", "false", "Node"] in listed
    assert "gadgets" in await kubectl("api-resources", f"--api-group={GROUP}", "-o", "name")


async def test_api_versions_lists_groups(kubectl: Kubectl) -> None:
    listed = (await kubectl("api-versions")).split()
    assert {"v1", f"{GROUP}/v1", f"{GROUP}/v1beta1", "coordination.k8s.io/v1", "apiextensions.k8s.io/v1"} <= set(listed)


async def test_explain_reads_the_schema(kubectl: Kubectl) -> None:
    told = await kubectl("explain", "gadget")
    assert "A thing that tests turn over." in told
    assert "spec" in told
    told = await kubectl("explain", "gadget.spec.size")
    assert "How big." in told
    assert "medium" in told
    assert "required" in await kubectl("explain", "gadget.spec.network")
    assert "FIELDS" in await kubectl("explain", "pod.spec")
    assert 'field "nope" does not exist' in await kubectl.complaint("explain", "gadget.nope")


async def test_auth_answers_what_one_may_do(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "delete", "gadgets") == "yes\n"
    assert await kubectl("auth", "can-i", "get", "/metrics") == "yes\n"
    assert "*.*" in await kubectl("auth", "can-i", "--list")
    assert "Username" in await kubectl("auth", "whoami")
    await kubectl("create", "sa", "robot")
    robot = f"--as=system:serviceaccount:{kubectl.namespace}:robot"
    assert await kubectl("auth", "can-i", "list", "gadgets", robot, code=1) == "no\n"
    assert "cannot list resource" in await kubectl.complaint("get", "gd", robot)


async def test_version_and_cluster_info(kubectl: Kubectl) -> None:
    said = json.loads(await kubectl("version", "-o", "json"))
    assert said["serverVersion"]["major"] == "1"
    assert "is running at" in await kubectl("cluster-info")


async def test_raw_paths_can_be_read(kubectl: Kubectl) -> None:
    assert await kubectl("get", "--raw", "/healthz") == "ok"
    listed = json.loads(await kubectl("get", "--raw", f"/apis/{GROUP}/v1/namespaces/{kubectl.namespace}/gadgets"))
    assert listed["kind"] == "GadgetList"
