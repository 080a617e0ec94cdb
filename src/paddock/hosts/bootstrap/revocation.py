"""How a node's authority ends before its certificate does: a list of nodes that are refused.

A certificate is good for a day, and a node may ask for the next one. So a Mac that was given back is put on a list: a
ConfigMap for each, which the ValidatingAdmissionPolicy `paddock-revoked-nodes` reads. Whatever such a node writes is
refused, above all the request for its next certificate; so nothing is left of it when the entry goes, after a day and an
hour. `paddock up` needs no list: its API looks at the Machine itself.
"""

import contextlib
from datetime import timedelta
from typing import Final

from paddock.base.clock import Clock, parse_rfc3339, rfc3339
from paddock.hosts.bootstrap.identity import MANAGED_BY
from paddock.hosts.bootstrap.node_certificate import LIFETIME
from paddock.kube.builtin import ConfigMap
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["REVOKED", "RevokedNodes"]

REVOKED: Final = "tuist.dev/revoked-node"
_KEPT: Final = LIFETIME + timedelta(hours=1)


class RevokedNodes:
    """The list, in the operator's own namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace

    async def add(self, node: str) -> None:
        """From now on this node is refused. Repeating it changes nothing."""
        until = rfc3339(self._clock.now() + _KEPT)
        meta = ObjectMeta(name=self._name(node), namespace=self._namespace, labels={**MANAGED_BY, REVOKED: "true"})
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(ConfigMap(metadata=meta, data={"node": node, "until": until}))

    async def lift(self, node: str) -> None:
        """Another Mac is being made the node of this name; the one before it was wiped before that."""
        with contextlib.suppress(NotFoundError):
            await self._client.delete(ConfigMap, self._name(node), self._namespace)

    async def tidy(self) -> None:
        """Forget nodes whose last certificate has ended."""
        for entry in (await self._client.list(ConfigMap, self._namespace, label_selector=f"{REVOKED}=true")).items:
            try:
                ended = parse_rfc3339(entry.data.get("until", "")) < self._clock.now()
            except ValueError:
                ended = False
            if ended:
                with contextlib.suppress(NotFoundError):
                    await self._client.delete(ConfigMap, entry.metadata.name, self._namespace)

    @staticmethod
    def _name(node: str) -> str:
        return f"paddock-revoked-{node}"
