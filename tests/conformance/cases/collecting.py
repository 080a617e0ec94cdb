"""What happens to dependents when their owner goes."""

from __future__ import annotations

from conformance.target import Api, Json


def owned_by(owner: Json, **more: object) -> list[Json]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **more,
        }
    ]


async def map_of(api: Api, name: str, owner: Json | None = None, **metadata: object) -> Json:
    if owner is not None:
        metadata["ownerReferences"] = owned_by(owner)
    return await api.make(api.configmaps, {"metadata": {"name": name, **metadata}})


async def collector_has_caught_up(api: Api) -> None:
    """A real collector deletes a dependent that it first hears of after its owner was let go, orphaned or not.

    It hears of ConfigMaps in their order, so once it has collected a later one it knows the earlier ones.
    """
    await map_of(api, "canary", await map_of(api, "cage"))
    await api.delete(f"{api.configmaps}/cage", {"propagationPolicy": "Background"})
    await api.gone(f"{api.configmaps}/canary")


async def test_dependents_follow_their_owner(api: Api) -> None:
    owner = await map_of(api, "owner")
    await map_of(api, "child", owner)
    await map_of(api, "bystander")
    await api.delete(f"{api.configmaps}/owner", {"propagationPolicy": "Background"})
    await api.gone(f"{api.configmaps}/child")
    assert await api.see(f"{api.configmaps}/bystander")


async def test_dependents_of_custom_objects_follow_too_and_so_do_theirs(api: Api) -> None:
    owner = await api.make_gadget("owner")
    child = await map_of(api, "child", owner)
    await api.make_gadget("grandchild", ownerReferences=owned_by(child))
    await api.delete(f"{api.gadgets}/owner")
    # A real garbage collector learns of a new kind within half a minute.
    await api.gone(f"{api.configmaps}/child", within=225.0)
    await api.gone(f"{api.gadgets}/grandchild")


async def test_an_object_with_another_living_owner_stays(api: Api) -> None:
    one = await map_of(api, "one")
    two = await map_of(api, "two")
    both = [*owned_by(one), *owned_by(two)]
    await api.make(api.configmaps, {"metadata": {"name": "child", "ownerReferences": both}})
    await api.delete(f"{api.configmaps}/one")

    async def only_two_is_left() -> bool:
        child = await api.see(f"{api.configmaps}/child")
        return [r["name"] for r in child["metadata"]["ownerReferences"]] == ["two"]

    await api.eventually(only_two_is_left)
    await api.delete(f"{api.configmaps}/two")
    await api.gone(f"{api.configmaps}/child")


async def test_an_object_whose_owner_never_lived_is_collected(api: Api) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "ghost",
        "uid": "11111111-1111-1111-1111-111111111111",
    }
    await api.make(api.configmaps, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await api.gone(f"{api.configmaps}/child")


async def test_an_owner_of_the_same_name_but_another_uid_does_not_count(api: Api) -> None:
    owner = await map_of(api, "owner")
    await api.delete(f"{api.configmaps}/owner")
    await map_of(api, "owner")
    await map_of(api, "child", owner)
    await api.gone(f"{api.configmaps}/child")


async def test_a_foreground_delete_takes_the_dependents_first(api: Api) -> None:
    owner = await map_of(api, "owner")
    blocking = owned_by(owner, blockOwnerDeletion=True)
    held = {"name": "child", "finalizers": ["example.com/held"], "ownerReferences": blocking}
    await api.make(api.configmaps, {"metadata": held})
    answer = await api.delete(f"{api.configmaps}/owner", {"propagationPolicy": "Foreground"})
    assert answer.json()["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_ending() -> bool:
        return "deletionTimestamp" in (await api.see(f"{api.configmaps}/child"))["metadata"]

    await api.eventually(child_is_ending)
    assert (await api.see(f"{api.configmaps}/owner"))["metadata"]["deletionTimestamp"]
    await api.patched(f"{api.configmaps}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{api.configmaps}/owner")
    await api.gone(f"{api.configmaps}/child")


async def test_a_foreground_delete_does_not_wait_for_dependents_that_do_not_block(api: Api) -> None:
    owner = await map_of(api, "owner")
    await map_of(api, "child", owner, finalizers=["example.com/held"])
    await api.delete(f"{api.configmaps}/owner", {"propagationPolicy": "Foreground"})
    await api.gone(f"{api.configmaps}/owner")
    await api.patched(f"{api.configmaps}/child", {"metadata": {"finalizers": None}})
    await api.gone(f"{api.configmaps}/child")


async def test_an_orphaning_delete_leaves_the_dependents(api: Api) -> None:
    owner = await api.make_gadget("owner")
    await map_of(api, "child", owner)
    await collector_has_caught_up(api)
    answer = await api.delete(f"{api.gadgets}/owner", {"propagationPolicy": "Orphan"})
    assert answer.json()["metadata"]["finalizers"] == ["orphan"]
    await api.gone(f"{api.gadgets}/owner", within=225.0)
    child = await api.see(f"{api.configmaps}/child")
    assert "ownerReferences" not in child["metadata"]
    assert "deletionTimestamp" not in child["metadata"]
