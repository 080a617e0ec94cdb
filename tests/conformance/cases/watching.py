"""Watches: every change once, in order, from where the client asked."""

from __future__ import annotations

import asyncio

from conformance.target import GROUP, TABLE, Api, Json, refusal


def kinds(events: list[Json]) -> list[tuple[str, str]]:
    return [(e["type"], e["object"]["metadata"]["name"]) for e in events]


async def test_a_watch_from_a_version_shows_what_came_after_in_order(api: Api) -> None:
    await api.make_gadget("old")
    since = (await api.see(api.gadgets))["metadata"]["resourceVersion"]
    await api.make_gadget("a")
    await api.patched(f"{api.gadgets}/a", {"spec": {"slots": 2}})
    async with api.watching(api.gadgets, resourceVersion=since) as events:
        assert events.response.headers["content-type"] == "application/json"
        await api.make_gadget("b")
        await api.delete(f"{api.gadgets}/a")
        seen = await events.take(4)
    assert kinds(seen) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in seen]
    assert versions == sorted(set(versions))
    assert versions[0] > int(since)


async def test_a_deleted_object_is_shown_as_it_was_with_a_newer_version(api: Api) -> None:
    made = await api.make_gadget("a", {"slots": 3})
    async with api.watching(api.gadgets, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        await api.delete(f"{api.gadgets}/a")
        event = await events.next()
    assert event["type"] == "DELETED"
    assert event["object"]["spec"] == made["spec"]
    assert event["object"]["kind"] == "Gadget"
    assert event["object"]["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_an_object_released_by_its_finalizer_is_deleted_with_the_finalizer_still_shown(api: Api) -> None:
    made = await api.make_gadget("a", finalizers=["example.com/f"])
    async with api.watching(api.gadgets, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        await api.delete(f"{api.gadgets}/a")
        await api.patched(f"{api.gadgets}/a", {"metadata": {"finalizers": None}})
        seen = await events.take(2)
    assert kinds(seen) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert seen[0]["object"]["metadata"]["deletionTimestamp"]
    assert seen[1]["object"]["metadata"]["finalizers"] == ["example.com/f"]


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    for name in ("b", "a"):
        await api.make_gadget(name)
    for query in ({}, {"resourceVersion": "0"}, {"resourceVersion": ""}):
        async with api.watching(api.gadgets, **query) as events:
            assert sorted(kinds(await events.take(2))) == [("ADDED", "a"), ("ADDED", "b")]
            await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": {"turn": str(len(query))}}})
            await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": None}})
            assert kinds(await events.take(2)) == [("MODIFIED", "a"), ("MODIFIED", "a")]


async def test_a_watch_shows_its_own_namespace_and_kind_only(api: Api) -> None:
    since = await api.revision()
    async with api.watching(api.gadgets, resourceVersion=since) as events:
        await api.make(api.configmaps, {"metadata": {"name": "c"}})
        other = api.unique("other")
        await api.make("/api/v1/namespaces", {"metadata": {"name": other}})
        await api.make(api.path("gadgets", f"{GROUP}/v1", namespace=other), api.gadget("elsewhere"))
        await api.make_gadget("here")
        assert kinds([await events.next()]) == [("ADDED", "here")]
    await api.delete(f"/api/v1/namespaces/{other}")


async def test_a_watch_over_all_namespaces_shows_every_one(api: Api) -> None:
    since = await api.revision()
    async with api.watching(f"/apis/{GROUP}/v1/gadgets", resourceVersion=since) as events:
        await api.make_gadget("a")
        # The namespaces of other cases may still be ending while this one looks at all of them.
        while (event := await events.next())["object"]["metadata"]["namespace"] != api.namespace:
            assert event["type"] in ("MODIFIED", "DELETED")
        assert event["type"] == "ADDED"


async def test_objects_enter_and_leave_a_label_selection(api: Api) -> None:
    since = await api.revision()
    async with api.watching(api.gadgets, resourceVersion=since, labelSelector="in=yes") as events:
        await api.make_gadget("a")
        await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": {"in": "yes"}}})
        await api.patched(f"{api.gadgets}/a", {"spec": {"slots": 2}})
        left = await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": {"in": "no"}}})
        await api.patched(f"{api.gadgets}/a", {"spec": {"slots": 3}})
        await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": {"in": "yes"}}})
        await api.delete(f"{api.gadgets}/a")
        seen = await events.take(5)
    assert [e["type"] for e in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    gone = seen[2]["object"]["metadata"]
    assert gone["resourceVersion"] == left["metadata"]["resourceVersion"]
    assert gone["labels"] == {"in": "yes"}


async def test_a_watch_of_one_name_shows_that_object_only(api: Api) -> None:
    since = await api.revision()
    async with api.watching(api.gadgets, resourceVersion=since, fieldSelector="metadata.name=b") as events:
        await api.make_gadget("a")
        await api.make_gadget("b")
        await api.delete(f"{api.gadgets}/a")
        await api.delete(f"{api.gadgets}/b")
        assert kinds(await events.take(2)) == [("ADDED", "b"), ("DELETED", "b")]


async def test_a_watch_selects_by_a_declared_field(api: Api) -> None:
    await api.make_gadget("a", {"color": "blue"})
    since = (await api.make_gadget("b", {"color": "red"}))["metadata"]["resourceVersion"]
    async with api.watching(api.gadgets, resourceVersion=since, fieldSelector="spec.color=red") as events:
        await api.patched(f"{api.gadgets}/a", {"spec": {"color": "red"}})
        await api.patched(f"{api.gadgets}/b", {"spec": {"color": "blue"}})
        assert kinds(await events.take(2)) == [("ADDED", "a"), ("DELETED", "b")]


async def test_a_history_that_is_gone_is_an_error_in_the_stream(api: Api) -> None:
    await api.make_gadget("a")
    await api.forget_history()
    async with api.watching(api.gadgets, resourceVersion="1") as events:
        (event,) = await events.until_the_end()
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_the_time_limit_ends_the_stream(api: Api) -> None:
    await api.make_gadget("a")
    began = asyncio.get_running_loop().time()
    async with api.watching(api.gadgets, timeoutSeconds="1") as events:
        seen = await events.until_the_end()
    assert kinds(seen) == [("ADDED", "a")]
    assert 0.8 < asyncio.get_running_loop().time() - began < 4.0


async def test_bookmarks_tell_how_far_the_watch_has_come(api: Api) -> None:
    made = await api.make_gadget("a")
    since = made["metadata"]["resourceVersion"]
    async with api.watching(
        api.gadgets, resourceVersion=since, allowWatchBookmarks="true", timeoutSeconds="3"
    ) as events:
        changed = await api.patched(f"{api.gadgets}/a", {"spec": {"slots": 2}})
        seen = await events.until_the_end()
    assert seen[0]["type"] == "MODIFIED"
    bookmarks = [e["object"] for e in seen[1:]]
    assert {e["type"] for e in seen[1:]} == {"BOOKMARK"}
    assert (bookmarks[-1]["kind"], bookmarks[-1]["apiVersion"]) == ("Gadget", f"{GROUP}/v1")
    assert int(bookmarks[-1]["metadata"]["resourceVersion"]) >= int(changed["metadata"]["resourceVersion"])


async def test_initial_events_end_with_a_marked_bookmark(api: Api) -> None:
    for name in ("a", "b"):
        await api.make_gadget(name)
    newest = (await api.see(api.gadgets))["metadata"]["resourceVersion"]
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watching(api.gadgets, **query) as events:
        assert sorted(kinds(await events.take(2))) == [("ADDED", "a"), ("ADDED", "b")]
        mark = await events.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(mark["object"]["metadata"]["resourceVersion"]) >= int(newest)
        await api.make_gadget("c")
        assert kinds([await events.next()]) == [("ADDED", "c")]


async def test_initial_events_need_the_match_to_be_named(api: Api) -> None:
    answer = await api.http.get(
        api.gadgets, params={"watch": "true", "sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    )
    message = refusal(answer, 422, "Invalid")
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in message


async def test_a_list_cannot_ask_for_initial_events(api: Api) -> None:
    answer = await api.http.get(
        api.gadgets, params={"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    )
    assert "sendInitialEvents is forbidden for list" in refusal(answer, 422, "Invalid")


async def test_a_watch_as_a_table_names_its_columns_once(api: Api) -> None:
    made = await api.make_gadget("a")
    async with api.watching(api.gadgets, accept=TABLE, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        await api.make_gadget("b", {"slots": 4})
        await api.delete(f"{api.gadgets}/b")
        first, second = await events.take(2)
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["columnDefinitions"][0]["name"] == "Name"
    assert first["object"]["rows"][0]["cells"][:3] == ["b", "medium", 4]
    assert not second["object"]["columnDefinitions"]
    assert second["type"] == "DELETED"


async def test_a_watch_refuses_what_a_list_refuses(api: Api) -> None:
    for query in ({"labelSelector": "a in ("}, {"fieldSelector": "spec.size=x"}):
        answer = await api.http.get(api.gadgets, params={"watch": "true", **query})
        refusal(answer, 400, "BadRequest")


async def test_built_in_kinds_are_watched_with_their_kind_on_every_object(api: Api) -> None:
    since = await api.revision()
    async with api.watching(api.configmaps, resourceVersion=since) as events:
        await api.make(api.configmaps, {"metadata": {"name": "c"}})
        while (event := await events.next())["object"]["metadata"]["name"] != "c":
            pass
    assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("ConfigMap", "v1")


async def test_an_object_is_watched_in_the_version_that_was_asked_for(api: Api) -> None:
    since = await api.revision()
    async with api.watching(api.path("gadgets", f"{GROUP}/v1beta1"), resourceVersion=since) as events:
        await api.make_gadget("a")
        await api.delete(f"{api.gadgets}/a")
        assert {e["object"]["apiVersion"] for e in await events.take(2)} == {f"{GROUP}/v1beta1"}


async def test_two_watches_see_the_same_order(api: Api) -> None:
    since = await api.revision()
    async with (
        api.watching(api.gadgets, resourceVersion=since) as one,
        api.watching(api.gadgets, resourceVersion=since) as two,
    ):
        await asyncio.gather(*(api.make_gadget(f"g{number}") for number in range(8)))
        first, second = await one.take(8), await two.take(8)
    assert first == second
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in first]
    assert versions == sorted(set(versions))


async def test_a_watch_picks_up_exactly_where_another_ended(api: Api) -> None:
    since = await api.revision()
    for name in ("a", "b", "c"):
        await api.make_gadget(name)
    async with api.watching(api.gadgets, resourceVersion=since) as events:
        first = await events.next()
    async with api.watching(api.gadgets, resourceVersion=first["object"]["metadata"]["resourceVersion"]) as events:
        assert kinds(await events.take(2)) == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_watch_of_names_with_a_selector_of_both_kinds(api: Api) -> None:
    since = await api.revision()
    async with api.watching(
        api.gadgets, resourceVersion=since, fieldSelector="metadata.name=a", labelSelector="in=yes"
    ) as events:
        await api.make_gadget("b", labels={"in": "yes"})
        await api.make_gadget("a")
        await api.patched(f"{api.gadgets}/a", {"metadata": {"labels": {"in": "yes"}}})
        assert kinds([await events.next()]) == [("ADDED", "a")]


async def test_a_version_of_the_future_is_waited_for_in_silence(api: Api) -> None:
    newest = int(await api.revision())
    async with api.watching(api.gadgets, resourceVersion=str(newest + 100000), timeoutSeconds="1") as events:
        await api.make_gadget("a")
        assert await events.until_the_end() == []
