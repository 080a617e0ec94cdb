"""kubectl create, run, delete, wait."""

from __future__ import annotations

import asyncio
import base64

from conformance.kubectl import Kubectl, gadget
from conformance.target import GROUP


async def test_create_makes_the_kinds_it_has_words_for(kubectl: Kubectl) -> None:
    other = kubectl.unique("ns")
    assert await kubectl("create", "namespace", other) == f"namespace/{other} created\n"
    assert await kubectl("create", "configmap", "c", "--from-literal=a=1") == "configmap/c created\n"
    assert await kubectl("create", "secret", "generic", "s", "--from-literal=a=hidden") == "secret/s created\n"
    assert await kubectl("create", "serviceaccount", "robot") == "serviceaccount/robot created\n"
    assert await kubectl("create", "role", "r", "--verb=get,list", "--resource=pods,gadgets") == (
        "role.rbac.authorization.k8s.io/r created\n"
    )
    account = f"--serviceaccount={kubectl.namespace}:robot"
    assert await kubectl("create", "rolebinding", "b", "--role=r", account) == (
        "rolebinding.rbac.authorization.k8s.io/b created\n"
    )
    secret = await kubectl.json("get", "secret", "s")
    assert secret["data"] == {"a": base64.b64encode(b"hidden").decode()}
    role = await kubectl.json("get", "role", "r")
    assert {tuple(rule["apiGroups"]) for rule in role["rules"]} == {("",), (GROUP,)}
    assert 'configmaps "c" already exists' in await kubectl.complaint("create", "configmap", "c")
    await kubectl("delete", "namespace", other, "--wait=false")


async def test_create_cluster_wide_rights(kubectl: Kubectl) -> None:
    name = kubectl.unique("role")
    await kubectl("create", "clusterrole", name, "--verb=get", "--resource=nodes")
    await kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=rita")
    assert await kubectl("auth", "can-i", "get", "nodes", "--as=rita") == "yes\n"
    assert await kubectl("auth", "can-i", "delete", "nodes", "--as=rita", code=1) == "no\n"
    await kubectl("delete", "clusterrole,clusterrolebinding", name)


async def test_create_token_prints_one(kubectl: Kubectl) -> None:
    await kubectl("create", "sa", "robot")
    token = (await kubectl("create", "token", "robot", "--duration=15m")).strip()
    assert token.count(".") == 2
    assert "may not specify a duration less than 10 minutes" in await kubectl.complaint(
        "create", "token", "robot", "--duration=1m"
    )


async def test_create_takes_files_with_generated_names(kubectl: Kubectl) -> None:
    body = kubectl.write(gadget("", generateName="gen-"))
    assert (await kubectl("create", "-f", body)).startswith(f"gadget.{GROUP}/gen-")
    assert "created (server dry run)" in await kubectl("create", "--dry-run=server", "-f", body)
    assert len((await kubectl.json("get", "gd"))["items"]) == 1


async def test_run_starts_a_pod(kubectl: Kubectl) -> None:
    await kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=20s")
    assert await kubectl("run", "p", "--image=thing", "--restart=Never") == "pod/p created\n"
    assert (await kubectl("get", "pods")).splitlines()[1].split()[:3] == ["p", "0/1", "Pending"]
    assert "thing" in await kubectl("describe", "pod", "p")
    assert await kubectl("delete", "pod", "p") != ""


async def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("a"), gadget("b"), gadget("c", labels={"x": "y"})))
    assert f'gadget.{GROUP} "a" deleted' in await kubectl("delete", "gd", "a")
    assert "(server dry run)" in await kubectl("delete", "gd", "b", "--dry-run=server")
    await kubectl("delete", "gd", "-l", "x=y")
    assert (await kubectl("get", "gd", "-o", "name")) == f"gadget.{GROUP}/b\n"
    await kubectl("delete", "gd", "--all")
    assert (await kubectl("get", "gd", "-o", "name")) == ""
    assert "NotFound" in await kubectl.complaint("delete", "gd", "a")
    await kubectl("delete", "gd", "a", "--ignore-not-found")


async def test_delete_leaves_an_object_that_is_held(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g", finalizers=["example.com/held"])))
    await kubectl("delete", "gd", "g", "--wait=false")
    assert (await kubectl.json("get", "gd", "g"))["metadata"]["deletionTimestamp"]
    waiting = asyncio.ensure_future(kubectl("delete", "gd", "g", "--timeout=30s"))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await kubectl("patch", "gd", "g", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await waiting


async def test_delete_ends_a_bound_pod_by_force(kubectl: Kubectl) -> None:
    await kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=20s")
    spec = {"nodeName": "nowhere", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await kubectl("create", "-f", kubectl.write(pod))
    await kubectl("delete", "pod", "p", "--wait=false", "--grace-period=20")
    assert (await kubectl.json("get", "pod", "p"))["metadata"]["deletionGracePeriodSeconds"] == 20
    await kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert "NotFound" in await kubectl.complaint("get", "pod", "p")


async def test_wait_is_told_of_conditions_values_and_ends(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g")))
    waits = [
        asyncio.ensure_future(kubectl("wait", "gd/g", f"--for={what}", "--timeout=30s"))
        for what in ("condition=Ready", "jsonpath={.status.phase}=Up")
    ]
    await asyncio.sleep(0.3)
    assert not any(wait.done() for wait in waits)
    status = '{"status":{"phase":"Up","conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "gd", "g", "--subresource=status", "--type=merge", "-p", status)
    assert await asyncio.gather(*waits) == [f"gadget.{GROUP}/g condition met\n"] * 2
    ending = asyncio.ensure_future(kubectl("wait", "gd/g", "--for=delete", "--timeout=30s"))
    await asyncio.sleep(0.3)
    assert not ending.done()
    await kubectl("delete", "gd", "g")
    await ending
    assert "timed out" in await kubectl.complaint("wait", "--for=create", "gd/never", "--timeout=1s")
