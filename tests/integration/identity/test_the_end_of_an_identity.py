"""A Mac that was given back, and whoever copied its key: refused at once, and for good."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from doubles.clocks import ShiftedClock
from integration.identity.test_a_mac_is_a_node import (
    BINDING,
    ENDPOINT,
    ROLE,
    World,
    binding,
    bound,
    refused,
    request,
    world,
)
from structlog.testing import capture_logs
from unit.hosts.bootstrap.clusters import running_cluster

from paddock.base.clock import rfc3339
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.hosts.api import IDENTITY_SINCE, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.node_access import IdentityKind, NodeAccess, NodeAccessSettings
from paddock.hosts.bootstrap.node_certificate import CSR
from paddock.hosts.bootstrap.revocation import REVOKED, RevokedNodes
from paddock.hosts.node_policies import node_policies
from paddock.kube.builtin import ConfigMap, Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.errors import UnauthorizedError
from paddock.kube.objects import ObjectMeta

__all__ = ["world"]


async def let_go(world: World, machine: str, *, later: float = 0.0) -> None:
    """As a Machine does that lets its Mac go."""
    since = rfc3339(world.clock.now() + timedelta(seconds=later))
    patch = {"metadata": {"annotations": {IDENTITY_SINCE: since}}}
    await world.admin.merge_patch(ScalewayAppleSiliconMachine, machine, patch, "default")


async def test_a_certificate_of_the_second_in_which_its_machine_let_go_is_refused(world: World) -> None:
    await asyncio.sleep(1.01 - world.clock.now().microsecond / 1e6)  # early in a second
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    await let_go(world, "mac-1")
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")


async def test_a_mac_whose_machine_was_forced_away_gets_no_token_and_no_certificate(world: World) -> None:
    old = await world.mac("mac-1")
    await old.create(Node(metadata=ObjectMeta(name="mac-1")))
    pod = await world.pod("of-the-next-mac", "mac-1")
    await world.admin.delete(ScalewayAppleSiliconMachine, "mac-1", "default")
    await refused(old.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(pod)))
    await refused(old.create(request("renewal", "mac-1"), CSR))
    assert (await old.get(Node, "mac-1")).metadata.name == "mac-1", "how its Pods end is still for it to say"


async def test_who_asks_for_a_certificate_is_the_servers_word_however_it_is_written(world: World) -> None:
    rule = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "patch", "get"],
    }
    await world.admin.create({"metadata": {"name": "asker"}, "rules": [rule]}, ROLE)
    subject = {"kind": "ServiceAccount", "name": "other", "namespace": "default"}
    await world.admin.create(binding("asker", "asker", subject), BINDING)
    token, _ = await world.admin.create_token("other", "default")
    async with world.cluster.client(token) as asker:
        forged = request("forged", "mac-2", username="system:node:mac-2", groups=["system:nodes"])
        forged |= {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        made = await asker.apply(forged, CSR, force=True)
        assert made["spec"]["username"] == "system:serviceaccount:default:other"
        assert "system:nodes" not in made["spec"]["groups"]


def _certificate_in(kubeconfig: Secret) -> bytes:
    user = yaml.safe_load(kubeconfig.reveal())["users"][0]["user"]
    found = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    return found.public_bytes(serialization.Encoding.DER)


async def test_an_open_watch_ends_with_the_identity_that_began_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.embedded.api.http._KNOWN_FOR", 0.05)
    await world.mac("mac-1")
    certificate = _certificate_in(await world.kubeconfig("mac-1"))
    asked, never, sent = iter([{"type": "http.request", "body": b"", "more_body": False}]), asyncio.Event(), []

    async def receive() -> Any:
        if (message := next(asked, None)) is None:
            await never.wait()
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/pods",
        "query_string": b"watch=1&fieldSelector=spec.nodeName%3Dmac-1&timeoutSeconds=86400",
        "headers": [],
        "state": {"client_certificate": certificate},
    }
    watching = asyncio.create_task(world.cluster.plane.app(scope, receive, send))
    await world.pod("own", "mac-1")
    async with asyncio.timeout(10):
        while not any(b'"own"' in message.get("body", b"") for message in sent):
            await asyncio.sleep(0.01)
        assert not watching.done()
        await let_go(world, "mac-1", later=2)
        await watching
    await world.pod("of-the-next-mac", "mac-1")
    assert not any(b"of-the-next-mac" in message.get("body", b"") for message in sent)


# Clusters of others: a list of nodes that are refused, by which alone two Macs of one name are told apart.


async def listed(admin: Client) -> list[ConfigMap]:
    return (await admin.list(ConfigMap, "default", label_selector=f"{REVOKED}=true")).items


async def accounts(admin: Client) -> int:
    found = (await admin.list(ServiceAccount, "default")).items
    return sum(each.metadata.name == "paddock-node-mac-1" for each in found)


def user_in(kubeconfig: Secret) -> str:
    (user,) = yaml.safe_load(kubeconfig.reveal())["users"]
    return "certificate" if "client-certificate-data" in user["user"] else "account"


async def test_the_next_mac_of_a_name_gets_an_account_until_the_last_ones_certificates_have_ended() -> None:
    clock = ShiftedClock()
    async with running_cluster(clock=clock) as cluster, cluster.client() as admin:
        access = NodeAccess(admin, clock, seeded("access"), ENDPOINT)
        assert user_in((await access.first("mac-1", "default")).kubeconfig) == "certificate"
        await access.remove("mac-1", "default")
        assert user_in((await access.first("mac-1", "default")).kubeconfig) == "account"
        assert len(await listed(admin)) == 1, "whoever has the key of the Mac before it is refused as before"
        assert not await access.due("mac-1", "default")
        clock.ahead += timedelta(hours=26)
        await RevokedNodes(admin, clock, "default").tidy()
        assert await access.due("mac-1", "default")
        renewed = await access.next("mac-1", "default")
        assert renewed is not None
        assert user_in(renewed.kubeconfig) == "certificate"
        assert await listed(admin) == []
        assert await accounts(admin) == 1, "until the Mac has its certificate"
        assert await access.due("mac-1", "default"), "one that did not reach the Mac is given again"
        await access.delivered("mac-1", "default", renewed)
        assert await accounts(admin) == 0
        assert not await access.due("mac-1", "default")


async def test_a_mac_that_is_given_back_again_is_refused_for_longer() -> None:
    clock = ShiftedClock()
    async with running_cluster(clock=clock) as cluster, cluster.client() as admin:
        access = NodeAccess(admin, clock, seeded("access"), ENDPOINT)
        await access.first("mac-1", "default")
        await access.remove("mac-1", "default")
        await access.first("mac-1", "default")
        (before,) = await listed(admin)
        clock.ahead += timedelta(hours=20)
        await access.remove("mac-1", "default")
        (after,) = await listed(admin)
        assert after.data["until"] > before.data["until"]
        assert "replaced" not in after.data
        clock.ahead += timedelta(hours=26)
        await RevokedNodes(admin, clock, "default").tidy()
        assert await listed(admin) == []


@pytest.mark.parametrize(
    ("settings", "given"),
    [
        pytest.param(NodeAccessSettings(judges_machines=True), "certificate", id="paddock up judges by the Machine"),
        pytest.param(NodeAccessSettings(kind=IdentityKind.SERVICE_ACCOUNT), "account", id="accounts were asked for"),
    ],
)
async def test_where_certificates_do_not_tell_two_macs_apart_by_the_list_it_changes_nothing(
    settings: NodeAccessSettings, given: str
) -> None:
    clock = ShiftedClock()
    async with running_cluster(clock=clock) as cluster, cluster.client() as admin:
        access = NodeAccess(admin, clock, seeded("access"), ENDPOINT, settings)
        await access.first("mac-1", "default")
        await access.remove("mac-1", "default")
        assert user_in((await access.first("mac-1", "default")).kubeconfig) == given


def test_the_policy_refuses_everything_that_a_node_may_write() -> None:
    policy = node_policies("paddock")[0]
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    covered = {(group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]}
    may_write = {
        ("", "nodes"),
        ("", "nodes/status"),
        ("", "pods"),
        ("", "pods/status"),
        ("", "pods/eviction"),
        ("", "serviceaccounts/token"),
        ("", "events"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("storage.k8s.io", "csinodes"),
        ("resource.k8s.io", "resourceslices"),
    }
    assert covered == may_write


def _levels(said: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line["log_level"] for line in said if line["event"] == "refused"]


async def test_what_a_mac_asks_for_after_its_machine_or_its_pod_is_gone_is_refused_and_is_no_warning(
    world: World,
) -> None:
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    pod = await world.pod("runner", "mac-1")
    await world.admin.delete(Pod, "runner", "default", grace_period=0)
    with capture_logs() as said:
        await refused(mac.get(Pod, "runner", "default"))
        await refused(mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(pod)))
    assert set(_levels(said)) == {"info"}
    pod = await world.pod("last", "mac-1")
    await world.admin.delete(ScalewayAppleSiliconMachine, "mac-1", "default")
    with capture_logs() as said:
        await refused(mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(pod)))
        await world.admin.delete(Pod, "last", "default", grace_period=0)
        with pytest.raises(UnauthorizedError):
            await mac.get(Node, "mac-1")
    assert set(_levels(said)) <= {"info"}


async def test_a_mac_that_asks_for_what_was_never_its_own_is_a_warning(world: World) -> None:
    mac = await world.mac("mac-1")
    await world.pod("of-another", "mac-2")
    with capture_logs() as said:
        await refused(mac.get(Pod, "of-another", "default"))
    assert _levels(said) == ["warning"]
