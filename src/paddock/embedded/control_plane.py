"""The embedded control plane: the API over a store, with the housekeeping that makes it behave like a cluster."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.base.supervise import keep_running
from paddock.embedded.api.access import API_AUDIENCE, Access
from paddock.embedded.api.builtin import catalogue as builtins
from paddock.embedded.api.certificate_signer import CertificateSigner
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.api.default_roles import DEFAULT_ROLES
from paddock.embedded.api.event_expiry import EventExpiry
from paddock.embedded.api.garbage_collector import GarbageCollector
from paddock.embedded.api.http import ApiServer
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.namespace_controller import NamespaceController, create_first_namespaces, serve_stored_kinds
from paddock.embedded.api.node_lifecycle import NodeLifecycle
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.scheduler import Scheduler
from paddock.embedded.api.tokens import StaticTokens, TokenIssuer
from paddock.embedded.store import Store

__all__ = ["ControlPlane"]

_MANAGER = Write(manager="paddock")


class ControlPlane:
    """One API server, its garbage collector, its namespace and definition housekeeping, and its scheduler.

    `app` is the ASGI application. Nothing is served correctly before `running()` has been entered: that is where stored
    kinds are loaded and the first namespaces are made.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        *,
        admin_token: Secret,
        signing_key: Secret,
        definitions: Iterable[dict[str, Any]] = (),
        roles: Iterable[dict[str, Any]] = (),
        authority: ClientAuthority | None = None,
        machines: str = "",
        node_lifecycle: bool = False,
    ) -> None:
        """`node_lifecycle` judges Nodes by their Leases, which asks for agents that renew them. `authority` signs and knows client certificates; without one, requests for them stay unanswered. `machines` is
        the resource that nodes are made from: see `Access`.
        """
        self._clock = clock
        self._rng = rng
        self._definitions = tuple(definitions)
        self._roles = (*DEFAULT_ROLES, *roles)
        self._authority = authority
        self._node_lifecycle = node_lifecycle
        self.kinds = Kinds(builtins.KINDS)
        self.objects = Objects(store, self.kinds, clock, rng)
        self.access = Access(
            store,
            TokenIssuer(signing_key, API_AUDIENCE, clock, rng),
            StaticTokens([admin_token]),
            clock,
            authority=authority,
            machines=machines,
        )
        self.app = ApiServer(self.objects, self.access, clock, rng)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Housekeeping runs for as long as the block does; watches are ended when it is left."""
        store = self.objects.store
        await serve_stored_kinds(store, self.kinds)
        await create_first_namespaces(self.objects)
        await self._install()
        work = {
            "namespaces": NamespaceController(self.objects).run,
            "garbage": lambda: GarbageCollector(self.objects).run(),
            "events": EventExpiry(self.objects).run,
            "binder": lambda: Scheduler(self.objects).run(),
        }
        if self._node_lifecycle:
            work["node lifecycle"] = lambda: NodeLifecycle(self.objects).run()
        if self._authority is not None:
            work["certificates"] = CertificateSigner(self.objects, self._authority, self.access.authorizer).run
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(keep_running(name, run, self._clock, self._rng), name=name)
                for name, run in work.items()
            ]
            try:
                yield
            finally:
                self.app.end_streams()
                for task in tasks:
                    task.cancel()

    async def _install(self) -> None:
        """Our own kinds and roles, brought up to date at every start."""
        for manifest in (*self._definitions, *self._roles):
            kind = self.kinds.by_group_kind(manifest["apiVersion"], manifest["kind"])
            assert kind is not None, f"{manifest['kind']} is not served"
            await self.objects.apply(kind, "", manifest["metadata"]["name"], manifest, _MANAGER, force=True)
        await serve_stored_kinds(self.objects.store, self.kinds)
