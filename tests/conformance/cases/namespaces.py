"""Namespaces: born with an account, ended with everything in them."""

from __future__ import annotations

from conformance.target import GROUP, Api, refusal


async def another(api: Api) -> str:
    name = api.unique("ns")
    await api.make("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


async def test_a_namespace_is_born_active(api: Api) -> None:
    seen = await api.see(f"/api/v1/namespaces/{api.namespace}")
    assert seen["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert seen["spec"] == {"finalizers": ["kubernetes"]}
    assert seen["status"] == {"phase": "Active"}
    assert "generation" not in seen["metadata"]
    assert "namespace" not in seen["metadata"]


async def test_the_first_namespaces_are_there(api: Api) -> None:
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(await api.names("/api/v1/namespaces"))


async def test_the_default_account_appears(api: Api) -> None:
    async def there() -> bool:
        return "default" in await api.names(api.path("serviceaccounts"))

    await api.eventually(there)


async def test_a_deleted_default_account_comes_back(api: Api) -> None:
    path = f"{api.path('serviceaccounts')}/default"

    async def there() -> bool:
        return (await api.http.get(path)).status_code == 200

    await api.eventually(there)
    old = (await api.see(path))["metadata"]["uid"]
    await api.delete(path)

    async def another_one() -> bool:
        answer = await api.http.get(path)
        return answer.status_code == 200 and answer.json()["metadata"]["uid"] != old

    await api.eventually(another_one)


async def test_a_deleted_namespace_takes_everything_along(api: Api) -> None:
    name = await another(api)
    maps, gadgets = api.path("configmaps", namespace=name), api.path("gadgets", f"{GROUP}/v1", namespace=name)
    await api.make(maps, {"metadata": {"name": "c"}})
    await api.make(gadgets, api.gadget("g"))
    answer = await api.delete(f"/api/v1/namespaces/{name}")
    assert answer.status_code == 200
    ending = answer.json()
    assert ending["kind"] == "Namespace"
    assert ending["status"]["phase"] == "Terminating"
    assert ending["metadata"]["deletionTimestamp"]
    await api.gone(f"/api/v1/namespaces/{name}", within=180.0)
    assert await api.names(gadgets) == []
    assert await api.names(maps) == []


async def test_an_ending_namespace_waits_for_finalizers_and_takes_nothing_new(api: Api) -> None:
    name = await another(api)
    maps = api.path("configmaps", namespace=name)
    await api.make(maps, {"metadata": {"name": "c", "finalizers": ["example.com/held"]}})
    await api.delete(f"/api/v1/namespaces/{name}")
    answer = await api.http.post(maps, json={"metadata": {"name": "late"}})
    message = refusal(answer, 403, "Forbidden")
    assert message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {name} '
        "because it is being terminated"
    )
    assert answer.json()["details"] == {
        "name": "late",
        "kind": "configmaps",
        "causes": [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
        ],
    }

    async def inner_is_ending() -> bool:
        return "deletionTimestamp" in (await api.see(f"{maps}/c"))["metadata"]

    await api.eventually(inner_is_ending)
    assert (await api.see(f"/api/v1/namespaces/{name}"))["status"]["phase"] == "Terminating"
    await api.patched(f"{maps}/c", {"metadata": {"finalizers": None}})
    await api.gone(f"/api/v1/namespaces/{name}", within=180.0)


async def test_the_default_namespace_cannot_be_deleted(api: Api) -> None:
    answer = await api.delete("/api/v1/namespaces/default")
    assert "this namespace may not be deleted" in refusal(answer, 403, "Forbidden")


async def test_the_front_door_cannot_empty_a_namespaces_own_finalizers(api: Api) -> None:
    changed = await api.patched(f"/api/v1/namespaces/{api.namespace}", {"spec": {"finalizers": []}})
    assert changed["spec"] == {"finalizers": ["kubernetes"]}


async def test_a_namespace_can_be_labelled(api: Api) -> None:
    changed = await api.patched(f"/api/v1/namespaces/{api.namespace}", {"metadata": {"labels": {"team": "a"}}})
    assert changed["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace, "team": "a"}
