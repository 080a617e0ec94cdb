"""The Table that `kubectl get` prints."""

from __future__ import annotations

import re

from conformance.target import GROUP, TABLE, Api, Json, cells

AGE = re.compile(r"\d+s|\d+m\d*s?")


async def table(api: Api, path: str, **params: str) -> Json:
    answer = await api.http.get(path, params=params, headers={"Accept": TABLE})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    return body


def columns(body: Json) -> list[tuple[str, str, int]]:
    return [(c["name"], c["type"], c["priority"]) for c in body["columnDefinitions"]]


async def test_a_custom_kind_shows_its_own_columns(api: Api) -> None:
    made = await api.make_gadget("a", {"slots": 3, "tags": ["x", "y"]}, labels={"l": "1"})
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [{"type": "Other", "status": "False"}, ready], "checkedAt": "2020-01-01T00:00:00Z"}
    await api.patched(f"{api.gadgets}/a/status", {"status": status})
    body = await table(api, api.gadgets)
    assert columns(body) == [
        ("Name", "string", 0),
        ("Size", "string", 0),
        ("Slots", "integer", 0),
        ("Ready", "string", 0),
        ("Tags", "string", 1),
        ("Tag", "string", 1),
        ("Checked", "date", 0),
        ("Age", "date", 0),
    ]
    assert body["columnDefinitions"][0]["format"] == "name"
    assert body["columnDefinitions"][1]["description"] == "How big."
    (row,) = cells(body)
    assert row[:6] == ["a", "medium", 3, "True", '["x","y"]', "x"]
    assert re.fullmatch(r"\d+y\d*d?", row[6])
    assert AGE.fullmatch(row[7])
    shown = body["rows"][0]["object"]
    assert (shown["kind"], shown["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]
    assert shown["metadata"]["labels"] == {"l": "1"}
    assert "spec" not in shown


async def test_missing_values_are_null(api: Api) -> None:
    await api.make_gadget("a")
    (row,) = cells(await table(api, api.gadgets))
    assert row[:7] == ["a", "medium", None, None, None, None, None]


async def test_a_date_of_the_future_is_invalid(api: Api) -> None:
    await api.make_gadget("a")
    await api.patched(f"{api.gadgets}/a/status", {"status": {"checkedAt": "2999-01-01T00:00:00Z"}})
    (row,) = cells(await table(api, api.gadgets))
    assert row[6] == "<invalid>"


async def test_each_version_has_its_own_columns(api: Api) -> None:
    body = await table(api, api.path("gadgets", f"{GROUP}/v1beta1"))
    assert [c[0] for c in columns(body)] == ["Name", "Size"]
    assert body["rows"] == []


async def test_a_single_object_is_a_table_of_one_row(api: Api) -> None:
    made = await api.make_gadget("a")
    body = await table(api, f"{api.gadgets}/a")
    assert body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert [row[0] for row in cells(body)] == ["a"]


async def test_rows_can_carry_the_whole_object_or_none(api: Api) -> None:
    made = await api.make_gadget("a")
    whole = await table(api, api.gadgets, includeObject="Object")
    assert whole["rows"][0]["object"]["spec"] == made["spec"]
    assert whole["rows"][0]["object"]["kind"] == "Gadget"
    none = await table(api, api.gadgets, includeObject="None")
    assert none["rows"][0].get("object") is None


async def test_a_table_has_pages(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.make_gadget(name)
    body = await table(api, api.gadgets, limit="2")
    assert [row[0] for row in cells(body)] == ["a", "b"]
    assert body["metadata"]["continue"]
    assert body["metadata"]["remainingItemCount"] == 1


async def test_built_in_kinds_have_the_columns_that_users_know(api: Api) -> None:
    for path, names in (
        (api.pods, ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]),
        (api.configmaps, ["Name", "Data", "Age"]),
        (api.path("secrets"), ["Name", "Type", "Data", "Age"]),
        (api.path("leases", "coordination.k8s.io/v1"), ["Name", "Holder", "Age"]),
        ("/api/v1/namespaces", ["Name", "Status", "Age"]),
        (
            "/api/v1/nodes",
            [
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "Internal-IP",
                "External-IP",
                "OS-Image",
                "Kernel-Version",
                "Container-Runtime",
            ],
        ),
        (
            api.path("events"),
            [
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "Subobject",
                "Source",
                "Message",
                "First Seen",
                "Count",
                "Name",
            ],
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ["Name", "Created At"]),
        (
            api.path("rolebindings", "rbac.authorization.k8s.io/v1"),
            ["Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"],
        ),
        (api.path("roles", "rbac.authorization.k8s.io/v1"), ["Name", "Created At"]),
    ):
        assert [c[0] for c in columns(await table(api, path))] == names, path


async def test_cells_of_config_are_counts(api: Api) -> None:
    await api.make(api.configmaps, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    await api.make(api.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"a": "1"}})
    rows = {row[0]: row for row in cells(await table(api, api.configmaps))}
    assert rows["c"][1] == 2
    rows = {row[0]: row for row in cells(await table(api, api.path("secrets")))}
    assert rows["s"][1:3] == ["Opaque", 1]


async def test_an_event_is_told_with_its_object_and_age(api: Api) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Gadget", "name": "a", "namespace": api.namespace, "apiVersion": f"{GROUP}/v1"},
        "reason": "Turned",
        "message": "It turned over.",
        "type": "Normal",
        "count": 3,
        "source": {"component": "tester"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
    }
    await api.make(api.path("events"), event)
    (row,) = cells(await table(api, api.path("events")))
    assert re.match(r"\d+y", row[0])
    assert row[1:7] == ["Normal", "Turned", "gadget/a", "", "tester", "It turned over."]
    assert (row[8], row[9]) == (3, "e1")


async def test_a_node_and_a_pod_are_summed_up(api: Api) -> None:
    node = api.unique("node")
    await api.make("/api/v1/nodes", {"metadata": {"name": node, "labels": {"node-role.kubernetes.io/worker": ""}}})
    (row,) = cells(await table(api, f"/api/v1/nodes/{node}"))
    assert row[1:3] == ["Unknown", "worker"]
    await api.patched(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    (row,) = cells(await table(api, f"/api/v1/nodes/{node}"))
    assert row[1] == "Unknown,SchedulingDisabled"
    await api.eventually(lambda: has_account(api))
    await api.make(api.pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    (row,) = cells(await table(api, f"{api.pods}/p"))
    assert row[:4] == ["p", "0/1", "Pending", "0"]
    assert row[5:] == ["<none>", "<none>", "<none>", "<none>"]
    await api.delete(f"/api/v1/nodes/{node}")


async def has_account(api: Api) -> bool:
    return (await api.http.get(f"{api.path('serviceaccounts')}/default")).status_code == 200
