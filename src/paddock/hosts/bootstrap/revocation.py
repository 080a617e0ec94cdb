"""How a node's authority ends before its certificate does: a list of nodes that are refused.

A certificate is good for a day, and a node may ask for the next one. So a Mac that was given back is put on a list: a
ConfigMap for each, which the ValidatingAdmissionPolicy `paddock-revoked-nodes` reads. Whatever such a node writes is
refused, above all the request for its next certificate; so nothing is left of it when the entry goes, after a day and an
hour. A Mac that is made the node of that name before then cannot be told from the one before it by a certificate: it gets
an account (`node_access`), and the entry stays. `paddock up` needs no list: its API looks at the Machine itself.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import Clock, parse_rfc3339, rfc3339
from paddock.hosts.bootstrap.identity import MANAGED_BY
from paddock.hosts.bootstrap.node_certificate import LIFETIME
from paddock.kube.builtin import ConfigMap
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["REVOKED", "RevokedNode", "RevokedNodes"]

REVOKED: Final = "tuist.dev/revoked-node"
_KEPT: Final = LIFETIME + timedelta(hours=1)
_REPLACED: Final = "replaced"
_FORGOTTEN: Final = timedelta(days=30)
"""So long after its end the entry of a node that got an account is kept: that it may have a certificate again is read from it."""


@dataclass(frozen=True, slots=True)
class RevokedNode:
    """`until` its last certificate may be shown by whoever has it. `replaced`: another Mac is the node of this name."""

    until: datetime
    replaced: bool


class RevokedNodes:
    """The list, in the operator's own namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace

    async def add(self, node: str) -> None:
        """From now on this node is refused. Repeated, it is refused for longer."""
        until = rfc3339(self._clock.now() + _KEPT)
        meta = ObjectMeta(name=self._name(node), namespace=self._namespace, labels={**MANAGED_BY, REVOKED: "true"})
        try:
            await self._client.create(ConfigMap(metadata=meta, data={"node": node, "until": until}))
        except AlreadyExistsError:
            await self._change(node, {"until": until, _REPLACED: None})

    async def find(self, node: str) -> RevokedNode | None:
        try:
            return _read(await self._client.get(ConfigMap, self._name(node), self._namespace))
        except NotFoundError:
            return None

    async def replace(self, node: str) -> None:
        """Another Mac is the node of this name, by an account. Whoever holds a certificate of it is refused as before."""
        await self._change(node, {_REPLACED: "true"})

    async def lift(self, node: str) -> None:
        """No certificate of a Mac before this one is good any more."""
        with contextlib.suppress(NotFoundError):
            await self._client.delete(ConfigMap, self._name(node), self._namespace)

    async def tidy(self) -> None:
        """Forget nodes whose last certificate has ended."""
        now = self._clock.now()
        for entry in (await self._client.list(ConfigMap, self._namespace, label_selector=f"{REVOKED}=true")).items:
            known = _read(entry)
            if known is not None and known.until + (_FORGOTTEN if known.replaced else timedelta()) < now:
                with contextlib.suppress(NotFoundError):
                    await self._client.delete(ConfigMap, entry.metadata.name, self._namespace)

    async def _change(self, node: str, data: dict[str, str | None]) -> None:
        # Where it was tidied away meanwhile, its last certificate has ended.
        with contextlib.suppress(NotFoundError):
            await self._client.merge_patch(ConfigMap, self._name(node), {"data": data}, self._namespace)

    @staticmethod
    def _name(node: str) -> str:
        return f"paddock-revoked-{node}"


def _read(entry: ConfigMap) -> RevokedNode | None:
    try:
        return RevokedNode(parse_rfc3339(entry.data.get("until", "")), entry.data.get(_REPLACED) == "true")
    except ValueError:
        return None
