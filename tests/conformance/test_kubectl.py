"""The real kubectl against the embedded API over HTTPS, as a user of `paddock up` meets it.

It needs a kubectl, so it runs where one is on PATH or where `make test-kube` has built one, and is skipped elsewhere. The
same commands run against a real server in `tests/kube/test_kubectl_conformance.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from conformance import commands
from conformance.collection import Case, every_case
from conformance.embedded import Embedded, embedded
from conformance.kubectl import Kubectl, found_kubectls

from paddock.base.clock import SystemClock
from paddock.base.http_server import Tls, bind, listening
from paddock.embedded.certificates import Certificates
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.store.memory import MemoryStore

KUBECTLS = found_kubectls()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not KUBECTLS, reason="there is no kubectl: install one, or let `make test-kube` build one"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Embedded, Path]]:
    """The embedded API on a free port of loopback, and the administrator's kubeconfig."""
    folder = tmp_path_factory.mktemp("kubectl")
    certificates = Certificates.ensure(folder / "certificates", SystemClock().now())
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(embedded(MemoryStore(), folder / "data"))
        socket = bind(0, "none")
        tls = Tls(certificates.certificate, certificates.key)
        await stack.enter_async_context(listening(plane.plane.app, socket, tls))
        url = f"https://127.0.0.1:{socket.getsockname()[1]}"
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url=url, authority=certificates.authority, token=plane.token)
        yield plane, kubeconfig


@pytest.fixture(scope="module", params=sorted(KUBECTLS) or ["none"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A kubectl and the home that holds its cache."""
    return KUBECTLS[request.param], tmp_path_factory.mktemp(request.param)


@pytest_asyncio.fixture(loop_scope="module")
async def kubectl(served: tuple[Embedded, Path], home: tuple[Path, Path]) -> AsyncIterator[Kubectl]:
    plane, kubeconfig = served
    async with plane.api() as api:
        yield Kubectl(home[0], kubeconfig, home[1], api.namespace)


@pytest.mark.parametrize("case", every_case(commands))
async def test_kubectl(case: Case, kubectl: Kubectl) -> None:
    await case(kubectl)
