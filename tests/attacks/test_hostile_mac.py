"""Root on a rented Mac, with the agent's kubeconfig."""

from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
from integration.identity.test_a_mac_is_a_node import World, bound, lease

from paddock.kube.builtin import Lease, Node, Pod, SecretObject
from paddock.kube.errors import BadRequestError, ForbiddenError
from paddock.kube.objects import ObjectMeta

Logged = Callable[[str, str], bool]


async def test_it_reads_no_secret_of_the_cluster(world: World, logged: Logged) -> None:
    mac = await world.mac("mac-1")
    await world.admin.create(SecretObject(metadata=ObjectMeta(name="paddock-github", namespace="default")))
    for call in (mac.get(SecretObject, "paddock-github", "default"), mac.list(SecretObject, "default")):
        with pytest.raises(ForbiddenError):
            await call
    assert logged("api", "secrets")


async def test_it_mints_no_token_of_the_operator_or_of_a_neighbours_pod(world: World, logged: Logged) -> None:
    mac = await world.mac("mac-1")
    await world.mac("mac-2")
    neighbours = await world.pod("neighbours", "mac-2")
    for call in (
        mac.create_token("other", "default", audiences=["dispatch"]),
        mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(neighbours)),
    ):
        with pytest.raises(ForbiddenError):
            await call
    assert logged("api", "serviceaccounts")


async def test_it_seizes_no_lease_and_ends_no_neighbours_job(world: World, logged: Logged) -> None:
    mac = await world.mac("mac-1")
    await world.mac("mac-2")
    await world.admin.create(lease("operator", "default"))
    await world.admin.create(Node(metadata=ObjectMeta(name="mac-2")))
    await world.pod("neighbours", "mac-2")
    for call in (
        mac.merge_patch(Lease, "operator", {"spec": {"holderIdentity": "mac-1"}}, "default"),
        mac.delete(Pod, "neighbours", "default"),
        mac.merge_patch(Node, "mac-2", {"spec": {"unschedulable": True}}),
    ):
        with pytest.raises(ForbiddenError):
            await call
    assert logged("api", "leases")


@pytest.mark.parametrize("word", ["lots", "NaN", "1e400000", "0" * 1_000_000], ids=["lots", "NaN", "huge", "long"])
async def test_its_word_about_its_own_seats_is_a_quantity_or_refused(world: World, word: str) -> None:
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    with pytest.raises(BadRequestError, match="quantities must match"):
        await mac.merge_patch(Node, "mac-1", {"status": {"allocatable": {"tuist.dev/vm": word}}}, subresource="status")


async def test_a_pod_that_is_gone_is_no_warning_and_a_neighbours_pod_is_one(
    world: World, log: list[MutableMapping[str, Any]]
) -> None:
    """The agent asks for its Pod once more after that one is gone: the terminal shows what is an attack, not that."""
    mac = await world.mac("mac-1")
    await world.mac("mac-2")
    await world.pod("neighbours", "mac-2")
    for name, level in (("gone", "info"), ("neighbours", "warning")):
        with pytest.raises(ForbiddenError):
            await mac.get(Pod, name, "default")
        assert [line["log_level"] for line in log if name in line.get("request", "")] == [level]
