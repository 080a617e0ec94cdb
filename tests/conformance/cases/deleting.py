"""DELETE: at once, or when the last finalizer is gone."""

from __future__ import annotations

from conformance.target import GROUP, Api, causes, refusal

HELD = ["example.com/held"]


async def test_an_object_that_nothing_holds_is_gone_at_once(api: Api) -> None:
    made = await api.make_gadget("g")
    answer = await api.delete(f"{api.gadgets}/g")
    assert answer.status_code == 200
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "g", "group": GROUP, "kind": "gadgets", "uid": made["metadata"]["uid"]},
    }
    refusal(await api.http.get(f"{api.gadgets}/g"), 404, "NotFound")
    refusal(await api.delete(f"{api.gadgets}/g"), 404, "NotFound")


async def test_a_built_in_object_is_deleted_with_a_status_too(api: Api) -> None:
    made = await api.make(api.configmaps, {"metadata": {"name": "c"}})
    answer = await api.delete(f"{api.configmaps}/c")
    assert answer.json()["details"] == {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]}


async def test_a_finalizer_holds_the_object_until_it_is_taken_away(api: Api) -> None:
    made = await api.make_gadget("g", finalizers=HELD)
    answer = await api.delete(f"{api.gadgets}/g")
    assert answer.status_code == 200
    marked = answer.json()
    assert marked["kind"] == "Gadget"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert marked["metadata"]["generation"] == 2
    assert int(marked["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert await api.see(f"{api.gadgets}/g") == marked
    last = await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})
    assert last["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await api.http.get(f"{api.gadgets}/g")).status_code == 404


async def test_a_second_delete_changes_nothing(api: Api) -> None:
    await api.make_gadget("g", finalizers=HELD)
    first = await api.delete(f"{api.gadgets}/g")
    second = await api.delete(f"{api.gadgets}/g")
    assert second.status_code == 200
    assert second.json() == first.json()
    await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})


async def test_no_finalizer_can_join_while_the_object_ends(api: Api) -> None:
    await api.make_gadget("g", finalizers=HELD)
    await api.delete(f"{api.gadgets}/g")
    answer = await api.patch(f"{api.gadgets}/g", {"metadata": {"finalizers": [*HELD, "example.com/late"]}})
    assert (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/late"}' in refusal(answer, 422, "Invalid")
    )
    await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})


async def test_an_ending_object_can_still_change(api: Api) -> None:
    await api.make_gadget("g", finalizers=HELD)
    await api.delete(f"{api.gadgets}/g")
    changed = await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 2}})
    assert changed["metadata"]["deletionTimestamp"]
    changed = await api.patched(f"{api.gadgets}/g/status", {"status": {"phase": "Going"}})
    assert changed["status"] == {"phase": "Going"}
    await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})


async def test_the_name_is_taken_until_the_end(api: Api) -> None:
    await api.make_gadget("g", finalizers=HELD)
    await api.delete(f"{api.gadgets}/g")
    answer = await api.http.post(api.gadgets, json=api.gadget("g"))
    message = refusal(answer, 409, "AlreadyExists")
    assert message == f'object is being deleted: gadgets.{GROUP} "g" already exists'
    await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})
    await api.make_gadget("g")


async def test_a_put_that_drops_the_last_finalizer_ends_the_object(api: Api) -> None:
    await api.make_gadget("g", finalizers=HELD)
    marked = (await api.delete(f"{api.gadgets}/g")).json()
    del marked["metadata"]["finalizers"]
    assert (await api.http.put(f"{api.gadgets}/g", json=marked)).status_code == 200
    refusal(await api.http.get(f"{api.gadgets}/g"), 404, "NotFound")


async def test_a_delete_for_another_incarnation_is_refused(api: Api) -> None:
    made = await api.make_gadget("g")
    answer = await api.delete(f"{api.gadgets}/g", {"preconditions": {"uid": "another"}})
    assert "the UID in the precondition (another) does not match the UID in record (" in refusal(
        answer, 409, "Conflict"
    )
    assert (
        await api.delete(f"{api.gadgets}/g", {"preconditions": {"uid": made["metadata"]["uid"]}})
    ).status_code == 200


async def test_a_delete_of_another_version_is_refused(api: Api) -> None:
    made = await api.make_gadget("g")
    version = made["metadata"]["resourceVersion"]
    changed = await api.patched(f"{api.gadgets}/g", {"spec": {"slots": 2}})
    answer = await api.delete(f"{api.gadgets}/g", {"preconditions": {"resourceVersion": version}})
    assert f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record" in (
        refusal(answer, 409, "Conflict")
    )
    now = changed["metadata"]["resourceVersion"]
    assert (await api.delete(f"{api.gadgets}/g", {"preconditions": {"resourceVersion": now}})).status_code == 200


async def test_a_dry_run_delete_answers_and_keeps(api: Api) -> None:
    made = await api.make_gadget("g", finalizers=HELD)
    answer = await api.delete(f"{api.gadgets}/g", {"dryRun": ["All"]})
    assert answer.status_code == 200
    assert await api.see(f"{api.gadgets}/g") == made
    other = await api.make_gadget("h")
    assert (await api.delete(f"{api.gadgets}/h", dryRun="All")).json()["status"] == "Success"
    assert await api.see(f"{api.gadgets}/h") == other
    await api.patched(f"{api.gadgets}/g", {"metadata": {"finalizers": None}})


async def test_an_unknown_propagation_is_refused(api: Api) -> None:
    await api.make_gadget("g")
    answer = await api.delete(f"{api.gadgets}/g", {"propagationPolicy": "Sideways"})
    refusal(answer, 422, "Invalid")
    assert causes(answer)["propagationPolicy"] == (
        'FieldValueNotSupported: Unsupported value: "Sideways": supported values: '
        '"Foreground", "Background", "Orphan", "nil"'
    )


async def test_a_delete_with_options_in_the_query_obeys_them(api: Api) -> None:
    made = await api.make_gadget("g")
    answer = await api.delete(f"{api.gadgets}/g", propagationPolicy="Background", gracePeriodSeconds="0")
    assert answer.json()["details"]["uid"] == made["metadata"]["uid"]


async def test_a_collection_can_be_deleted_by_label(api: Api) -> None:
    await api.make_gadget("a", labels={"k": "1"})
    await api.make_gadget("b", labels={"k": "2"})
    await api.make_gadget("c", labels={"k": "1"}, finalizers=HELD)
    answer = await api.delete(api.gadgets, labelSelector="k=1")
    assert answer.status_code == 200
    assert answer.json()["kind"] == "GadgetList"
    assert sorted(i["metadata"]["name"] for i in answer.json()["items"]) == ["a", "c"]
    assert await api.names(api.gadgets) == ["b", "c"]
    assert (await api.see(f"{api.gadgets}/c"))["metadata"]["deletionTimestamp"]
    await api.patched(f"{api.gadgets}/c", {"metadata": {"finalizers": None}})


async def test_a_collection_of_built_in_objects_can_be_deleted(api: Api) -> None:
    for name in ("a", "b"):
        await api.make(api.configmaps, {"metadata": {"name": name, "labels": {"mine": "yes"}}})
    assert (await api.delete(api.configmaps, labelSelector="mine")).status_code == 200
    assert not await api.names(api.configmaps, labelSelector="mine")


async def test_a_dry_run_keeps_the_collection(api: Api) -> None:
    await api.make_gadget("a")
    await api.delete(api.gadgets, dryRun="All")
    assert await api.names(api.gadgets) == ["a"]
