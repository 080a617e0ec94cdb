"""Who may ask this Mac for its Pods' logs: whom the cluster knows and allows, as every kubelet asks it.

A caller shows a client certificate of the cluster (the API server does), or a token that the cluster reviews. Then the
cluster says whether that caller may use `nodes/proxy` of this Node. Nothing is decided here, and nothing without an answer.
"""

import asyncio
from typing import Final, Protocol

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from paddock.base.secrets import Secret
from paddock.kube.builtin import SelfSubjectAccessReview, SubjectAccessReview, TokenReview
from paddock.kube.client import Client
from paddock.kube.errors import KubeError

__all__ = ["Caller", "Callers", "ClusterCallers", "RefusedError"]

_TIMEOUT: Final = 5.0
_AT_ONCE: Final = 4
_LONGEST_TOKEN: Final = 16 * 1024


class RefusedError(Exception):
    """The caller gets no log; `status` is HTTP's number for the reason. The text never holds a token."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Caller(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()


class Callers(Protocol):
    async def admit(self, certificate: bytes | None, token: Secret | None) -> Caller:
        """Who asks, if that one may read logs here; RefusedError otherwise."""
        ...


class ClusterCallers:
    """Asks the cluster, a few questions at a time: strangers cannot make this Mac flood the API server."""

    def __init__(self, client: Client, node_name: str) -> None:
        self._client = client
        self._node_name = node_name
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def admit(self, certificate: bytes | None, token: Secret | None) -> Caller:
        if certificate is None and token is None:
            raise RefusedError(401, "show a client certificate or a token of the cluster")
        if self._turns.locked():
            raise RefusedError(429, "too many callers at once: ask again in a moment")
        async with self._turns:
            try:
                caller = _named(certificate) if certificate is not None else await self._reviewed(token)
                if not await self._allowed(caller):
                    raise RefusedError(403, f"{caller.name} may not use nodes/proxy of Node {self._node_name}")
            except KubeError as error:
                # The class alone: a server that quotes the request in its refusal would quote the token.
                raise RefusedError(
                    503, f"the cluster cannot be asked who may read logs ({type(error).__name__})"
                ) from None
        return caller

    async def _reviewed(self, token: Secret | None) -> Caller:
        if token is None or not 0 < len(token.reveal()) <= _LONGEST_TOKEN:
            raise RefusedError(401, "that is no token")
        review = TokenReview(spec=TokenReview.Spec(token=token.reveal()))
        status = (await self._client.create(review, timeout=_TIMEOUT)).status
        if status.error or not status.authenticated or status.user is None or not status.user.username:
            raise RefusedError(401, "the cluster does not accept the token")
        return Caller(status.user.username, status.user.groups)

    async def _allowed(self, caller: Caller) -> bool:
        attributes = SelfSubjectAccessReview.Spec.Attributes(
            verb="get", resource="nodes", subresource="proxy", name=self._node_name
        )
        spec = SubjectAccessReview.Spec(user=caller.name, groups=caller.groups, resource_attributes=attributes)
        return (await self._client.create(SubjectAccessReview(spec=spec), timeout=_TIMEOUT)).status.allowed


def _named(certificate: bytes) -> Caller:
    """The caller of a certificate that TLS has verified: its common name, and its organisations as groups."""
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        raise RefusedError(401, "the certificate cannot be read") from None
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[0]:
        raise RefusedError(401, "the certificate names nobody")
    groups = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return Caller(names[0], (*groups, "system:authenticated"))
