"""A kubeconfig of a Mac that is not ours any more, or of an account that is gone."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from integration.identity.test_a_mac_is_a_node import World, request

from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.node_certificate import CSR
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.errors import UnauthorizedError
from paddock.kube.objects import ObjectMeta

Logged = Callable[[str, str], bool]


async def test_the_kubeconfig_of_a_released_mac_opens_nothing_at_once(world: World, logged: Logged) -> None:
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    await world.admin.delete(ScalewayAppleSiliconMachine, "mac-1", "default")
    for call in (mac.get(Node, "mac-1"), mac.list(Pod, "default"), mac.create(request("next", "mac-1"), CSR)):
        with pytest.raises(UnauthorizedError):
            await call
    assert logged("api", "unauthorized")


async def test_a_kubeconfig_from_a_backup_of_last_week_opens_nothing(world: World, logged: Logged) -> None:
    mac = await world.mac("mac-1")
    world.clock.ahead = timedelta(days=7)
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")
    assert logged("api", "unauthorized")


async def test_the_token_of_an_account_dies_with_it_and_with_its_namesake(world: World, logged: Logged) -> None:
    token, _ = await world.admin.create_token("other", "default")
    await world.admin.delete(ServiceAccount, "other", "default")
    await world.admin.create(ServiceAccount(metadata=ObjectMeta(name="other", namespace="default")))
    async with world.cluster.client(token) as thief:
        with pytest.raises(UnauthorizedError):
            await thief.list(Pod, "default")
    assert logged("api", "unauthorized")
