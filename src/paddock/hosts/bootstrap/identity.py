"""The identity of a node where the cluster signs no certificates: a ServiceAccount, a token, the kubeconfig with it.

Its rights are those of three roles, and no wider than these can be: Nodes in the whole cluster, the Lease where Leases of
nodes are, Pods and their tokens where the runners are. A ValidatingAdmissionPolicy ties the account to objects of its own
name (`node_policies`).

The token is asked for with a TokenRequest and kept in a Secret beside the account. A long-lived token Secret would need
no renewal, but it would also never expire on a host that was lost, and it exists only where a token controller runs. A
requested token ends by itself, and at once when its ServiceAccount is deleted; it is renewed while a third of its life
is left, and until then the same kubeconfig is returned, so that a bootstrap that is repeated finds nothing to change.
"""

import base64
import contextlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import yaml

from paddock.base.clock import Clock, parse_rfc3339, rfc3339
from paddock.base.secrets import Secret
from paddock.kube.builtin import SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource

__all__ = ["ApiEndpoint", "NodeIdentities", "NodeIdentity", "kubeconfig_text", "renewal_due"]

MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "paddock"}
_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, status=False
)
_ROLE_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", namespaced=True, status=False
)
_LEASES = "kube-node-lease"
_EXPIRES = "tuist.dev/token-expires"
_ISSUED = "tuist.dev/token-issued"
_ACCOUNT = "tuist.dev/service-account-uid"


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """Where nodes find the API. `ca` is PEM text; empty means the system's authorities."""

    server: str
    ca: str = ""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """What goes to the host. `renewed` is True when it is another than before, `certified` when it is a certificate."""

    kubeconfig: Secret
    expires: datetime | None
    renewed: bool
    certified: bool = False


def renewal_due(issued: datetime, expires: datetime, now: datetime) -> bool:
    """Whether less than a third of the token's life is left. Real servers may grant a shorter life than asked for."""
    return expires - now < (expires - issued) / 3


def kubeconfig_text(endpoint: ApiEndpoint, user: str, token: Secret) -> Secret:
    """The kubeconfig of one node; the same text for the same values."""
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.ca:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.ca.encode()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{"name": "fleet", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token.reveal()}}],
        "contexts": [{"name": "node", "context": {"cluster": "fleet", "user": user}}],
    }
    return Secret(yaml.safe_dump(content, sort_keys=False, width=1_000_000))


class NodeIdentities:
    """Ensures and removes identities; both may be repeated, and may die between any two calls.

    `cluster_role` is what a node may do; it must exist. Empty means that the account gets no rights from here.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        endpoint: ApiEndpoint,
        *,
        namespace: str,
        cluster_role: str = "paddock-node",
        pods_namespace: str = "",
        lifetime: timedelta = timedelta(days=30),
    ) -> None:
        self._client = client
        self._clock = clock
        self._endpoint = endpoint
        self._namespace = namespace
        self._cluster_role = cluster_role
        self._pods_namespace = pods_namespace or namespace
        self._lifetime = lifetime

    @staticmethod
    def account_name(machine: str) -> str:
        return f"paddock-node-{machine}"

    async def ensure(self, machine: str) -> NodeIdentity:
        """The Machine's identity, with a token that lasts. Raises KubeError; then nothing was handed out."""
        name = self.account_name(machine)
        account = await self._account(name)
        await self._bind(name)
        stored = await self._stored(name)
        if stored is not None and (kept := self._still_good(stored, account)) is not None:
            return NodeIdentity(*kept, renewed=False)
        seconds = int(self._lifetime.total_seconds())
        token, expires = await self._client.create_token(name, self._namespace, expiration_seconds=seconds)
        # A token that is minted and then not kept, because we die here, is simply never used; it expires by itself.
        now = self._clock.now()
        notes = {_ACCOUNT: account.metadata.uid, _ISSUED: rfc3339(now), _EXPIRES: rfc3339(expires or now)}
        meta = ObjectMeta(name=name, namespace=self._namespace, labels=MANAGED_BY, annotations=notes)
        await self._client.apply(
            SecretObject(metadata=meta, data={"token": token.reveal().encode()}, type="Opaque"), force=True
        )
        return NodeIdentity(kubeconfig_text(self._endpoint, name, token), expires, renewed=True)

    async def due(self, machine: str) -> bool:
        """Whether the Machine's token should be renewed on its host: nothing else would start an update for it."""
        stored = await self._stored(self.account_name(machine))
        if stored is None:
            return False
        try:
            issued = parse_rfc3339(stored.metadata.annotations.get(_ISSUED, ""))
            expires = parse_rfc3339(stored.metadata.annotations.get(_EXPIRES, ""))
        except ValueError:
            return True
        return renewal_due(issued, expires, self._clock.now())

    async def remove(self, machine: str) -> None:
        """No identity of this Machine is left. The rights go first, the account last: whatever dies in between, the
        token can do nothing any more.
        """
        name = self.account_name(machine)
        for resource, home, _ in self._bindings():
            await self._gone(resource, self._binding_name(name), home)
        await self._gone(SecretObject, name, self._namespace)
        await self._gone(ServiceAccount, name, self._namespace)

    # --- how -----------------------------------------------------------------------------------------------------

    async def _account(self, name: str) -> ServiceAccount:
        try:
            return await self._client.get(ServiceAccount, name, self._namespace)
        except NotFoundError:
            pass
        meta = ObjectMeta(name=name, namespace=self._namespace, labels=MANAGED_BY)
        try:
            return await self._client.create(ServiceAccount(metadata=meta))
        except AlreadyExistsError:
            return await self._client.get(ServiceAccount, name, self._namespace)

    def _binding_name(self, name: str) -> str:
        # Bindings have no namespace, so the name says it.
        return f"{self._namespace}-{name}"

    def _bindings(self) -> tuple[tuple[Resource, str | None, str], ...]:
        """What gives a node its rights: where, and which role."""
        return (
            (_BINDING, None, self._cluster_role),
            (_ROLE_BINDING, _LEASES, f"{self._cluster_role}-lease"),
            (_ROLE_BINDING, self._pods_namespace, f"{self._cluster_role}-pods"),
        )

    async def _bind(self, name: str) -> None:
        if not self._cluster_role:
            return
        for resource, home, role in self._bindings():
            await self._bind_one(name, resource, home, role)

    async def _bind_one(self, name: str, resource: Resource, home: str | None, role: str) -> None:
        try:
            found = await self._client.get(resource, self._binding_name(name), home)
        except NotFoundError:
            pass
        else:
            if (found.get("roleRef") or {}).get("name") == role:
                return
            # A binding never changes its role, so the old one goes.
            await self._gone(resource, self._binding_name(name), home)
        meta = {"name": self._binding_name(name), "labels": dict(MANAGED_BY)}
        binding = {
            "metadata": {**meta, "namespace": home} if home else meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self._namespace}],
        }
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(binding, resource)

    async def _stored(self, name: str) -> SecretObject | None:
        try:
            return await self._client.get(SecretObject, name, self._namespace)
        except NotFoundError:
            return None

    def _still_good(self, stored: SecretObject, account: ServiceAccount) -> tuple[Secret, datetime] | None:
        notes, token = stored.metadata.annotations, stored.data.get("token", b"")
        # An account that was made anew refuses the tokens of its namesake.
        if not token or notes.get(_ACCOUNT) != account.metadata.uid:
            return None
        try:
            issued, expires = parse_rfc3339(notes.get(_ISSUED, "")), parse_rfc3339(notes.get(_EXPIRES, ""))
        except ValueError:
            return None
        if renewal_due(issued, expires, self._clock.now()):
            return None
        return kubeconfig_text(self._endpoint, stored.metadata.name, Secret(token.decode())), expires

    async def _gone(
        self, kind: type[SecretObject | ServiceAccount] | Resource, name: str, namespace: str | None
    ) -> None:
        with contextlib.suppress(NotFoundError):
            await self._client.delete(kind, name, namespace)
