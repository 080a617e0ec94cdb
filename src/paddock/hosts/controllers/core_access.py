"""Gives Cluster API's core its kubeconfig, and takes it away again. The order of effects: docs/design/core-access.md."""

import base64
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.hosts import core_access
from paddock.hosts.api import ScalewayAppleSiliconCluster
from paddock.hosts.bootstrap.identity import MANAGED_BY, ApiEndpoint, kubeconfig_text
from paddock.hosts.core_access import AccountTakenError, Given, Issue, KeepAccess, Renew, secret_step
from paddock.kube.builtin import SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.kube.reader import FreshReader
from paddock.kube.resource import Resource
from paddock.kube.roles import RBAC

__all__ = ["CoreAccess"]

_BINDING = Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False, status=False)
_SOON = 1.0


class CoreAccess:
    """Ensures and withdraws; both may be repeated, and may die between any two calls.

    `role` is the ClusterRole with what core does to Nodes and Pods; it must exist. The token is in the Secret and nowhere else.
    """

    def __init__(
        self, client: Client, clock: Clock, endpoint: ApiEndpoint, role: str, lifetime: timedelta = timedelta(days=7)
    ) -> None:
        self._client = client
        self._clock = clock
        self._endpoint = endpoint
        self._role = role
        self._lifetime = lifetime

    async def given(self, namespace: str, cluster: str) -> bool:
        """Whether the Cluster has a Secret that somebody else made."""
        secret = await self._secret(namespace, cluster)
        return isinstance(secret_step(secret, "", "", self._endpoint, self._clock.now()), Given)

    async def ensure(self, infra: ScalewayAppleSiliconCluster, cluster: str) -> Given | Issue | Renew | KeepAccess:
        """See to it that the Cluster's Secret is there and good; what was done. Raises KubeError or CoreAccessError.

        The caller has put its finalizer on `infra`: the binding has no namespace, and nobody else would remove it.
        """
        account = await self._account(infra)
        await self._bind(infra)
        secret = await self._secret(infra.metadata.namespace, cluster)
        step = self._judge(secret, infra, account)
        match step:
            case Given() | KeepAccess():
                return step
            case Issue():
                try:
                    await self._client.create(await self._made(infra, cluster, account))
                except AlreadyExistsError:
                    # Somebody was quicker, or an earlier attempt of ours whose answer was lost. It stays; whether it is
                    # good is judged in the next pass, as if it had always been there.
                    return KeepAccess(_SOON)
            case Renew():
                assert secret is not None
                await self._replace(secret, await self._made(infra, cluster, account))
        return step

    async def withdraw(self, infra: ScalewayAppleSiliconCluster) -> None:
        """The rights go first and then the account, with which every token of it dies; the Secret goes with its owner."""
        with suppress(NotFoundError):
            await self._client.delete(_BINDING, core_access.binding_name(infra))
        account = await self._existing(infra)
        if account is not None and _is_ours(account):
            with suppress(NotFoundError):
                await self._client.delete(
                    ServiceAccount, account.metadata.name, account.metadata.namespace, uid=account.metadata.uid
                )

    # --- how -----------------------------------------------------------------------------------------------------

    def _judge(
        self, secret: SecretObject | None, infra: ScalewayAppleSiliconCluster, account: ServiceAccount
    ) -> Given | Issue | Renew | KeepAccess:
        return secret_step(secret, infra.metadata.uid, account.metadata.uid, self._endpoint, self._clock.now())

    async def _made(self, infra: ScalewayAppleSiliconCluster, cluster: str, account: ServiceAccount) -> SecretObject:
        """The Secret with a new token. One that is minted and then not kept is simply never used; it ends by itself."""
        name, namespace = account.metadata.name, account.metadata.namespace
        seconds = int(self._lifetime.total_seconds())
        token, expires = await self._client.create_token(name, namespace, expiration_seconds=seconds)
        now = self._clock.now()
        kubeconfig: Secret = kubeconfig_text(self._endpoint, name, token)
        return SecretObject(
            metadata=ObjectMeta(
                name=core_access.secret_name(cluster),
                namespace=namespace,
                labels=core_access.labels(cluster),
                annotations=core_access.notes(
                    account.metadata.uid, self._endpoint, now, expires or now + self._lifetime
                ),
                owner_references=(core_access.owner_of(infra),),
            ),
            data={core_access.VALUE: kubeconfig.reveal().encode()},
            type=core_access.CLUSTER_SECRET,
        )

    async def _replace(self, judged: SecretObject, made: SecretObject) -> None:
        """Write the new content into the very Secret that was judged to be ours; ConflictError when it changed since."""
        patch: dict[str, Any] = {
            "metadata": {
                "uid": judged.metadata.uid,
                "resourceVersion": judged.metadata.resource_version,
                "labels": made.metadata.labels,
                "annotations": made.metadata.annotations,
                "ownerReferences": msgspec.to_builtins(made.metadata.owner_references),
            },
            "data": {name: base64.b64encode(value).decode() for name, value in made.data.items()},
        }
        await self._client.merge_patch(SecretObject, judged.metadata.name, patch, namespace=judged.metadata.namespace)

    async def _secret(self, namespace: str, cluster: str) -> SecretObject | None:
        return await FreshReader(self._client).get(SecretObject, core_access.secret_name(cluster), namespace)

    async def _existing(self, infra: ScalewayAppleSiliconCluster) -> ServiceAccount | None:
        return await FreshReader(self._client).get(
            ServiceAccount, core_access.account_name(infra), infra.metadata.namespace
        )

    async def _account(self, infra: ScalewayAppleSiliconCluster) -> ServiceAccount:
        name, namespace = core_access.account_name(infra), infra.metadata.namespace
        found = await self._existing(infra)
        if found is None:
            owner = core_access.owner_of(infra)
            meta = ObjectMeta(name=name, namespace=namespace, labels=MANAGED_BY, owner_references=(owner,))
            try:
                return await self._client.create(ServiceAccount(metadata=meta))
            except AlreadyExistsError:
                found = await self._client.get(ServiceAccount, name, namespace)
        if not _is_ours(found):
            raise AccountTakenError(
                f"the account {namespace}/{name} exists and was not made by us, so it is given no rights: remove it, "
                "or make the kubeconfig Secret by hand"
            )
        return found

    async def _bind(self, infra: ScalewayAppleSiliconCluster) -> None:
        name = core_access.binding_name(infra)
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": self._role}
        account = {
            "kind": "ServiceAccount",
            "name": core_access.account_name(infra),
            "namespace": infra.metadata.namespace,
        }
        try:
            found = await self._client.get(_BINDING, name)
        except NotFoundError:
            pass
        else:
            if found.get("roleRef") == role and found.get("subjects") == [account]:
                return
            # A binding never changes its role, so the old one goes.
            with suppress(NotFoundError):
                await self._client.delete(_BINDING, name)
        binding = {"metadata": {"name": name, "labels": dict(MANAGED_BY)}, "roleRef": role, "subjects": [account]}
        with suppress(AlreadyExistsError):
            await self._client.create(binding, _BINDING)


def _is_ours(account: ServiceAccount) -> bool:
    return MANAGED_BY.items() <= account.metadata.labels.items()
