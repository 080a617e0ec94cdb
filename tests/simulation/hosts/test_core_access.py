"""Core's kubeconfig is there before core looks for it, stays good, and is taken away: whatever interrupts us."""

import base64
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import yaml
from simulation.hosts.interrupting import (
    Kind,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    quick,
    small_fleet,
    until_here,
)

from paddock.base.secrets import Secret
from paddock.hosts.api import ScalewayAppleSiliconCluster as Infra
from paddock.hosts.cluster_api import cluster_resource
from paddock.hosts.roles import core_rules
from paddock.kube.builtin import Node, SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.kube.reader import FreshReader
from paddock.kube.resource import Resource
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

VERSION = "v1beta2"
NAME = "macs-kubeconfig"
ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
LIFE = timedelta(minutes=30)


def _quiet(world: World, **changes: Any) -> FleetWorld:
    """A cluster without Macs, in which tokens live short."""
    settings = quick(inventory_interval=600.0, core_token_lifetime=LIFE, **changes)
    return small_fleet(world, hosts=0, cluster_api=True, settings=settings)


async def _cluster(fleet: FleetWorld) -> None:
    """A Cluster and its infrastructure, as core leaves them."""
    await fleet.ready.wait()
    await fleet.api.create(core_rules().manifest(), ROLE)
    named: dict[str, Any] = {"metadata": {"name": "macs", "namespace": "default"}, "spec": {}}
    made = await fleet.api.create(named, cluster_resource(VERSION))
    owner = OwnerReference(
        api_version=f"cluster.x-k8s.io/{VERSION}", kind="Cluster", name="macs", uid=made["metadata"]["uid"]
    )
    await fleet.create(Infra(metadata=ObjectMeta(name="macs", namespace="default", owner_references=(owner,))))


def _infra(fleet: FleetWorld) -> Infra | None:
    return next(iter(fleet.store.present(Infra)), None)


async def _secret(fleet: FleetWorld) -> SecretObject | None:
    return await FreshReader(fleet.api).get(SecretObject, NAME, "default")


async def _token(fleet: FleetWorld) -> Secret:
    secret = await _secret(fleet)
    assert secret is not None
    return Secret(yaml.safe_load(secret.data["value"])["users"][0]["user"]["token"])


async def _accounts(fleet: FleetWorld) -> set[str]:
    return {each.metadata.name for each in (await fleet.api.list(ServiceAccount, "default")).items}


def _core(fleet: FleetWorld, token: Secret) -> Client:
    """Somebody who has nothing but the Secret."""
    host = fleet.world.processes["api"]
    transport = fleet.world.transport(fleet.plane.app, host=host, faults=False, purpose="core")
    return Client(Config("https://api", credentials=FixedIdentity(Identity(token=token))), transport)


async def _provisioned(fleet: FleetWorld) -> None:
    async def holds() -> bool:
        infra = _infra(fleet)
        provisioned = infra is not None and infra.status.initialization.provisioned
        assert not provisioned or await _secret(fleet) is not None, "core connects as soon as it is provisioned"
        return provisioned

    await fleet.eventually("the cluster is provisioned", holds, within=120, every=0.01)


async def _settled(fleet: FleetWorld) -> None:
    """What was made works, and is there once."""
    assert not (await _core(fleet, await _token(fleet)).list(Node)).items
    bindings = [each["metadata"]["name"] for each in (await fleet.api.list(BINDING)).items]
    assert bindings == ["paddock:cluster-api:default:macs"]
    assert "cluster-api-macs" in await _accounts(fleet)


async def _nothing_is_left(fleet: FleetWorld) -> None:
    async def holds() -> bool:
        accounts = await _accounts(fleet)
        bindings = (await fleet.api.list(BINDING)).items
        return (
            _infra(fleet) is None
            and await _secret(fleet) is None
            and not bindings
            and "cluster-api-macs" not in accounts
        )

    await fleet.eventually("nothing is left of it", holds, within=300)


async def _life(world: World) -> None:
    fleet = _quiet(world)
    from_here(world)
    await _cluster(fleet)
    await _provisioned(fleet)
    await world.clock.sleep(60.0)
    await _settled(fleet)
    await fleet.api.delete(Infra, "macs", "default")
    await _nothing_is_left(fleet)
    until_here(world)


@interrupted_by
def test_the_whole_life_of_cores_access_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_life, kinds=kinds) >= 6


async def _renewal(world: World) -> None:
    fleet = _quiet(world)
    await _cluster(fleet)
    await _provisioned(fleet)
    await world.clock.sleep(0.66 * LIFE.total_seconds())
    first = await _token(fleet)
    from_here(world)
    await world.clock.sleep(60.0)
    until_here(world)
    assert await _token(fleet) != first
    await _settled(fleet)


@interrupted_by
def test_a_renewal_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_renewal, kinds=kinds) >= 1


@simulated(seeds=2)
async def test_a_token_is_renewed_long_before_it_ends_and_always_works(world: World) -> None:
    fleet = _quiet(world)
    await _cluster(fleet)
    await _provisioned(fleet)
    seen: list[Secret] = []
    for _ in range(24):
        token = await _token(fleet)
        seen += [token] if token not in seen else []
        await world.clock.sleep(300.0)
        # Core reads the Secret again only when its token is refused: the one that it has still works some minutes later.
        assert not (await _core(fleet, token).list(Node)).items
    assert 4 <= len(seen) <= 6


@simulated(seeds=2)
async def test_a_secret_that_somebody_made_is_left_alone_and_core_is_given_nothing_else(world: World) -> None:
    fleet = _quiet(world)
    await fleet.ready.wait()
    by_hand = SecretObject(metadata=ObjectMeta(name=NAME, namespace="default"), data={"value": b"by hand"})
    await fleet.api.create(by_hand)
    await _cluster(fleet)
    await _provisioned(fleet)
    await world.clock.sleep(3600.0)
    secret = await _secret(fleet)
    assert secret is not None
    assert (secret.data, secret.metadata.annotations) == ({"value": b"by hand"}, {})
    assert not (await fleet.api.list(BINDING)).items
    infra = _infra(fleet)
    assert infra is not None
    assert infra.metadata.finalizers == ()
    assert {c.reason for c in infra.status.conditions} == {"KubeconfigGiven"}


@simulated(seeds=2)
async def test_a_secret_made_by_hand_in_place_of_ours_ends_the_rights_that_nobody_uses(world: World) -> None:
    fleet = _quiet(world)
    await _cluster(fleet)
    await _provisioned(fleet)
    await fleet.api.delete(SecretObject, NAME, "default")
    by_hand = SecretObject(metadata=ObjectMeta(name=NAME, namespace="default"), data={"value": b"by hand"})
    await fleet.api.create(by_hand)
    await world.clock.sleep(700.0)
    secret = await _secret(fleet)
    assert secret is not None
    assert secret.data == {"value": b"by hand"}
    assert not (await fleet.api.list(BINDING)).items


@simulated(seeds=2)
async def test_an_account_that_is_not_ours_is_given_no_rights_and_the_reason_is_shown(world: World) -> None:
    fleet = _quiet(world)
    await fleet.ready.wait()
    await fleet.api.create(ServiceAccount(metadata=ObjectMeta(name="cluster-api-macs", namespace="default")))
    await _cluster(fleet)
    await world.clock.sleep(120.0)
    infra = _infra(fleet)
    assert infra is not None
    assert not infra.status.initialization.provisioned
    assert {(c.type, c.status, c.reason) for c in infra.status.conditions} == {
        ("KubeconfigReady", "False", "KubeconfigRefused"),
        ("Ready", "False", "KubeconfigRefused"),
    }
    assert not (await fleet.api.list(BINDING)).items
    await fleet.api.delete(ServiceAccount, "cluster-api-macs", "default")
    await _provisioned(fleet)
    await _settled(fleet)


@simulated(seeds=2)
async def test_turned_off_nothing_is_made_and_the_cluster_is_provisioned(world: World) -> None:
    fleet = _quiet(world, manage_kubeconfig=False)
    await _cluster(fleet)
    await world.clock.sleep(60.0)
    infra = _infra(fleet)
    assert infra is not None
    assert infra.status.initialization.provisioned
    assert await _secret(fleet) is None
    assert not (await fleet.api.list(BINDING)).items


@simulated(seeds=2)
async def test_the_token_is_in_the_secret_and_nowhere_else(world: World) -> None:
    fleet = _quiet(world)
    await _cluster(fleet)
    await _provisioned(fleet)
    await world.clock.sleep(3600.0)
    token = (await _token(fleet)).reveal()
    words = {token, *token.split("."), base64.b64encode(token.encode()).decode()}
    told = [*(await fleet.api.list(Resource("", "v1", "Event", "events"), "default")).items]
    told += [*(await fleet.api.list(Infra.RESOURCE, "default")).items, *(await fleet.api.list(BINDING)).items]
    text = json.dumps(told)
    assert "KubeconfigIssued" in text
    secret = await _secret(fleet)
    assert secret is not None
    seen = text + world.trace.text() + repr(secret) + json.dumps(dict(secret.metadata.annotations))
    # The first part of a token says how it is signed: the same for every token there is.
    assert not [word for word in words - {token.split(".")[0]} if word in seen]
