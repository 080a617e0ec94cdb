"""A sealed password never reaches sudo, and a host that stays broken is rebooted once and then given back."""

from typing import Any

import pytest
from incidents.hosts.story import (
    Machine,
    asked,
    cloud_host,
    events,
    mutations,
    one,
    settings,
    until_pooled,
    until_ready_says,
)

from paddock.base.secrets import SEALED, Password, UnusablePasswordError
from paddock.clients.scaleway import AlreadyUnderWay, Done, Gone, ScalewayClient
from paddock.clients.scaleway.credentials import SealedFields, credentials_of
from paddock.hosts.recovery import Reboot, Retry, Tiers, after_failure
from paddock.kube.builtin import SecretObject
from paddock.kube.errors import NotFoundError
from paddock.simulator.cloud import Fault, FaultKind
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

# (1) The sealed marker


def test_a_sealed_password_falls_back_to_the_vnc_url() -> None:
    """`TestScalewayServerToServer_FallsBackToVncURLWhenSudoPasswordIsSealed`."""
    found = credentials_of(SealedFields(sudo_password=SEALED, vnc_url="vnc://m1:p%40ss@198.18.0.1:5900"))
    assert found.password == Password("p@ss")


@pytest.mark.parametrize("url", [SEALED, f"vnc://m1:{SEALED}@198.18.0.1:5900", "vnc://m1:%3Csealed%3E@198.18.0.1:5900"])
def test_the_sealed_marker_is_rejected_from_the_vnc_url_too(url: str) -> None:
    """`TestScalewayServerToServer_RejectsSealedMarkerFromVncURL`: the url is the marker; it embeds the marker."""
    assert credentials_of(SealedFields(sudo_password=SEALED, vnc_url=url)).password is None
    with pytest.raises(UnusablePasswordError):
        Password(SEALED)


@simulated(seeds=2)
async def test_a_sealed_password_in_the_stored_secret_heals_itself(world: World) -> None:
    """`The controller's recovery gate also treats <sealed> in the staged Secret as missing`."""
    fleet, server_id = await broken_fleet(world)
    await until_attempts(fleet, 1)
    change = {"data": {"sudo-password": SEALED.encode()}}
    await fleet.api.merge_patch(SecretObject, "m-1-bootstrap", change, "default")
    fleet.macs.broken.clear()
    await fleet.all_ready(1)
    kept = await fleet.api.get(SecretObject, "m-1-bootstrap", "default")
    assert kept.data["sudo-password"].decode() == cloud_host(fleet, server_id).password
    assert fleet.macs.wrong_passwords == []
    assert await events(fleet, "CredentialsReclaimed")


@simulated(seeds=2)
async def test_a_sealed_password_is_waited_for_and_sudo_is_never_tried_with_it(world: World) -> None:
    """The incident: `<sealed>` handed to sudo, the account locked, the host blocked until a reboot by hand."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    server_id = fleet.pool[0].id
    fleet.cloud.seal(server_id, 600)
    await fleet.machine("m-1")
    await until_ready_says(fleet, "m-1", "MissingSudoPassword")
    assert fleet.macs.touched == []
    await fleet.all_ready(1)
    assert fleet.macs.wrong_passwords == []
    assert (await one(fleet, "m-1")).status.bootstrap_attempts == 0
    assert mutations(fleet, server_id, "reboot", "reinstall") == []


# Rebooting


async def rebooted(world: World, status: str | None, *, gone: bool = False) -> tuple[FleetWorld, Any]:
    fleet = FleetWorld(world, hosts=1, operators=0)
    server_id = fleet.pool[0].id
    if gone:
        fleet.cloud.delete_host(server_id)
    async with ScalewayClient(
        fleet.cloud.settings(), fleet.clock, world.rng("client"), fleet.cloud.transport()
    ) as client:
        if status == "rebooting":
            await client.reboot("fr-par-1", server_id)
        return fleet, await client.reboot("fr-par-1", server_id)


@simulated(seeds=1)
async def test_rebooting_a_server_that_is_gone_is_no_error(world: World) -> None:
    """`TestClientRebootServer_SwallowsNotFound`."""
    assert isinstance((await rebooted(world, None, gone=True))[1], Gone)


@simulated(seeds=1)
async def test_rebooting_a_server_that_is_rebooting_is_no_error(world: World) -> None:
    """`TestClientRebootServer_SwallowsTransientState`."""
    assert isinstance((await rebooted(world, "rebooting"))[1], AlreadyUnderWay)


@simulated(seeds=1)
async def test_a_reboot_is_one_call(world: World) -> None:
    """`TestClientRebootServer_HappyPathRecordsCall`."""
    fleet, outcome = await rebooted(world, None)
    assert isinstance(outcome, Done)
    assert mutations(fleet) == ["reboot"]


# (2) The tiers


async def broken_fleet(world: World, *, hosts: int = 1, **more: Any) -> tuple[FleetWorld, str]:
    """One host that never comes up, and a machine that claims it first."""
    fleet = FleetWorld(world, hosts=hosts, settings=settings(**more))
    fleet.macs.seconds = 30.0
    fleet.macs.broken |= {each.id for each in fleet.pool}
    await fleet.machine("m-1")

    async def bound() -> bool:
        return bool((await one(fleet, "m-1")).status.server_id)

    await fleet.eventually("m-1 has a host", bound, within=300)
    return fleet, (await one(fleet, "m-1")).status.server_id


async def until_attempts(fleet: FleetWorld, count: int, within: float = 3600.0) -> Machine:
    async def failed() -> bool:
        return (await one(fleet, "m-1")).status.bootstrap_attempts >= count

    await fleet.eventually(f"{count} bootstraps failed", failed, within, every=0.5)
    return await one(fleet, "m-1")


@simulated(seeds=1)
async def test_a_failed_bootstrap_is_counted_and_tried_again_after_a_minute(world: World) -> None:
    """`TestHandleBootstrapFailure_IncrementsAttempts` (60 s, no calls)."""
    fleet, _ = await broken_fleet(world)
    first = await until_attempts(fleet, 1)
    assert first.status.bootstrap_attempts == 1
    began = fleet.clock.monotonic()
    await until_attempts(fleet, 2)
    assert 59 <= fleet.clock.monotonic() - began <= 60 + fleet.macs.seconds + 10
    assert asked(fleet, "reboot", "reinstall", "delete") == 0


@simulated(seeds=2)
async def test_at_the_threshold_the_host_is_rebooted_once(world: World) -> None:
    """`TestHandleBootstrapFailure_RebootsAtThresholdOnce` (one-shot guard). The provider's diagnosis is asked first."""
    fleet, server_id = await broken_fleet(world, tiers=Tiers(max_attempts=0))
    await until_attempts(fleet, 3)
    await fleet.clock.sleep(60)
    assert mutations(fleet, server_id, "reboot") == ["reboot"]
    after = await until_attempts(fleet, 9)
    assert after.status.bootstrap_reboot_issued
    assert mutations(fleet, server_id, "reboot") == ["reboot"]
    (message,) = await events(fleet, "RebootingForRecovery")
    assert "the provider saw" in message


@simulated(seeds=1)
async def test_a_reboot_that_helps_ends_the_story(world: World) -> None:
    """Tier 1 is the cheap recovery: no disk is wiped, the host keeps its machine, the counters start anew."""
    fleet, server_id = await broken_fleet(world)
    fleet.macs.healed_by_reboot.add(server_id)
    await fleet.all_ready(1)
    healed = await one(fleet, "m-1")
    assert healed.status.server_id == server_id
    assert (healed.status.bootstrap_attempts, healed.status.bootstrap_reboot_issued) == (0, False)
    assert cloud_host(fleet, server_id).install == 1


@simulated(seeds=2)
async def test_at_the_maximum_the_host_goes_back_to_the_pool_and_another_is_claimed(world: World) -> None:
    """`TestHandleBootstrapFailure_ReleasesToPoolAtMax`: released once, Secret deleted, all state reset."""
    fleet, server_id = await broken_fleet(world)
    good = fleet.cloud.add_host(f"{POOL}good", server_type="M2-L").id

    async def elsewhere() -> bool:
        return (await one(fleet, "m-1")).status.server_id == good

    await fleet.eventually("m-1 has another host", elsewhere, within=7200)
    await fleet.all_ready(1)
    moved = await one(fleet, "m-1")
    assert moved.spec.provider_id == f"scw-applesilicon://fr-par-1/{good}"
    assert [each.address for each in moved.status.addresses] == [cloud_host(fleet, good).ip]
    kept = await fleet.api.get(SecretObject, "m-1-bootstrap", "default")
    assert kept.data["sudo-password"].decode() == cloud_host(fleet, good).password
    assert fleet.macs.changed_keys == []
    await until_pooled(fleet, server_id)
    assert mutations(fleet, server_id, "reinstall") == ["reinstall"]
    assert await events(fleet, "BootstrapExhausted")


@simulated(seeds=1)
async def test_a_machine_that_gave_its_host_back_keeps_nothing_of_it(world: World) -> None:
    """The reset of `ReleasesToPoolAtMax`, seen while there is no other host to claim."""
    fleet, server_id = await broken_fleet(world)

    async def hostless() -> bool:
        return not (await one(fleet, "m-1")).status.server_id

    await fleet.eventually("m-1 gave its host back", hostless, within=7200)
    await fleet.clock.sleep(5)
    left = await one(fleet, "m-1")
    assert (left.spec.provider_id, left.status.addresses, left.status.ready) == ("", (), False)
    assert (left.status.bootstrap_attempts, left.status.bootstrap_reboot_issued) == (0, False)
    with pytest.raises(NotFoundError):
        await fleet.api.get(SecretObject, "m-1-bootstrap", "default")
    assert (await fleet.hosts())[server_id].spec.release is not None


@simulated(seeds=2)
async def test_a_release_that_the_cloud_refuses_never_forgets_the_host(world: World) -> None:
    """`TestHandleBootstrapFailure_ReleaseAPIErrorKeepsState`. Here the host is kept by its recorded release, not by the
    machine's serverID: it stays claimed and dirty until the cloud has wiped it, whoever leads, so the machine need not
    wait for it.
    """
    fleet, server_id = await broken_fleet(world)
    await until_attempts(fleet, 7)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("rename", "reinstall"), times=6))

    async def recorded() -> bool:
        return (await fleet.hosts())[server_id].spec.release is not None

    await fleet.eventually("the release is recorded", recorded, within=600)
    await fleet.clock.sleep(120)
    wedged = (await fleet.hosts())[server_id]
    assert wedged.spec.release is not None
    assert wedged.spec.claim is not None
    assert await events(fleet, "ReleaseFailed")
    fleet.operators[0].crash()
    await until_pooled(fleet, server_id)
    assert cloud_host(fleet, server_id).install == 2


@simulated(seeds=2)
async def test_a_reboot_that_the_cloud_refuses_does_not_use_up_the_one_shot(world: World) -> None:
    """`TestHandleBootstrapFailure_RebootAPIErrorDoesNotConsumeOneShot`, and its sister `RebootRetriesAfterAPIError`."""
    fleet, server_id = await broken_fleet(world)
    fleet.cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("reboot",), times=1))
    third = await until_attempts(fleet, 3)
    await fleet.clock.sleep(30)
    assert not (await one(fleet, "m-1")).status.bootstrap_reboot_issued
    assert third.status.server_id == server_id
    assert await events(fleet, "RebootForRecoveryFailed")
    await until_attempts(fleet, 4)
    await fleet.clock.sleep(60)
    assert (await one(fleet, "m-1")).status.bootstrap_reboot_issued
    assert mutations(fleet, server_id, "reboot") == ["reboot"]


@simulated(seeds=1)
async def test_a_machine_without_any_pool_never_releases_its_host(world: World) -> None:
    """`TestHandleBootstrapFailure_LegacyCRWithoutPoolPrefixNeverReleases`."""
    fleet = FleetWorld(world, hosts=1, settings=settings(default_adopt_pool_prefix=""))
    fleet.macs.seconds = 10.0
    fleet.macs.broken |= {each.id for each in fleet.pool}
    await fleet.machine("m-1", adopt_pool_prefix=POOL)
    await until_attempts(fleet, 1)
    await fleet.api.merge_patch(Machine, "m-1", {"spec": {"adoptPoolPrefix": None}}, namespace="default")
    stuck = await until_attempts(fleet, 12)
    assert stuck.status.server_id
    assert mutations(fleet, "", "reinstall") == []
    assert mutations(fleet, "", "reboot") == ["reboot"]


@simulated(seeds=1)
async def test_thresholds_of_zero_disable_both_tiers(world: World) -> None:
    """`TestHandleBootstrapFailure_DisabledThresholdsSkipBothTiers`."""
    fleet, server_id = await broken_fleet(world, tiers=Tiers(reboot_after=0, max_attempts=0))
    stuck = await until_attempts(fleet, 12)
    assert stuck.status.server_id == server_id
    assert asked(fleet, "reboot", "reinstall") == 0


def test_a_threshold_that_an_api_error_skipped_is_still_a_threshold() -> None:
    """`==` never retried a failed reboot call."""
    at_four = after_failure(4, reboot_issued=False, can_release=True, tiers=Tiers())
    assert isinstance(at_four, Reboot)
    assert isinstance(after_failure(4, reboot_issued=True, can_release=True, tiers=Tiers()), Retry)
