"""A kind for tests, and the pieces that every test of the runtime needs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ClassVar

from unit.kube.fake_api import FakeApi

from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.objects import KubeObject, ObjectMeta, Struct
from paddock.kube.resource import Resource

COLLECTION = "things.example.dev"


class ThingSpec(Struct, frozen=True):
    size: int = 0
    node: str = ""


class Thing(KubeObject, frozen=True):
    RESOURCE: ClassVar[Resource] = Resource("example.dev", "v1", "Thing", "things")

    spec: ThingSpec = ThingSpec()
    status: dict[str, Any] = {}


def thing(name: str, *, namespace: str = "ns", size: int = 0) -> Thing:
    return Thing(metadata=ObjectMeta(name=name, namespace=namespace), spec=ThingSpec(size=size))


def raw(name: str, *, namespace: str = "ns", size: int = 0, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": {"size": size}}


def client_of(api: FakeApi, **options: Any) -> Client:
    return Client(Config("http://fake"), api.transport(), **options)


@contextlib.asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Run them beside the test; afterwards they are cancelled and awaited, and a failure of theirs is raised."""
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def until(condition: Callable[[], bool], *, within: float = 5.0, every: float = 0.01) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(every)
