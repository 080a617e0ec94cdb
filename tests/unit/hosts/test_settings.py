"""The operator's flags as values, and the one thing that may send mutations."""

from datetime import timedelta
from typing import Any

import pytest

from paddock.hosts.fenced_cloud import FencedCloud, LeaseTooShortError
from paddock.hosts.settings import HostSettings


def test_the_defaults_are_those_of_the_flags():
    settings = HostSettings()
    assert settings.zones == ("fr-par-1",)
    assert settings.reclaim_interval == 15 * 60
    assert settings.default_adopt_pool_prefix == ""
    assert settings.claim_name_prefix == ""
    assert (settings.tiers.reboot_after, settings.tiers.max_attempts) == (3, 8)


def test_a_host_settles_for_the_lease_and_two_requests():
    assert HostSettings(lease_duration=40, request_timeout=10).settle == timedelta(seconds=60)


def test_a_request_that_outlives_the_renewal_could_never_be_sent():
    with pytest.raises(ValueError, match="request_timeout"):
        HostSettings(request_timeout=30, renew_deadline=30)


def test_reclaiming_needs_a_pool_to_reclaim_into():
    with pytest.raises(ValueError, match="--default-adopt-pool-prefix"):
        HostSettings(claim_name_prefix="tuist-tuist-")


def test_a_malformed_pool_prefix_is_refused_at_the_start():
    with pytest.raises(ValueError, match="tuist-pool-"):
        HostSettings(default_adopt_pool_prefix="Tuist Pool")


class Silent:
    """A cloud that must not be called, or that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*_: Any, **__: Any) -> None:
            self.asked.append(name)

        return call


MUTATIONS = [
    ("rename", ("fr-par-1", "x", "y")),
    ("reboot", ("fr-par-1", "x")),
    ("reinstall", ("fr-par-1", "x", None)),
    ("delete", ("fr-par-1", "x")),
    ("schedule_deletion", ("fr-par-1", "x")),
]


@pytest.mark.parametrize(("call", "arguments"), MUTATIONS)
async def test_no_mutation_is_sent_under_a_lease_that_may_end_before_it_arrives(call: str, arguments: tuple[Any, ...]):
    cloud = Silent()
    fenced_cloud = FencedCloud(cloud, lambda: 10.0, 10.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(LeaseTooShortError):
        await getattr(fenced_cloud, call)(*arguments)
    assert cloud.asked == []


@pytest.mark.parametrize(("call", "arguments"), MUTATIONS)
async def test_a_mutation_is_sent_while_the_lease_has_more_left_than_it_may_take(call: str, arguments: tuple[Any, ...]):
    cloud = Silent()
    fenced_cloud = FencedCloud(cloud, lambda: 10.1, 10.0)  # pyright: ignore[reportArgumentType]
    await getattr(fenced_cloud, call)(*arguments)
    assert cloud.asked == [call]
