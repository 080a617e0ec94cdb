"""GET: single objects and lists, their order, pages, selectors and versions."""

from __future__ import annotations

from conformance.target import GROUP, Api, refusal


async def three_gadgets(api: Api) -> list[int]:
    """Made out of order, on purpose; the answer is their resource versions in order of making."""
    made = [
        await api.make_gadget("b", {"color": "red"}, labels={"n": "2", "even": "yes"}),
        await api.make_gadget("c", {"color": "blue"}, labels={"n": "3"}),
        await api.make_gadget("a", {"color": "red"}, labels={"n": "1"}),
    ]
    return [int(m["metadata"]["resourceVersion"]) for m in made]


async def test_an_absent_object_is_not_found_in_these_words(api: Api) -> None:
    answer = await api.http.get(f"{api.gadgets}/nope")
    assert refusal(answer, 404, "NotFound") == f'gadgets.{GROUP} "nope" not found'
    assert answer.json()["details"] == {"name": "nope", "group": GROUP, "kind": "gadgets"}
    answer = await api.http.get(f"{api.pods}/nope")
    assert refusal(answer, 404, "NotFound") == 'pods "nope" not found'
    assert answer.json()["metadata"] == {}


async def test_resource_versions_grow_across_kinds(api: Api) -> None:
    first = await api.make_gadget("a")
    second = await api.make(api.configmaps, {"metadata": {"name": "c"}})
    third = await api.make_gadget("b")
    versions = [int(o["metadata"]["resourceVersion"]) for o in (first, second, third)]
    assert versions == sorted(set(versions))
    listed = await api.see(api.gadgets)
    assert int(listed["metadata"]["resourceVersion"]) >= versions[-1]


async def test_a_list_is_in_order_of_names_and_says_its_kind(api: Api) -> None:
    await three_gadgets(api)
    listed = await api.see(api.gadgets)
    assert (listed["kind"], listed["apiVersion"]) == ("GadgetList", f"{GROUP}/v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    assert {item["kind"] for item in listed["items"]} == {"Gadget"}


async def test_a_list_of_a_built_in_kind_does_not_repeat_the_kind(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c"}})
    listed = await api.see(api.configmaps)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])


async def test_an_empty_list_has_items(api: Api) -> None:
    for path in (api.gadgets, api.pods):
        listed = await api.see(path)
        assert listed["items"] == []
        assert int(listed["metadata"]["resourceVersion"]) > 0


async def test_a_list_in_an_unknown_namespace_is_empty(api: Api) -> None:
    assert (await api.see(api.path("gadgets", f"{GROUP}/v1", namespace="nowhere")))["items"] == []


async def test_a_list_over_all_namespaces_is_in_order_of_namespace_and_name(api: Api) -> None:
    await three_gadgets(api)
    listed = await api.see(f"/apis/{GROUP}/v1/gadgets")
    places = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in listed["items"]]
    assert places == sorted(places)
    assert {(api.namespace, "a"), (api.namespace, "b"), (api.namespace, "c")} <= set(places)


async def test_pages_show_one_moment(api: Api) -> None:
    await three_gadgets(api)
    first = await api.see(api.gadgets, limit="2")
    assert [i["metadata"]["name"] for i in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    await api.make_gadget("b2")
    await api.delete(f"{api.gadgets}/c")
    second = await api.see(api.gadgets, limit="2", **{"continue": first["metadata"]["continue"]})
    assert [i["metadata"]["name"] for i in second["items"]] == ["c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert not second["metadata"].get("continue")
    assert "remainingItemCount" not in second["metadata"]


async def test_a_last_page_that_is_full_says_that_nothing_follows(api: Api) -> None:
    await three_gadgets(api)
    listed = await api.see(api.gadgets, limit="3")
    assert len(listed["items"]) == 3
    assert not listed["metadata"].get("continue")


async def test_pages_of_a_selection_do_not_count_what_remains(api: Api) -> None:
    await three_gadgets(api)
    first = await api.see(api.gadgets, limit="1", labelSelector="n")
    assert "remainingItemCount" not in first["metadata"]
    names = [i["metadata"]["name"] for i in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = await api.see(api.gadgets, limit="1", labelSelector="n", **{"continue": token})
        names += [i["metadata"]["name"] for i in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["a", "b", "c"]


async def test_a_continue_token_excludes_a_resource_version(api: Api) -> None:
    await three_gadgets(api)
    first = await api.see(api.gadgets, limit="1")
    answer = await api.http.get(
        api.gadgets, params={"limit": "1", "continue": first["metadata"]["continue"], "resourceVersion": "5"}
    )
    assert refusal(answer, 400, "BadRequest") == "specifying resource version is not allowed when using continue"


async def test_a_continue_token_that_nobody_gave_is_refused(api: Api) -> None:
    answer = await api.http.get(api.gadgets, params={"limit": "1", "continue": "rubbish"})
    assert "continue key is not valid" in refusal(answer, 400, "BadRequest")


async def test_label_selectors_choose(api: Api) -> None:
    await three_gadgets(api)
    for selector, names in (
        ("n=1", ["a"]),
        ("n==1", ["a"]),
        ("n!=1", ["b", "c"]),
        ("n in (1,2)", ["a", "b"]),
        ("n notin (1,2)", ["c"]),
        ("even", ["b"]),
        ("!even", ["a", "c"]),
        ("n,!even", ["a", "c"]),
        ("even!=yes", ["a", "c"]),
        ("n in (1,3),!even", ["a", "c"]),
        ("n>1", ["b", "c"]),
        ("n<2", ["a"]),
    ):
        assert await api.names(api.gadgets, labelSelector=selector) == names, selector


async def test_field_selectors_choose(api: Api) -> None:
    await three_gadgets(api)
    for selector, names in (
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b", "c"]),
        (f"metadata.namespace={api.namespace}", ["a", "b", "c"]),
        ("spec.color=red", ["a", "b"]),
        ("spec.color=red,metadata.name=b", ["b"]),
        ("spec.color!=red", ["c"]),
    ):
        assert await api.names(api.gadgets, fieldSelector=selector) == names, selector


async def test_a_selector_that_cannot_be_read_is_refused(api: Api) -> None:
    for query in ({"labelSelector": "a in ("}, {"labelSelector": "=b"}, {"fieldSelector": "metadata.name"}):
        refusal(await api.http.get(api.gadgets, params=query), 400, "BadRequest")


async def test_a_field_that_cannot_be_selected_is_named(api: Api) -> None:
    answer = await api.http.get(api.gadgets, params={"fieldSelector": "spec.size=small"})
    assert refusal(answer, 400, "BadRequest") == "field label not supported: spec.size"
    answer = await api.http.get(api.configmaps, params={"fieldSelector": "data.a=b"})
    assert '"data.a" is not a known field selector: only "metadata.name"' in refusal(answer, 400, "BadRequest")
    answer = await api.http.get(api.pods, params={"fieldSelector": "spec.color=b"})
    assert refusal(answer, 400, "BadRequest") == "field label not supported: spec.color"


async def test_resource_version_zero_ignores_the_limit(api: Api) -> None:
    await three_gadgets(api)

    async def all_there() -> bool:
        return len((await api.see(api.gadgets, resourceVersion="0", limit="1"))["items"]) == 3

    await api.eventually(all_there)
    listed = await api.see(api.gadgets, resourceVersion="0", limit="1")
    assert not listed["metadata"].get("continue")


async def test_a_list_not_older_than_a_version_has_what_was_written_by_then(api: Api) -> None:
    versions = await three_gadgets(api)
    listed = await api.see(api.gadgets, resourceVersion=str(versions[-1]))
    assert len(listed["items"]) == 3
    assert int(listed["metadata"]["resourceVersion"]) >= versions[-1]


async def test_a_list_at_exactly_a_version_shows_the_past(api: Api) -> None:
    versions = await three_gadgets(api)
    await api.patched(f"{api.gadgets}/b", {"spec": {"color": "green"}})
    listed = await api.see(api.gadgets, resourceVersion=str(versions[1]), resourceVersionMatch="Exact")
    assert [(i["metadata"]["name"], i["spec"]["color"]) for i in listed["items"]] == [("b", "red"), ("c", "blue")]
    assert listed["metadata"]["resourceVersion"] == str(versions[1])


async def test_a_match_without_a_version_is_refused(api: Api) -> None:
    answer = await api.http.get(api.gadgets, params={"resourceVersionMatch": "Exact"})
    message = refusal(answer, 422, "Invalid")
    assert "resourceVersionMatch is forbidden unless resourceVersion is provided" in message


async def test_an_unknown_match_or_exactly_zero_is_refused(api: Api) -> None:
    answer = await api.http.get(api.gadgets, params={"resourceVersion": "5", "resourceVersionMatch": "Nearly"})
    assert "resourceVersionMatch: Unsupported value" in refusal(answer, 422, "Invalid")
    answer = await api.http.get(api.gadgets, params={"resourceVersion": "0", "resourceVersionMatch": "Exact"})
    assert 'resourceVersionMatch "exact" is forbidden' in refusal(answer, 422, "Invalid").replace("\\", "")


async def test_a_version_that_is_no_number_is_refused(api: Api) -> None:
    refusal(await api.http.get(api.gadgets, params={"resourceVersion": "abc"}), 400, "BadRequest")


async def test_a_version_of_the_future_times_out_with_advice(api: Api) -> None:
    answer = await api.http.get(api.gadgets, params={"resourceVersion": "999999999"})
    assert refusal(answer, 504, "Timeout").startswith("Timeout: Too large resource version: 999999999, current: ")
    assert answer.json()["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
    assert answer.json()["details"]["retryAfterSeconds"] == 1


async def test_an_exact_version_whose_history_is_gone_is_expired(api: Api) -> None:
    await three_gadgets(api)
    await api.forget_history()
    answer = await api.http.get(api.gadgets, params={"resourceVersion": "1", "resourceVersionMatch": "Exact"})
    assert refusal(answer, 410, "Expired") == "The resourceVersion for the provided list is too old."


async def test_an_object_read_not_older_than_now_is_served(api: Api) -> None:
    made = await api.make_gadget("a")
    assert await api.see(f"{api.gadgets}/a", resourceVersion=made["metadata"]["resourceVersion"]) == made
    # 0 is any version: a real server answers from its cache, which has caught up by now.
    assert await api.see(f"{api.gadgets}/a", resourceVersion="0") == made


async def test_watch_on_a_single_object_is_a_plain_get(api: Api) -> None:
    made = await api.make_gadget("a")
    assert await api.see(f"{api.gadgets}/a", watch="1") == made


async def test_an_unknown_answer_type_is_not_acceptable(api: Api) -> None:
    answer = await api.http.get(api.gadgets, headers={"Accept": "text/html"})
    assert refusal(answer, 406, "NotAcceptable").startswith("only the following media types are accepted: ")


async def test_both_versions_of_a_kind_show_the_same_object(api: Api) -> None:
    made = await api.make_gadget("a", {"slots": 2})
    other = await api.see(f"{api.path('gadgets', f'{GROUP}/v1beta1')}/a")
    assert other["apiVersion"] == f"{GROUP}/v1beta1"
    assert other["spec"] == made["spec"]
    assert other["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    listed = await api.see(api.path("gadgets", f"{GROUP}/v1beta1"))
    assert listed["apiVersion"] == f"{GROUP}/v1beta1"
    assert listed["items"][0]["apiVersion"] == f"{GROUP}/v1beta1"


async def test_an_object_made_in_one_version_is_read_in_the_other(api: Api) -> None:
    body = {**api.gadget("a", {"slots": 2}), "apiVersion": f"{GROUP}/v1beta1"}
    await api.make(api.path("gadgets", f"{GROUP}/v1beta1"), body)
    seen = await api.see(f"{api.gadgets}/a")
    assert (seen["apiVersion"], seen["spec"]["slots"]) == (f"{GROUP}/v1", 2)
    changed = await api.patched(f"{api.path('gadgets', f'{GROUP}/v1beta1')}/a", {"spec": {"slots": 3}})
    assert (changed["apiVersion"], changed["spec"]["slots"]) == (f"{GROUP}/v1beta1", 3)
    assert (await api.see(f"{api.gadgets}/a"))["spec"]["slots"] == 3


async def test_reviews_can_only_be_asked(api: Api) -> None:
    answer = await api.http.get("/apis/authentication.k8s.io/v1/tokenreviews")
    assert answer.status_code == 405


async def test_a_namespaced_kind_cannot_be_made_without_a_namespace(api: Api) -> None:
    answer = await api.http.post("/api/v1/configmaps", json={"metadata": {"name": "c"}})
    assert answer.status_code == 405
    assert (await api.http.get("/api/v1/configmaps/c")).status_code == 404
    assert (await api.http.get(f"/api/v1/namespaces/{api.namespace}/nodes")).status_code == 404


async def test_large_pages_are_walked_in_order(api: Api) -> None:
    for number in range(25):
        await api.make_gadget(f"g{number:02}", labels={"odd": str(number % 2)})
    names, token = [], ""
    while True:
        query = {"limit": "4", "labelSelector": "odd=1"} | ({"continue": token} if token else {})
        page = await api.see(api.gadgets, **query)
        assert len(page["items"]) <= 4
        names += [i["metadata"]["name"] for i in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == [f"g{number:02}" for number in range(1, 25, 2)]
