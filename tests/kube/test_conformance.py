"""The conformance cases against a real kube-apiserver: what passes here is the truth the embedded API is held to."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx2
import pytest
from conformance import cases
from conformance.collection import Case, every_case
from conformance.target import Api
from kube.gadgets_served import serve_gadgets

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane


@pytest.fixture(scope="module")
def gadgets_served(control_plane: ControlPlane) -> None:
    serve_gadgets(control_plane)


@pytest.fixture(scope="module")
def tls(control_plane: ControlPlane) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(control_plane.ca_file))


@pytest.fixture
async def api(control_plane: ControlPlane, gadgets_served: None, tls: ssl.SSLContext) -> AsyncIterator[Api]:
    def speaker(token: str | None) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A proxy named in the environment must not see loopback traffic.
        return httpx2.AsyncClient(
            base_url=control_plane.url, verify=tls, headers=headers, timeout=90.0, trust_env=False
        )

    async def forget_history() -> None:
        """Compact etcd itself, by the JSON gateway on its socket."""
        newest = (await http.get(f"/api/v1/namespaces/{namespace}")).json()["metadata"]["resourceVersion"]
        socket = httpx2.AsyncHTTPTransport(uds=str(control_plane.ca_file.parent / "etcd.sock"))
        async with httpx2.AsyncClient(transport=socket) as etcd:
            answer = await etcd.post("http://etcd/v3/kv/compaction", json={"revision": newest})
            assert answer.is_success or "compacted" in answer.text, answer.text

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(speaker(control_plane.token))
        namespace = f"case-{secrets.token_hex(4)}"
        (await http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})).raise_for_status()
        yield Api(http, namespace, speaker, forget_history, stack, is_real=True)
        await http.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.parametrize("case", every_case(cases))
async def test_the_real_server(case: Case, api: Api) -> None:
    await case(api)
