"""Whoever took over dispatch, which faces the internet: its account, its files, and what the operator shows it."""

from collections.abc import AsyncIterator, Callable

import pytest
from unit.hosts.bootstrap.clusters import Cluster, running_cluster

from paddock.base.certificates import issued, new_authority
from paddock.base.secrets import Secret
from paddock.kube.builtin import Lease, Namespace, Node, Pod, SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, UnauthorizedError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.kube.roles import RBAC, RoleAccount, binding
from paddock.runners.api import OPERATOR_AUDIENCE
from paddock.runners.processes.roles import DISPATCH, dispatch_roles

Logged = Callable[[str, str], bool]
OWN, RUNNERS = "paddock", "paddock-runners"


@pytest.fixture
async def clients() -> AsyncIterator[tuple[Cluster, Client, Secret]]:
    """The cluster, dispatch's own client, and the token that the operator shows dispatch. Namespaces as the chart has them."""
    account = RoleAccount(DISPATCH, OWN)
    roles = dispatch_roles(RUNNERS)
    async with running_cluster() as cluster, cluster.client() as admin:
        for namespace in (OWN, RUNNERS):
            await admin.create(Namespace(metadata=ObjectMeta(name=namespace)))
        for manifest in [each for role in roles for each in (role.manifest(), binding(role, account))]:
            kind, namespaced = manifest["kind"], "namespace" in manifest["metadata"]
            await admin.create(manifest, Resource(RBAC, "v1", kind, f"{kind.lower()}s", namespaced=namespaced))
        for name in (DISPATCH, "paddock-operator"):
            await admin.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=OWN)))
        own, _ = await admin.create_token(DISPATCH, OWN)
        shown, _ = await admin.create_token("paddock-operator", OWN, audiences=[OPERATOR_AUDIENCE])
        async with cluster.client(own) as dispatch:
            yield cluster, dispatch, shown


async def test_it_reaches_no_secret_no_token_and_no_pod_of_the_operator(
    clients: tuple[Cluster, Client, Secret], logged: Logged
) -> None:
    _, dispatch, _ = clients
    for call in (
        dispatch.list(SecretObject, OWN),
        dispatch.list(SecretObject, RUNNERS),
        dispatch.create_token("paddock-operator", OWN),
        dispatch.delete(Pod, "paddock-operator-1", OWN),
        dispatch.list(Pod, OWN),
        dispatch.delete(Node, "mac-1"),
        dispatch.get(Lease, "scaleway-applesilicon.infrastructure.cluster.x-k8s.io", OWN),
    ):
        with pytest.raises(ForbiddenError):
            await call
    assert logged("api", "secrets")
    assert (await dispatch.list(Pod, RUNNERS)).items == [], "what it needs, it has"


async def test_what_the_operator_shows_it_is_worth_nothing_at_the_api_server(
    clients: tuple[Cluster, Client, Secret], logged: Logged
) -> None:
    cluster, _, shown = clients
    async with cluster.client(shown) as posing:
        with pytest.raises(UnauthorizedError):
            await posing.list(Pod, RUNNERS)
    assert logged("api", "unauthorized")


def test_its_certificate_makes_no_other() -> None:
    """The authority's key is in a Secret of its own, which dispatch neither mounts nor may read."""
    from doubles.clocks import NOON

    authority = new_authority(NOON)
    mounted = issued(authority, ["d.svc"], NOON).data
    assert authority.key.reveal().encode() not in mounted.values()
