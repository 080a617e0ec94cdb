"""The client against the simulated cloud, in the process."""

from datetime import timedelta
from decimal import Decimal

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.base.secrets import Password, Secret
from paddock.clients.scaleway import (
    AlreadyUnderWay,
    BelowBillingFloor,
    Cloud,
    Done,
    Gone,
    InvalidArguments,
    Locked,
    NotFound,
    OSNotPublished,
    PermissionDenied,
    PreconditionFailed,
    ScalewayClient,
    StillThere,
    TransientState,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from paddock.simulator.cloud import Fault, FaultKind, SimulatedCloud

ZONE = "fr-par-1"
DAY = 86400.0


def calls(cloud: SimulatedCloud, *operations: str) -> list[str]:
    return [entry.operation for entry in cloud.audit if not operations or entry.operation in operations]


def test_the_client_keeps_the_contract_of_a_cloud(client: ScalewayClient):
    kept: Cloud = client
    assert kept is client


class TestReading:
    async def test_a_list_holds_every_server_of_the_project_in_the_zone(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        ours = {host.id for host in cloud.seed_pool(3)}
        cloud.add_host("elsewhere", zone="fr-par-3")
        cloud.add_host("somebody-elses", project_id="0c4ad9cc-0000-4000-8000-000000000000")
        servers = await client.list_servers(ZONE)
        assert {server.id for server in servers} == ours
        assert servers.complete
        assert servers.total_count == 3

    @pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200, 250])
    async def test_a_list_of_any_length_is_complete_and_takes_one_call_a_hundred(
        self, client: ScalewayClient, cloud: SimulatedCloud, count: int
    ):
        cloud.seed_pool(count)
        assert len(await client.list_servers(ZONE)) == count
        assert len(calls(cloud, "list")) == max(1, -(-count // 100))

    async def test_only_a_get_yields_credentials(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        host.password = "p@ss:w/rd"
        fetched = await client.get_server(ZONE, host.id)
        assert fetched.credentials.password == Password("p@ss:w/rd")
        assert fetched.credentials.ssh_username == "m1"
        assert fetched.server.usable

    async def test_a_sealed_window_shows_no_password_and_ends(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("mine")
        cloud.behaviour.sealed_after_reboot = 300
        await client.reboot(ZONE, host.id)
        assert (await client.get_server(ZONE, host.id)).credentials.password is None
        clock.step(301)
        assert (await client.get_server(ZONE, host.id)).credentials.password == Password(host.password)

    async def test_an_unknown_status_survives(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.set_status(host.id, "meditating")
        server = (await client.get_server(ZONE, host.id)).server
        assert server.status == "meditating"
        assert not server.usable

    async def test_a_host_under_reinstall_is_delivered_and_not_usable(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        await client.reinstall(ZONE, host.id, os_id=None)
        server = (await client.get_server(ZONE, host.id)).server
        assert (server.delivered, server.status, server.usable) == (True, "reinstalling", False)

    @pytest.mark.parametrize("bad", ["", "a/b", "..", "."])
    async def test_an_identifier_that_would_change_the_path_is_refused_before_anything_is_sent(
        self, client: ScalewayClient, cloud: SimulatedCloud, bad: str
    ):
        with pytest.raises(InvalidArguments, match="server_id"):
            await client.delete(ZONE, bad)
        assert cloud.audit == []


class TestGone:
    async def test_a_403_with_a_complete_list_without_the_server_proves_it_gone(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        cloud.seed_pool(2)
        cloud.delete_host(host.id)
        with pytest.raises(PermissionDenied):
            await client.get_server(ZONE, host.id)
        verdict = await client.is_gone(ZONE, host.id)
        assert isinstance(verdict, Gone)
        assert verdict.listed == 2

    async def test_a_key_that_lost_its_rights_proves_nothing(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.state.api_keys[cloud.state.secret_key].permissions = []
        verdict = await client.is_gone(ZONE, host.id)
        assert isinstance(verdict, Unknown)
        assert "list" in verdict.reason

    async def test_a_403_beside_a_list_that_holds_the_server_means_it_is_there(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.FORBIDDEN, operations=("get",)))
        verdict = await client.is_gone(ZONE, host.id)
        assert isinstance(verdict, StillThere)
        assert verdict.server.id == host.id

    @pytest.mark.parametrize("kind", [FaultKind.SHORT_LIST, FaultKind.SERVER_ERROR, FaultKind.NOT_JSON])
    async def test_an_incomplete_list_proves_nothing(
        self, client: ScalewayClient, cloud: SimulatedCloud, kind: FaultKind
    ):
        host = cloud.add_host("mine")
        cloud.seed_pool(3)
        cloud.delete_host(host.id)
        cloud.inject(Fault(kind=kind, operations=("list",), times=None))
        assert isinstance(await client.is_gone(ZONE, host.id), Unknown)

    async def test_a_bare_404_needs_the_list_as_well(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.NOT_FOUND_BARE, operations=("get",)))
        assert isinstance(await client.is_gone(ZONE, host.id), StillThere)

    async def test_a_typed_not_found_of_the_server_is_proof_enough(self, client: ScalewayClient, cloud: SimulatedCloud):
        cloud.behaviour.gone_shape = "not_found"
        host = cloud.add_host("mine")
        cloud.delete_host(host.id)
        assert await client.is_gone(ZONE, host.id) == Gone("the cloud says not_found of this server")
        assert calls(cloud, "list") == []

    async def test_an_outage_is_unknown(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.BAD_GATEWAY, times=None))
        assert isinstance(await client.is_gone(ZONE, host.id), Unknown)

    async def test_a_project_we_may_not_list_proves_nothing(self, client: ScalewayClient, cloud: SimulatedCloud):
        other = "0c4ad9cc-0000-4000-8000-000000000000"
        host = cloud.add_host("theirs", project_id=other)
        assert isinstance(await client.is_gone(ZONE, host.id, project_id=other), Unknown)


class TestRename:
    async def test_a_rename_takes_effect_and_answers_without_credentials(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("before")
        server = await client.rename(ZONE, host.id, "after")
        assert server.name == "after"
        assert cloud.host(host.id).name == "after"
        assert host.password not in repr(server)

    @pytest.mark.parametrize(
        "kind", [FaultKind.LOST, FaultKind.BAD_GATEWAY, FaultKind.SERVER_ERROR, FaultKind.NOT_JSON]
    )
    @pytest.mark.parametrize("after_effect", [False, True])
    async def test_a_rename_without_an_answer_is_surfaced_and_never_repeated(
        self, client: ScalewayClient, cloud: SimulatedCloud, kind: FaultKind, after_effect: bool
    ):
        host = cloud.add_host("before")
        cloud.inject(Fault(kind=kind, operations=("rename",), after_effect=after_effect))
        with pytest.raises(Unavailable) as raised:
            await client.rename(ZONE, host.id, "after")
        assert raised.value.effect_unknown
        assert calls(cloud) == ["rename"]
        assert (await client.get_server(ZONE, host.id)).server.name == ("after" if after_effect else "before")

    async def test_a_late_rename_can_still_overwrite_a_name_after_its_sender_gave_up(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("before")
        cloud.inject(Fault(kind=FaultKind.LATE, operations=("rename",), delay=20))
        with pytest.raises(Unavailable):
            await client.rename(ZONE, host.id, "the late one")
        await client.rename(ZONE, host.id, "the new tenant")
        assert cloud.host(host.id).name == "the new tenant"
        clock.step(21)
        assert (await client.get_server(ZONE, host.id)).server.name == "the late one"

    @pytest.mark.parametrize("shape", ["forbidden", "not_found", "bare"])
    async def test_a_vanished_server_is_not_found_whatever_shape_the_cloud_gives_it(
        self, client: ScalewayClient, cloud: SimulatedCloud, shape: str
    ):
        cloud.behaviour.gone_shape = shape  # pyright: ignore[reportAttributeAccessIssue] - one of the three
        host = cloud.add_host("mine")
        cloud.delete_host(host.id)
        with pytest.raises(NotFound):
            await client.rename(ZONE, host.id, "after")

    async def test_a_403_on_a_server_that_is_there_surfaces_as_itself(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.FORBIDDEN, operations=("rename",)))
        with pytest.raises(PermissionDenied):
            await client.rename(ZONE, host.id, "after")

    async def test_a_name_the_api_refuses_names_the_field(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        with pytest.raises(InvalidArguments) as raised:
            await client.rename(ZONE, host.id, "")
        assert "name" in raised.value.fields


class TestReboot:
    async def test_a_reboot_is_done_once_accepted(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        result = await client.reboot(ZONE, host.id)
        assert isinstance(result, Done)
        assert result.server is not None
        assert result.server.status == "rebooting"
        assert calls(cloud) == ["reboot"]

    @pytest.mark.parametrize("kind", [FaultKind.TRANSIENT, FaultKind.CONFLICT_BARE])
    async def test_a_busy_server_is_already_under_way(
        self, client: ScalewayClient, cloud: SimulatedCloud, kind: FaultKind
    ):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=kind, operations=("reboot",), state="rebooting"))
        assert isinstance(await client.reboot(ZONE, host.id), AlreadyUnderWay)

    @pytest.mark.parametrize("kind", [FaultKind.NOT_FOUND])
    async def test_a_missing_server_is_gone(self, client: ScalewayClient, cloud: SimulatedCloud, kind: FaultKind):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=kind, operations=("reboot",)))
        assert isinstance(await client.reboot(ZONE, host.id), Gone)

    async def test_a_bare_404_from_a_gateway_does_not_make_a_live_server_gone(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        cloud.inject(Fault(kind=FaultKind.NOT_FOUND_BARE, operations=("reboot",)))
        with pytest.raises(NotFound):
            await client.reboot(ZONE, host.id)

    async def test_a_locked_server_is_an_error(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.set_status(host.id, "locked")
        with pytest.raises(Locked):
            await client.reboot(ZONE, host.id)


class TestReinstall:
    async def test_an_unpinned_reinstall_names_no_image_and_brings_the_types_default(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("mine", image="macos-tahoe-26.3")
        await client.reinstall(ZONE, host.id, os_id=None)
        assert cloud.audit[-1].body == {"enable_kext": False}
        clock.step(1200)
        assert (await client.get_server(ZONE, host.id)).server.os == next(
            os for os in await _embedded(client) if os.name == "macos-sequoia-15.6"
        )

    async def test_a_reinstall_brings_the_named_image_and_a_new_password(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("mine", image="macos-sequoia-15.6")
        before = (await client.get_server(ZONE, host.id)).credentials
        image = await client.newest_image(ZONE, "Tahoe", server_type="M4-M")
        await client.reinstall(ZONE, host.id, os_id=image.id)
        clock.step(1200)
        after = await client.get_server(ZONE, host.id)
        assert after.server.os is not None
        assert after.server.os.name == "macos-tahoe-26.3"
        assert after.credentials != before

    async def test_a_second_reinstall_is_already_under_way(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        await client.reinstall(ZONE, host.id, os_id=None)
        assert await client.reinstall(ZONE, host.id, os_id=None) == AlreadyUnderWay("reinstalling")

    async def test_a_server_that_is_busy_rebooting_is_not_being_wiped(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        await client.reboot(ZONE, host.id)
        with pytest.raises(TransientState) as raised:
            await client.reinstall(ZONE, host.id, os_id=None)
        assert raised.value.current_state == "rebooting"

    async def test_a_conflict_that_names_no_state_is_settled_by_reading_the_server(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        wiped, ready = cloud.add_host("wiped"), cloud.add_host("ready")
        await client.reinstall(ZONE, wiped.id, os_id=None)
        cloud.inject(Fault(kind=FaultKind.CONFLICT_BARE, operations=("reinstall",), times=2))
        assert await client.reinstall(ZONE, wiped.id, os_id=None) == AlreadyUnderWay("reinstalling")
        with pytest.raises(TransientState):
            await client.reinstall(ZONE, ready.id, os_id=None)

    async def test_a_retired_image_is_not_mistaken_for_a_vanished_server(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine")
        image = cloud.image_named("macos-tahoe-26.3")
        cloud.retire_image(image.name)
        with pytest.raises(NotFound) as raised:
            await client.reinstall(ZONE, host.id, os_id=image.id)
        assert raised.value.resource == "os"
        assert cloud.host(host.id).status == "ready"

    async def test_a_vanished_server_is_gone(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine")
        cloud.delete_host(host.id)
        assert isinstance(await client.reinstall(ZONE, host.id, os_id=None), Gone)

    async def test_a_server_in_runner_mode_is_refused(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine", image="devos-tahoe-26.3")
        host.runner_mode = True
        with pytest.raises(PreconditionFailed, match="precondition"):
            await client.reinstall(ZONE, host.id, os_id=None)


class TestDelete:
    async def test_a_server_above_its_floor_is_deleted(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine", age=2 * DAY)
        assert await client.delete(ZONE, host.id) == Done()
        assert cloud.hosts() == []

    @pytest.mark.parametrize("shape", ["typed", "bare", "text", "mismatched"])
    async def test_every_shape_of_the_billing_floor_is_recognised_with_its_date(
        self, client: ScalewayClient, cloud: SimulatedCloud, shape: str
    ):
        cloud.behaviour.floor_shape = shape  # pyright: ignore[reportAttributeAccessIssue] - one of the four
        host = cloud.add_host("mine", age=3600)
        result = await client.delete(ZONE, host.id)
        assert isinstance(result, BelowBillingFloor)
        assert result.deletable_at == host.deletable_at.replace(microsecond=0)

    async def test_a_scheduled_deletion_happens_by_itself_at_the_floor(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("mine", age=3600)
        assert isinstance(await client.delete(ZONE, host.id), BelowBillingFloor)
        result = await client.schedule_deletion(ZONE, host.id)
        assert isinstance(result, Done)
        assert result.server is not None
        assert result.server.deletion_scheduled
        clock.step(DAY)
        assert isinstance(await client.is_gone(ZONE, host.id), Gone)

    async def test_scheduling_the_deletion_of_a_vanished_server_is_gone(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine", age=3600)
        cloud.delete_host(host.id)
        assert isinstance(await client.schedule_deletion(ZONE, host.id), Gone)
        assert isinstance(await client.delete(ZONE, host.id), Gone)

    async def test_a_failed_schedule_says_what_it_was_about(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine", age=3600)
        cloud.inject(Fault(kind=FaultKind.SERVER_ERROR, operations=("schedule_deletion",)))
        with pytest.raises(Unavailable) as raised:
            await client.schedule_deletion(ZONE, host.id)
        assert "schedule deletion" in " ".join(raised.value.__notes__)

    async def test_a_delete_whose_answer_was_lost_is_recognised_when_asked_again(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        host = cloud.add_host("mine", age=2 * DAY)
        cloud.inject(Fault(kind=FaultKind.LOST, operations=("delete",), after_effect=True))
        with pytest.raises(Unavailable) as raised:
            await client.delete(ZONE, host.id)
        assert raised.value.effect_unknown
        assert isinstance(await client.delete(ZONE, host.id), Gone)

    async def test_a_delete_refused_for_another_reason_is_an_error(self, client: ScalewayClient, cloud: SimulatedCloud):
        host = cloud.add_host("mine", age=2 * DAY)
        await client.reboot(ZONE, host.id)
        with pytest.raises(TransientState):
            await client.delete(ZONE, host.id)


class TestCatalogue:
    async def test_the_newest_image_is_read_again_each_time(self, client: ScalewayClient, cloud: SimulatedCloud):
        assert (await client.newest_image(ZONE, "Tahoe", server_type="M4-M")).name == "macos-tahoe-26.3"
        cloud.publish_image("macos-tahoe-26.10", "Tahoe", "26.10")
        assert (await client.newest_image(ZONE, "Tahoe", server_type="M4-M")).name == "macos-tahoe-26.10"
        cloud.retire_image("macos-tahoe-26.10")
        cloud.retire_image("macos-tahoe-26.3")
        assert (await client.newest_image(ZONE, "Tahoe", server_type="M4-M")).name == "macos-tahoe-26.0"

    async def test_the_catalogue_is_scoped_to_the_server_type(self, client: ScalewayClient, cloud: SimulatedCloud):
        images = await client.list_os(ZONE, server_type="M4-M")
        assert {os.family for os in images} == {"Sequoia", "Tahoe", "DevOS"}
        with pytest.raises(OSNotPublished):
            await client.newest_image(ZONE, "Ventura", server_type="M4-M")

    async def test_server_types_show_their_stock_and_their_floor(self, client: ScalewayClient, cloud: SimulatedCloud):
        cloud.set_stock("M4-M", 2)
        types = {offer.name: offer for offer in await client.list_server_types(ZONE)}
        assert (types["M4-XL"].stock, types["M4-M"].stock, types["M4-S"].stock) == (
            "no_stock",
            "low_stock",
            "high_stock",
        )
        assert types["M4-S"].minimum_lease_seconds == DAY

    async def test_prices_come_by_type(self, client: ScalewayClient):
        prices = await client.list_prices(ZONE)
        assert prices["M4-XL"].per_hour == Decimal("0.49")
        assert prices["M2-M"].per_month == Decimal(115)


class TestDiagnostics:
    async def test_a_diagnostic_takes_its_time_and_then_says_what_it_saw(
        self, client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
    ):
        host = cloud.add_host("mine")
        host.health.ssh_port_up = False
        diagnostic_id = await client.start_diagnostic(ZONE, host.id)
        assert not (await client.get_diagnostic(ZONE, diagnostic_id)).finished
        clock.step(21)
        diagnostic = await client.get_diagnostic(ZONE, diagnostic_id)
        assert diagnostic.finished
        assert not diagnostic.is_healthy
        assert diagnostic.health_details is not None
        assert diagnostic.health_details.is_server_alive
        assert not diagnostic.health_details.is_ssh_port_up


class TestSSHKeys:
    OURS = "ssh-ed25519 AAAAC3Ours fleet@cluster"

    async def test_a_key_is_registered_once(self, client: ScalewayClient, cloud: SimulatedCloud):
        first = await client.ensure_ssh_key("fleet", self.OURS)
        again = await client.ensure_ssh_key("fleet", "ssh-ed25519 AAAAC3Ours another comment\r\n")
        assert first == again
        assert calls(cloud, "create_ssh_key") == ["create_ssh_key"]

    async def test_a_key_of_the_same_name_may_be_another_clusters_and_stays(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        rival = await client.ensure_ssh_key("fleet", "ssh-ed25519 AAAAC3Rival")
        ours = await client.ensure_ssh_key("fleet", self.OURS)
        assert {key.id for key in await client.list_ssh_keys("fleet")} == {rival, ours}
        assert calls(cloud, "delete_ssh_key") == []

    async def test_our_key_is_known_under_whatever_name(self, client: ScalewayClient, cloud: SimulatedCloud):
        older = await client.ensure_ssh_key("fleet", self.OURS)
        assert await client.ensure_ssh_key("fleet-1a2b3c4d", self.OURS) == older

    async def test_a_key_whose_name_only_begins_like_ours_is_left_alone(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        other = await client.ensure_ssh_key("fleet-staging", "ssh-ed25519 AAAAC3Staging")
        await client.ensure_ssh_key("fleet", self.OURS)
        assert other in {key.id for key in await client.list_ssh_keys()}

    async def test_a_registration_whose_answer_was_lost_is_found_the_next_time(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        cloud.inject(Fault(kind=FaultKind.LOST, operations=("create_ssh_key",), after_effect=True))
        with pytest.raises(Unavailable):
            await client.ensure_ssh_key("fleet", self.OURS)
        await client.ensure_ssh_key("fleet", self.OURS)
        assert len(cloud.state.ssh_keys) == 1

    async def test_a_disabled_key_is_an_error_and_not_a_lockout_to_come(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        key_id = await client.ensure_ssh_key("fleet", self.OURS)
        cloud.state.ssh_keys[key_id].disabled = True
        with pytest.raises(PreconditionFailed, match="disabled"):
            await client.ensure_ssh_key("fleet", self.OURS)

    async def test_what_is_no_public_key_is_refused_before_anything_changes(
        self, client: ScalewayClient, cloud: SimulatedCloud
    ):
        with pytest.raises(InvalidArguments):
            await client.ensure_ssh_key("fleet", "-----BEGIN OPENSSH PRIVATE KEY-----")
        assert calls(cloud, "create_ssh_key") == []


async def test_a_wrong_key_is_unauthenticated_and_never_shown(cloud: SimulatedCloud, clock: SteppedClock):
    settings = cloud.settings()
    wrong = type(settings)(secret_key=Secret("not-a-key"), project_id=settings.project_id, api_url=settings.api_url)
    async with ScalewayClient(wrong, clock, seeded(1), cloud.transport()) as client:
        with pytest.raises(Unauthenticated) as raised:
            await client.list_servers(ZONE)
    assert "not-a-key" not in repr(raised.value)


async def test_a_list_is_stamped_with_the_moment_it_was_asked_for(
    client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock
):
    cloud.behaviour.latency = (2.0, 2.0)
    asked_at = clock.now()
    servers = await client.list_servers(ZONE)
    assert servers.taken_at == asked_at
    assert clock.now() - asked_at >= timedelta(seconds=2)


async def _embedded(client: ScalewayClient):
    """The catalogue as it appears inside a server: without the supported types."""
    import msgspec

    return [msgspec.structs.replace(os, supported_server_types=()) for os in await client.list_os(ZONE)]
