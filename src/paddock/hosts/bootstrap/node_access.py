"""Which identity a Mac gets: a node's certificate where the cluster signs them, else an account with narrow rights.

`Certificate` is tried first and left for the account only when the cluster approved a request and signed nothing, which
is remembered for an hour. A cluster that answers anything else, such as that we may not ask, is a mistake to be mended and
not a reason to hand out something weaker: that is raised. And a Mac that is made a node within a day of the last one of that
name gets an account until the certificates of that one have ended: by a certificate the two could not be told apart.
"""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.hosts.bootstrap.identity import ApiEndpoint, NodeIdentities, NodeIdentity
from paddock.hosts.bootstrap.node_certificate import NodeCertificates
from paddock.hosts.bootstrap.revocation import RevokedNodes
from paddock.kube.client import Client

__all__ = ["IdentityKind", "NodeAccess", "NodeAccessSettings"]

_log = get_logger("bootstrap")
_REMEMBERED: Final = 3600.0


class IdentityKind(StrEnum):
    CERTIFICATE = "Certificate"
    SERVICE_ACCOUNT = "ServiceAccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccessSettings:
    """Which identity nodes get, and what an account may do: `cluster_role`, and Pods of `pods_namespace` (empty: of the
    machine's own). `own_namespace` is the operator's. A certificate must be signed within `timeout` seconds. With
    `judges_machines` the API server itself refuses certificates that are older than their Machine's identity (`paddock up`).
    """

    kind: IdentityKind = IdentityKind.CERTIFICATE
    cluster_role: str = "paddock-node"
    pods_namespace: str = ""
    own_namespace: str = "default"
    timeout: float = 30.0
    judges_machines: bool = False


class NodeAccess:
    """Gives, renews and ends the identities of nodes. Every call can be repeated. Raises KubeError."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        endpoint: ApiEndpoint,
        settings: NodeAccessSettings | None = None,
    ) -> None:
        self._client, self._clock, self._rng, self._endpoint = client, clock, rng, endpoint
        self._settings = settings or NodeAccessSettings()
        self._revoked = RevokedNodes(client, clock, self._settings.own_namespace)
        self._unsigned_until = float("-inf")

    async def first(self, machine: str, namespace: str) -> NodeIdentity:
        """For a Mac that is being made a node: whatever spoke for this name before, this is another one."""
        return await self._identity(machine, namespace)

    async def next(self, machine: str, namespace: str) -> NodeIdentity | None:
        """For a node that lives: what it needs from us, or None when it has what it needs and renews it by itself."""
        certificates = self._certificates(namespace)
        if await certificates.has(machine) and not await certificates.due(machine):
            return None
        return await self._identity(machine, namespace)

    async def due(self, machine: str, namespace: str) -> bool:
        if await self._certificates(namespace).has(machine):
            return await self._certificates(namespace).due(machine)
        return await self._may_be_certified_again(machine) or await self._accounts(namespace).due(machine)

    async def delivered(self, machine: str, namespace: str, identity: NodeIdentity) -> None:
        """The Mac has this identity: what it had before goes, and not sooner. Died before this: it is given another one."""
        if identity.certified:
            await self._certificates(namespace).delivered(machine)
            await self._accounts(namespace).remove(machine)

    async def remove(self, machine: str, namespace: str) -> None:
        """This Mac has no identity any more. The refusal comes first: died after it, what is left opens nothing."""
        await self._revoked.add(machine)
        await self._certificates(namespace).remove(machine)
        await self._accounts(namespace).remove(machine)

    async def _identity(self, machine: str, namespace: str) -> NodeIdentity:
        if await self._has_a_living_predecessor(machine):
            return await self._accounts(namespace).ensure(machine)
        return await self._certificate(machine, namespace) or await self._accounts(namespace).ensure(machine)

    async def _has_a_living_predecessor(self, machine: str) -> bool:
        """Whether somebody may still hold a certificate of a Mac that was this node before. Died before the mark: it is
        made by the next bootstrap. Died before the lift: the certificate that follows is refused, and the next is not.
        """
        known = await self._revoked.find(machine)
        if known is None:
            return False
        if self._settings.judges_machines or known.until <= self._clock.now():
            await self._revoked.lift(machine)
            return False
        await self._revoked.replace(machine)
        return True

    async def _may_be_certified_again(self, machine: str) -> bool:
        known = await self._revoked.find(machine)
        return known is not None and known.replaced and known.until <= self._clock.now()

    async def _certificate(self, machine: str, namespace: str) -> NodeIdentity | None:
        if self._settings.kind is not IdentityKind.CERTIFICATE or self._clock.monotonic() < self._unsigned_until:
            return None
        issued = await self._certificates(namespace).issue(machine)
        if isinstance(issued, NodeIdentity):
            return issued
        self._unsigned_until = self._clock.monotonic() + _REMEMBERED
        _log.warning(
            "nodes get accounts instead of certificates",
            why=issued,
            remedy="let kube-controller-manager sign kube-apiserver-client-kubelet, or set nodeIdentity: ServiceAccount",
            tried_again_after_s=_REMEMBERED,
        )
        return None

    def _certificates(self, namespace: str) -> NodeCertificates:
        return NodeCertificates(
            self._client, self._clock, self._rng, self._endpoint, namespace=namespace, timeout=self._settings.timeout
        )

    def _accounts(self, namespace: str) -> NodeIdentities:
        return NodeIdentities(
            self._client,
            self._clock,
            self._endpoint,
            namespace=namespace,
            cluster_role=self._settings.cluster_role,
            pods_namespace=self._settings.pods_namespace or namespace,
        )
