"""kubectl get, describe, events."""

from __future__ import annotations

import asyncio

from conformance.kubectl import Kubectl, gadget, rows
from conformance.target import GROUP


async def two(kubectl: Kubectl) -> None:
    one = gadget("one", {"slots": 1, "color": "red", "tags": ["a"]}, labels={"n": "1"})
    other = gadget("two", {"slots": 2, "color": "blue", "size": "large"}, labels={"n": "2"})
    await kubectl("create", "-f", kubectl.write(one, other))


async def test_get_prints_a_table(kubectl: Kubectl) -> None:
    await two(kubectl)
    table = await kubectl("get", "gd")
    assert table.splitlines()[0].split() == ["NAME", "SIZE", "SLOTS", "READY", "CHECKED", "AGE"]
    assert [row[:3] for row in rows(table)] == [["one", "medium", "1"], ["two", "large", "2"]]
    wide = await kubectl("get", "gadgets", "-o", "wide")
    assert wide.splitlines()[0].split() == ["NAME", "SIZE", "SLOTS", "READY", "TAGS", "TAG", "CHECKED", "AGE"]
    assert rows(wide)[0][:5] == ["one", "medium", "1", '["a"]', "a"]


async def test_get_speaks_other_formats(kubectl: Kubectl) -> None:
    await two(kubectl)
    assert (await kubectl("get", "gadget", "-o", "name")).split() == [f"gadget.{GROUP}/one", f"gadget.{GROUP}/two"]
    listed = await kubectl.json("get", "gd")
    assert [item["spec"]["slots"] for item in listed["items"]] == [1, 2]
    assert "slots: 1" in await kubectl("get", "gd", "one", "-o", "yaml")
    assert await kubectl("get", "gd", "-o", "jsonpath={.items[*].spec.color}") == "red blue"
    custom = await kubectl("get", "gd", "-o", "custom-columns=N:.metadata.name,C:.spec.color")
    assert rows(custom) == [["one", "red"], ["two", "blue"]]


async def test_get_selects_and_sorts(kubectl: Kubectl) -> None:
    await two(kubectl)
    assert [r[0] for r in rows(await kubectl("get", "gd", "-l", "n=2"))] == ["two"]
    assert [r[0] for r in rows(await kubectl("get", "gd", "--field-selector", "spec.color=red"))] == ["one"]
    assert [r[0] for r in rows(await kubectl("get", "gd", "--field-selector", "metadata.name!=one"))] == ["two"]
    backwards = await kubectl("get", "gd", "--sort-by=.spec.color")
    assert [r[0] for r in rows(backwards)] == ["two", "one"]
    everywhere = rows(await kubectl("get", "gd", "-A"))
    assert [kubectl.namespace, "one"] in [row[:2] for row in everywhere]
    assert "n=1" in (await kubectl("get", "gd", "one", "--show-labels"))
    assert [r[0] for r in rows(await kubectl("get", "gd", "--chunk-size=1"))] == ["one", "two"]
    assert "No resources found" in await kubectl.said("get", "gd", "-l", "n=9")


async def test_get_knows_categories_and_several_kinds(kubectl: Kubectl) -> None:
    await two(kubectl)
    await kubectl("create", "configmap", "c")
    assert "one" in await kubectl("get", "conformance")
    both = await kubectl("get", "gd,cm", "-o", "name")
    assert f"gadget.{GROUP}/one" in both
    assert "configmap/c" in both


async def test_get_of_what_is_not_there_says_so(kubectl: Kubectl) -> None:
    assert await kubectl.complaint("get", "gd", "nope") == (
        f'Error from server (NotFound): gadgets.{GROUP} "nope" not found\n'
    )
    assert 'the server doesn\'t have a resource type "widgets"' in await kubectl.complaint("get", "widgets")
    assert (await kubectl("get", "gd", "nope", "--ignore-not-found")) == ""
    assert "field label not supported" in await kubectl.complaint("get", "gd", "--field-selector", "spec.size=x")


async def test_get_watches(kubectl: Kubectl) -> None:
    await two(kubectl)
    process = await kubectl.start("get", "gd", "-w")
    try:
        assert process.stdout is not None
        first = [await asyncio.wait_for(process.stdout.readline(), 20) for _ in range(3)]
        assert first[0].split()[0] == b"NAME"
        await kubectl("patch", "gd", "one", "--type=merge", "-p", '{"spec":{"slots":7}}')
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        assert line.split()[:3] == [b"one", b"medium", b"7"]
        await kubectl("delete", "gd", "two")
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        assert line.split()[0] == b"two"
    finally:
        process.kill()
        await process.communicate()


async def test_get_watches_one_object(kubectl: Kubectl) -> None:
    await two(kubectl)
    process = await kubectl.start("get", "gd", "one", "-w", "-o", "name")
    try:
        assert process.stdout is not None
        assert (await asyncio.wait_for(process.stdout.readline(), 20)).strip() == f"gadget.{GROUP}/one".encode()
        await kubectl("label", "gd", "two", "x=y")
        await kubectl("label", "gd", "one", "x=y")
        assert (await asyncio.wait_for(process.stdout.readline(), 20)).strip() == f"gadget.{GROUP}/one".encode()
    finally:
        process.kill()
        await process.communicate()


async def test_get_shows_a_subresource(kubectl: Kubectl) -> None:
    await two(kubectl)
    await kubectl("patch", "gd", "one", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Up"}}')
    assert (await kubectl.json("get", "gd", "one", "--subresource=status"))["status"] == {"phase": "Up"}


async def test_describe_tells_an_object_and_its_events(kubectl: Kubectl) -> None:
    await two(kubectl)
    uid = (await kubectl.json("get", "gd", "one"))["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Gadget",
            "name": "one",
            "namespace": kubectl.namespace,
            "uid": uid,
        },
        "reason": "Turned",
        "message": "It turned over.",
        "type": "Normal",
        "count": 3,
        "source": {"component": "tester"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
    }
    await kubectl("create", "-f", kubectl.write(event))
    told = await kubectl("describe", "gd", "one")
    assert "Slots:" in told
    assert "Turned" in told
    assert "It turned over." in told
    assert "(x3 over " in told
    everything = await kubectl("events")
    assert "Gadget/one" in everything
    assert "It turned over." in await kubectl("events", "--for", "gadget/one")
    assert "It turned over." in await kubectl("get", "events")


async def test_describe_knows_built_in_kinds(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=k=hello")
    await kubectl("create", "secret", "generic", "s", "--from-literal=k=hidden")
    assert "hello" in await kubectl("describe", "cm", "c")
    told = await kubectl("describe", "secret", "s")
    assert "k:  6 bytes" in told
    assert "hidden" not in told
    assert "Status:" in await kubectl("describe", "ns", kubectl.namespace)
    node = kubectl.unique("node")
    await kubectl("create", "-f", kubectl.write({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}))
    assert node in await kubectl("describe", "node", node)
    await kubectl("delete", "node", node)
