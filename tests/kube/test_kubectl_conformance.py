"""The kubectl commands of the conformance suite against a real kube-apiserver, with the kubectl of its release."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance import commands
from conformance.collection import Case, every_case
from conformance.kubectl import Kubectl
from kube.gadgets_served import serve_gadgets

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane


@pytest.fixture(scope="module")
def gadgets_served(control_plane: ControlPlane) -> None:
    serve_gadgets(control_plane)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all, so that what kubectl discovers is discovered once."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
async def kubectl(control_plane: ControlPlane, gadgets_served: None, home: Path) -> AsyncIterator[Kubectl]:
    namespace = f"case-{secrets.token_hex(4)}"
    with control_plane.client() as http:
        http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        yield Kubectl(control_plane.kubectl, control_plane.kubeconfig, home, namespace)
        http.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.parametrize("case", every_case(commands))
async def test_kubectl_and_the_real_server(case: Case, kubectl: Kubectl) -> None:
    await case(kubectl)
