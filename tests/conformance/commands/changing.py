"""kubectl apply, diff, patch, annotate, label, edit, scale, replace."""

from __future__ import annotations

from conformance.kubectl import Kubectl, gadget
from conformance.target import GROUP


async def test_apply_creates_then_changes_then_does_nothing(kubectl: Kubectl) -> None:
    first = kubectl.write(gadget("g", {"slots": 1, "color": "red"}))
    assert await kubectl("apply", "-f", first) == f"gadget.{GROUP}/g created\n"
    assert await kubectl("apply", "-f", first) == f"gadget.{GROUP}/g unchanged\n"
    second = kubectl.write(gadget("g", {"slots": 2}))
    assert await kubectl("apply", "-f", second) == f"gadget.{GROUP}/g configured\n"
    seen = await kubectl.json("get", "gd", "g")
    assert seen["spec"]["slots"] == 2
    assert "color" not in seen["spec"]


async def test_apply_works_on_built_in_kinds(kubectl: Kubectl) -> None:
    def config(**data: str) -> str:
        return kubectl.write({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})

    assert await kubectl("apply", "-f", config(a="1", b="2")) == "configmap/c created\n"
    assert await kubectl("apply", "-f", config(a="1", b="2")) == "configmap/c unchanged\n"
    assert await kubectl("apply", "-f", config(a="3")) == "configmap/c configured\n"
    assert (await kubectl.json("get", "cm", "c"))["data"] == {"a": "3"}


async def test_apply_refuses_what_the_schema_refuses(kubectl: Kubectl) -> None:
    complaint = await kubectl.complaint("apply", "-f", kubectl.write(gadget("g", {"size": "huge"})))
    assert 'spec.size: Unsupported value: "huge"' in complaint
    complaint = await kubectl.complaint("apply", "-f", kubectl.write(gadget("g", {"bogus": 1})))
    assert 'unknown field "spec.bogus"' in complaint
    assert 'unknown field "spec.bogus"' in await kubectl.said(
        "apply", "--validate=warn", "-f", kubectl.write(gadget("g", {"bogus": 1}))
    )


async def test_apply_on_the_server_knows_conflicts(kubectl: Kubectl) -> None:
    first = kubectl.write(gadget("g", {"slots": 1}))
    assert await kubectl("apply", "--server-side", "-f", first) == f"gadget.{GROUP}/g serverside-applied\n"
    other = kubectl.write(gadget("g", {"slots": 2}))
    complaint = await kubectl.complaint("apply", "--server-side", "--field-manager=rival", "-f", other)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.slots' in complaint
    await kubectl("apply", "--server-side", "--field-manager=rival", "--force-conflicts", "-f", other)
    assert (await kubectl.json("get", "gd", "g"))["spec"]["slots"] == 2


async def test_apply_moves_over_to_the_server(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.write(gadget("g", {"slots": 1, "color": "red"})))
    await kubectl("apply", "--server-side", "-f", kubectl.write(gadget("g", {"slots": 2, "color": "red"})))
    moved = await kubectl.json("get", "gd", "g", "--show-managed-fields")
    assert [(e["manager"], e["operation"]) for e in moved["metadata"]["managedFields"]] == [
        ("kubectl-last-applied", "Apply"),
        ("kubectl", "Apply"),
    ]
    await kubectl("apply", "--server-side", "-f", kubectl.write(gadget("g", {"slots": 2})))
    assert "color" not in (await kubectl.json("get", "gd", "g"))["spec"]


async def test_diff_shows_what_apply_would_change(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.write(gadget("g", {"slots": 1})))
    assert await kubectl("diff", "-f", kubectl.write(gadget("g", {"slots": 1}))) == ""
    shown = await kubectl("diff", "-f", kubectl.write(gadget("g", {"slots": 5})), code=1)
    assert "-  slots: 1" in shown
    assert "+  slots: 5" in shown
    new = await kubectl("diff", "-f", kubectl.write(gadget("h", {"slots": 5})), code=1)
    assert "+  slots: 5" in new
    assert "NotFound" in await kubectl.complaint("get", "gd", "h")
    server = await kubectl("diff", "--server-side", "-f", kubectl.write(gadget("h", {"slots": 5})), code=1)
    assert "+  slots: 5" in server


async def test_patch_takes_its_three_types(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g", {"slots": 1})))
    assert await kubectl("patch", "gd", "g", "--type=merge", "-p", '{"spec":{"slots":2}}') == (
        f"gadget.{GROUP}/g patched\n"
    )
    assert "(no change)" in await kubectl("patch", "gd", "g", "--type=merge", "-p", '{"spec":{"slots":2}}')
    operations = '[{"op":"replace","path":"/spec/slots","value":3}]'
    assert "patched" in await kubectl("patch", "gd", "g", "--type=json", "-p", operations)
    assert "accepted media types include" in await kubectl.complaint("patch", "gd", "g", "-p", '{"spec":{"slots":2}}')
    await kubectl("patch", "gd", "g", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Up"}}')
    seen = await kubectl.json("get", "gd", "g")
    assert (seen["spec"]["slots"], seen["status"]) == (3, {"phase": "Up"})
    await kubectl("create", "cm", "c", "--from-literal=a=1")
    await kubectl("patch", "cm", "c", "-p", '{"data":{"b":"2"}}')
    assert (await kubectl.json("get", "cm", "c"))["data"] == {"a": "1", "b": "2"}


async def test_annotate_and_label(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g")))
    assert await kubectl("annotate", "gd", "g", "a=1") == f"gadget.{GROUP}/g annotated\n"
    assert await kubectl("label", "gd", "g", "l=1") == f"gadget.{GROUP}/g labeled\n"
    assert "not labeled" in await kubectl("label", "gd", "g", "l=1")
    assert "already has a value" in await kubectl.complaint("label", "gd", "g", "l=2")
    await kubectl("label", "gd", "g", "l=2", "--overwrite")
    await kubectl("annotate", "gd", "--all", "a-")
    meta = (await kubectl.json("get", "gd", "g"))["metadata"]
    assert meta["labels"] == {"l": "2"}
    assert "annotations" not in meta


async def test_edit_saves_what_the_editor_changed(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g", {"slots": 1})))
    said = await kubectl("edit", "gd", "g", KUBE_EDITOR="sed -i 's/slots: 1/slots: 4/'")
    assert said == f"gadget.{GROUP}/g edited\n"
    assert (await kubectl.json("get", "gd", "g"))["spec"]["slots"] == 4
    await kubectl("edit", "gd", "g", KUBE_EDITOR="true")


async def test_scale_changes_replicas(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g", {"replicas": 1})))
    assert await kubectl("scale", "gd", "g", "--replicas=3") == f"gadget.{GROUP}/g scaled\n"
    assert await kubectl("scale", "gd", "g", "--current-replicas=3", "--replicas=4") == f"gadget.{GROUP}/g scaled\n"
    assert "Expected replicas to be 3" in await kubectl.complaint(
        "scale", "gd", "g", "--current-replicas=3", "--replicas=5"
    )
    assert (await kubectl.json("get", "gd", "g"))["spec"]["replicas"] == 4


async def test_replace_swaps_the_whole_object(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.write(gadget("g", {"slots": 1, "color": "red"})))
    uid = (await kubectl.json("get", "gd", "g"))["metadata"]["uid"]
    assert await kubectl("replace", "-f", kubectl.write(gadget("g", {"slots": 2}))) == f"gadget.{GROUP}/g replaced\n"
    seen = await kubectl.json("get", "gd", "g")
    assert "color" not in seen["spec"]
    assert seen["metadata"]["uid"] == uid
    await kubectl("replace", "--force", "-f", kubectl.write(gadget("g", {"slots": 3})))
    assert (await kubectl.json("get", "gd", "g"))["metadata"]["uid"] != uid
    assert "NotFound" in await kubectl.complaint("replace", "-f", kubectl.write(gadget("nope")))
