import asyncio

import pytest

from paddock.base.secrets import Secret
from paddock.clients.ssh import public_key_of
from paddock.hosts.bootstrap import PlanError
from paddock.hosts.bootstrap.fleet_key import KEY_ID, MOVED, FleetKeys, cloud_name
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta


class Registry:
    """The part of the cloud that knows SSH keys."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.calls: list[str] = []
        self.fails = 0

    async def ensure_ssh_key(self, name: str, public_key: str) -> str:
        self.calls.append(public_key)
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the cloud is away")
        self.keys[name] = public_key
        return f"id-{public_key.split()[1][-8:]}"


def keys(client: Client, registry: Registry) -> FleetKeys:
    return FleetKeys(client, registry, namespace="default")  # type: ignore[arg-type]


async def test_the_first_one_makes_the_pair_and_registers_its_public_half(client: Client):
    registry = Registry()
    pair = await keys(client, registry).ensure("runners")
    stored = await client.get(SecretObject, "runners-ssh", "default")
    assert stored.data["id_ed25519"].decode() == pair.private.reveal()
    assert registry.keys == {cloud_name("runners", pair.public): pair.public}
    assert next(iter(registry.keys)).startswith("tuist-capi-runners-")
    assert stored.metadata.annotations[KEY_ID].startswith("id-")
    assert stored.metadata.labels["tuist.dev/fleet"] == "runners"


async def test_of_many_that_start_together_only_the_winners_key_is_ever_registered(client: Client):
    registry = Registry()
    pairs = await asyncio.gather(*(keys(client, registry).ensure("runners") for _ in range(8)))
    assert len({pair.public for pair in pairs}) == 1
    assert set(registry.calls) == {pairs[0].public}, "a loser's key in the cloud would lock every host"


async def test_the_pair_outlives_the_process_and_the_cloud_is_asked_once_for_each_process(client: Client):
    registry = Registry()
    first = keys(client, registry)
    pair = await first.ensure("runners")
    assert (await first.ensure("runners")).public == pair.public
    assert len(registry.calls) == 1
    assert (await keys(client, registry).ensure("runners")).private == pair.private
    assert len(registry.calls) == 2


async def test_a_cloud_that_was_away_is_asked_again_for_the_same_key(client: Client):
    registry = Registry()
    registry.fails = 1
    fleet = keys(client, registry)
    with pytest.raises(ConnectionError):
        await fleet.ensure("runners")
    pair = await fleet.ensure("runners")
    assert registry.calls == [pair.public, pair.public]


async def test_the_public_half_is_derived_because_two_halves_that_differ_lock_us_out(client: Client):
    registry = Registry()
    pair = await keys(client, registry).ensure("runners")
    await client.merge_patch(SecretObject, "runners-ssh", {"data": {"id_ed25519.pub": b"ssh-ed25519 AAAA"}}, "default")
    again = await keys(client, registry).ensure("runners")
    assert again.public == pair.public == public_key_of(pair.private, "tuist-capi-runners")


async def test_a_secret_without_a_key_is_named_with_the_remedy(client: Client):
    await client.create(SecretObject(metadata=ObjectMeta(name="runners-ssh", namespace="default")))
    with pytest.raises(PlanError, match="runners-ssh: it holds no id_ed25519"):
        await keys(client, Registry()).ensure("runners")


async def test_the_private_half_shows_nowhere(client: Client):
    pair = await keys(client, Registry()).ensure("runners")
    assert isinstance(pair.private, Secret)
    assert "PRIVATE KEY" not in repr(pair)


async def test_clusterctl_takes_the_key_along_also_one_that_was_made_before_it_was_told_to(client: Client):
    """Macs that were moved know no other key: a new one would lock them, and they would be wiped as broken."""
    await keys(client, Registry()).ensure("runners")
    unmarked = {"metadata": {"labels": {MOVED: None}}}
    await client.merge_patch(SecretObject, "runners-ssh", unmarked, "default")
    await keys(client, Registry()).ensure("runners")
    stored = await client.get(SecretObject, "runners-ssh", "default")
    assert stored.metadata.labels["clusterctl.cluster.x-k8s.io/move"] == ""


async def test_two_clusters_of_one_project_with_a_fleet_of_one_name_keep_both_their_keys(client: Client):
    """Each deleted the other's key of that name; every host that was reinstalled later knew only one of them."""
    registry = Registry()
    ours = await keys(client, registry).ensure("macos")
    await client.delete(
        SecretObject, "macos-ssh", "default"
    )  # the other cluster has a Secret, and so a pair, of its own
    theirs = await keys(client, registry).ensure("macos")
    assert set(registry.keys.values()) == {ours.public, theirs.public}
