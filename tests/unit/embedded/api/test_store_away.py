"""What the housekeeping of the API owes when the store was away in its moment: it is done once the store is back."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.base.clock import SystemClock
from paddock.base.secrets import Secret
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.guards import CSRS
from paddock.embedded.api.node_authorizer import KUBELET_CLIENT
from paddock.embedded.api.objects import Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store import Key, Record, StoreUnavailableError
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.operations import Operation

Json = dict[str, Any]
CLIENT = Write(manager="somebody")


class OutageStore(MemoryStore):
    """A store that goes away after a write that was waited for, and comes back when told."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_after: Callable[[Operation], bool] = lambda _: False
        self.away = False
        self.refused = 0

    def _write(self, operation: Operation) -> Record:
        if self.away:
            self.refused += 1
            raise StoreUnavailableError("the database of the store is away")
        record = super()._write(operation)
        self.away = self.goes_after(operation)
        return record


class Cluster:
    def __init__(self) -> None:
        self.store = OutageStore()
        clock = SystemClock()
        self.plane = ControlPlane(
            self.store,
            clock,
            random.Random(1),
            admin_token=Secret("admin"),
            signing_key=generate_key(),
            authority=ClientAuthority.made(clock.now()),
        )

    async def create(self, resource: str, namespace: str, body: Json) -> None:
        kind = self.plane.kinds.by_resource(resource)
        assert kind is not None
        await self.plane.objects.create(kind, namespace, body, CLIENT)

    async def until(self, key: Key, holds: Callable[[Json | None], bool]) -> None:
        async with asyncio.timeout(10):
            while True:
                record = await self.store.get(key)
                if holds(None if record is None else decode(record)):
                    return
                await asyncio.sleep(0.01)

    async def comes_back_unnoticed(self) -> None:
        """The outage ends after housekeeping has met it, and nothing else happens."""
        async with asyncio.timeout(10):
            while not self.store.refused:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        self.store.goes_after = lambda _: False
        self.store.away = False


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made, started, stop = Cluster(), asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with made.plane.running():
            await made.until(Key("serviceaccounts", "kube-system", "default"), lambda account: account is not None)
            started.set()
            await stop.wait()

    # A fixture is entered and left by different tasks, which a task group does not survive: so one task holds it.
    task = asyncio.create_task(run())
    await started.wait()
    yield made
    stop.set()
    await task


async def test_a_namespace_that_ended_as_the_store_went_away_is_emptied(cluster: Cluster) -> None:
    key = Key("namespaces", "", "brief")
    await cluster.create("namespaces", "", {"metadata": {"name": "brief"}})
    await cluster.until(Key("serviceaccounts", "brief", "default"), lambda account: account is not None)
    kind = cluster.plane.kinds.by_resource("namespaces")
    assert kind is not None
    cluster.store.goes_after = lambda operation: operation.key == key
    await cluster.plane.objects.delete(kind, "", "brief", DeleteOptions())
    await cluster.comes_back_unnoticed()
    await cluster.until(key, lambda namespace: namespace is None)


async def test_a_pod_that_came_as_the_store_went_away_is_bound(cluster: Cluster) -> None:
    ready = {"allocatable": {"pods": "2"}, "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.create("nodes", "", {"metadata": {"name": "mac-1"}, "status": ready})
    key = Key("pods", "default", "runner")
    cluster.store.goes_after = lambda operation: operation.key == key
    await cluster.create(
        "pods", "default", {"metadata": {"name": "runner"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    )
    await cluster.comes_back_unnoticed()
    await cluster.until(key, lambda pod: pod is not None and pod["spec"].get("nodeName") == "mac-1")


async def test_a_request_that_was_approved_as_the_store_went_away_is_signed(cluster: Cluster) -> None:
    key = Key(CSRS, "", "mac-1")
    spec = {"signerName": KUBELET_CLIENT, "usages": ["client auth", "digital signature"], "request": _request("mac-1")}
    await cluster.create(CSRS, "", {"metadata": {"name": "mac-1"}, "spec": spec})
    kind = cluster.plane.kinds.by_resource(CSRS)
    assert kind is not None

    def approved(request: Json) -> Json:
        request["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
        return request

    cluster.store.goes_after = lambda operation: operation.key == key
    await cluster.plane.objects.change(kind, "", "mac-1", approved, Write(manager="admin", subresource="status"))
    await cluster.comes_back_unnoticed()
    await cluster.until(key, lambda request: request is not None and "certificate" in request["status"])


def _request(node: str) -> str:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    signed = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
