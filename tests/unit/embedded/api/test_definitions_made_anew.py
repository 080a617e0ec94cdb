"""A definition that is deleted and made again before the housekeeping looks: what was made under the new one stays."""

import asyncio
import random
from typing import Any

from paddock.base.clock import SystemClock
from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.namespace_controller import NamespaceController, serve_stored_kinds
from paddock.embedded.api.objects import Objects
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore

Json = dict[str, Any]
DEFINITION = Key("customresourcedefinitions.apiextensions.k8s.io", "", "gadgets.example.com")


def definition(uid: str) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"kind": "Gadget", "plural": "gadgets"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": DEFINITION.name, "uid": uid}, "spec": spec}


def gadget(name: str) -> Key:
    return Key("gadgets.example.com", "", name)


async def test_an_object_of_a_definition_that_was_made_anew_outlives_the_old_one() -> None:
    store, kinds = MemoryStore(), Kinds(KINDS)
    first = await store.create(DEFINITION, definition("first"))
    await store.create(gadget("old"), {"metadata": {"name": "old", "uid": "old"}})
    await serve_stored_kinds(store, kinds)
    controller = asyncio.create_task(NamespaceController(Objects(store, kinds, SystemClock(), random.Random(1))).run())
    try:
        await asyncio.sleep(0.05)
        await store.delete(DEFINITION, first.revision)
        await store.create(DEFINITION, definition("second"))
        await store.create(gadget("new"), {"metadata": {"name": "new", "uid": "new"}})
        async with asyncio.timeout(10):
            while await store.get(gadget("old")) is not None or kinds.get("example.com", "v1", "gadgets") is None:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert await store.get(gadget("new")) is not None
        assert kinds.get("example.com", "v1", "gadgets") is not None
    finally:
        controller.cancel()
        await asyncio.gather(controller, return_exceptions=True)
