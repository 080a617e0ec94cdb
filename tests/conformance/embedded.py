"""The embedded API as a conformance target: assembled as in production, reached without sockets."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
from conformance import gadgets
from conformance.target import GROUP, Api
from doubles.clocks import WITHIN

from paddock.base.clock import SystemClock
from paddock.base.rng import unseeded
from paddock.base.secrets import Secret
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.folder import DataFolder
from paddock.embedded.store import Store
from paddock.simulator.transport import InProcessTransport


@dataclass(frozen=True)
class Embedded:
    """A running control plane, its administrator's token, and the store below it."""

    plane: ControlPlane
    store: Store
    token: Secret

    def speaker(self, token: str | None) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = InProcessTransport(self.plane.app)
        return httpx2.AsyncClient(transport=transport, base_url="http://paddock", headers=headers, timeout=30.0)

    async def forget_history(self) -> None:
        await self.store.compact(self.store.revision)

    @asynccontextmanager
    async def api(self) -> AsyncIterator[Api]:
        """The target for one case, with a namespace of its own."""
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(self.speaker(self.token.reveal()))
            namespace = f"case-{secrets.token_hex(4)}"
            (await http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})).raise_for_status()
            yield Api(http, namespace, self.speaker, self.forget_history, stack, is_real=False)
            await http.delete(f"/api/v1/namespaces/{namespace}")


@asynccontextmanager
async def embedded(store: Store, folder: Path) -> AsyncIterator[Embedded]:
    """A control plane over a store, running, with the test kind installed."""
    data = DataFolder(folder)
    data.make()
    token = data.admin_token()
    plane = ControlPlane(store, SystemClock(), unseeded(), admin_token=token, signing_key=data.signing_key())
    started, stop = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with plane.running():
            started.set()
            await stop.wait()

    # A fixture is entered and left by different tasks, which a task group does not survive: so one task holds it.
    running = asyncio.ensure_future(run())
    waiting = asyncio.ensure_future(started.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    made = Embedded(plane, store, token)
    try:
        async with made.speaker(token.reveal()) as http:
            (await http.post(gadgets.DEFINITIONS, json=gadgets.definition())).raise_for_status()
            async with asyncio.timeout(WITHIN):
                while (await http.get(f"/apis/{GROUP}/v1/gadgets")).status_code != 200:
                    await asyncio.sleep(0.02)
        yield made
    finally:
        stop.set()
        await running
