from datetime import UTC, datetime, timedelta

import pytest
import yaml
from doubles.clocks import ShiftedClock
from unit.hosts.bootstrap.clusters import Cluster

from paddock.base.clock import Clock, SystemClock
from paddock.base.secrets import Secret
from paddock.hosts.bootstrap.identity import ApiEndpoint, NodeIdentities, renewal_due
from paddock.kube.builtin import Node, SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError
from paddock.kube.resource import Resource

ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ENDPOINT = ApiEndpoint("https://api.example:6443", "-----BEGIN CERTIFICATE-----\n")


def token_in(kubeconfig: Secret) -> Secret:
    return Secret(yaml.safe_load(kubeconfig.reveal())["users"][0]["user"]["token"])


@pytest.fixture
async def role(client: Client) -> None:
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    await client.create({"metadata": {"name": "paddock-node"}, "rules": rules}, ROLE)


def identities(client: Client, clock: Clock | None = None) -> NodeIdentities:
    return NodeIdentities(client, clock or SystemClock(), ENDPOINT, namespace="default")


async def test_a_nodes_kubeconfig_lets_it_do_what_its_role_says_and_no_more(
    cluster: Cluster, client: Client, role: None
):
    made = await identities(client).ensure("mac-1")
    assert made.renewed
    assert yaml.safe_load(made.kubeconfig.reveal())["clusters"][0]["cluster"]["server"] == ENDPOINT.server
    async with cluster.client(token_in(made.kubeconfig)) as node:
        assert not (await node.list(Node)).items
        with pytest.raises(ForbiddenError):
            await node.list(SecretObject, "default")


async def test_asking_again_gives_the_same_kubeconfig_so_that_a_second_bootstrap_changes_nothing(client: Client, role):
    first = await identities(client).ensure("mac-1")
    second = await identities(client).ensure("mac-1")
    assert second.kubeconfig == first.kubeconfig
    assert not second.renewed


async def test_a_token_is_renewed_before_it_ends_and_not_much_earlier(client: Client, role: None):
    clock = ShiftedClock()
    first = await identities(client, clock).ensure("mac-1")
    clock.ahead = timedelta(days=19)
    assert not (await identities(client, clock).ensure("mac-1")).renewed
    clock.ahead = timedelta(days=21)
    second = await identities(client, clock).ensure("mac-1")
    assert second.renewed
    assert second.kubeconfig != first.kubeconfig


async def test_an_account_that_was_made_anew_gets_a_new_token(client: Client, role: None):
    first = await identities(client).ensure("mac-1")
    await client.delete(ServiceAccount, "paddock-node-mac-1", "default")
    second = await identities(client).ensure("mac-1")
    assert second.renewed
    assert second.kubeconfig != first.kubeconfig


async def test_a_removed_identity_can_do_nothing_any_more_and_removing_it_twice_is_fine(
    cluster: Cluster, client: Client, role: None
):
    made = await identities(client).ensure("mac-1")
    await identities(client).remove("mac-1")
    await identities(client).remove("mac-1")
    async with cluster.client(token_in(made.kubeconfig)) as node:
        with pytest.raises(UnauthorizedError):
            await node.list(Node)
    for kind, name, namespace in (
        (ServiceAccount, "paddock-node-mac-1", "default"),
        (SecretObject, "paddock-node-mac-1", "default"),
        (BINDING, "default-paddock-node-mac-1", None),
    ):
        with pytest.raises(NotFoundError):
            await client.get(kind, name, namespace)


async def test_another_role_replaces_the_binding(client: Client, role: None):
    await identities(client).ensure("mac-1")
    await client.create({"metadata": {"name": "other"}, "rules": []}, ROLE)
    await NodeIdentities(client, SystemClock(), ENDPOINT, namespace="default", cluster_role="other").ensure("mac-1")
    assert (await client.get(BINDING, "default-paddock-node-mac-1"))["roleRef"]["name"] == "other"


async def test_no_token_shows_in_what_is_handed_out(client: Client, role: None):
    made = await identities(client).ensure("mac-1")
    assert token_in(made.kubeconfig).reveal() not in repr(made)


def test_renewal_is_due_when_a_third_of_the_life_is_left():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(hours=3)
    assert not renewal_due(start, end, start + timedelta(minutes=119))
    assert renewal_due(start, end, start + timedelta(minutes=121))
    assert renewal_due(start, end, end + timedelta(days=1))


async def test_a_token_that_is_due_is_told_so_that_an_update_can_bring_the_new_one(client: Client, role: None):
    clock = ShiftedClock()
    theirs = identities(client, clock)
    assert not await theirs.due("mac-1")
    await theirs.ensure("mac-1")
    assert not await theirs.due("mac-1")
    clock.ahead = timedelta(days=25)
    assert await theirs.due("mac-1")
