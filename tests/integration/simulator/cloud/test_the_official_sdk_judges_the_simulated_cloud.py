"""The provider's own Python SDK, unchanged, against the simulated cloud over HTTP.

The SDK blocks, so that it runs in a thread; the cloud is served from the test's own event loop.
"""

import asyncio
from datetime import timedelta

import pytest
from doubles.clocks import SteppedClock
from scaleway import Client
from scaleway.applesilicon.v1alpha1 import ApplesiliconV1Alpha1API
from scaleway.applesilicon.v1alpha1.types import (
    ConnectivityDiagnosticDiagnosticStatus,
    ServerStatus,
    ServerTypeStock,
)
from scaleway.iam.v1alpha1 import IamV1Alpha1API
from scaleway.product_catalog.v2alpha1 import ProductCatalogV2Alpha1PublicCatalogAPI
from scaleway.product_catalog.v2alpha1.types import ListPublicCatalogProductsRequestProductType
from scaleway_core.api import ScalewayException

from paddock.simulator.cloud import SimulatedCloud

ZONE = "fr-par-1"


@pytest.fixture
def sdk(cloud: SimulatedCloud, api_url: str) -> Client:
    return Client(
        access_key="SCWSIMULATED00000000",
        secret_key=cloud.state.secret_key,
        api_url=api_url,
        default_project_id=cloud.state.project_id,
        default_zone=ZONE,
    )


@pytest.fixture
def api(sdk: Client) -> ApplesiliconV1Alpha1API:
    return ApplesiliconV1Alpha1API(sdk)


async def test_the_sdk_orders_reads_renames_and_deletes_a_server(api: ApplesiliconV1Alpha1API, clock: SteppedClock):
    created = await asyncio.to_thread(
        api.create_server,
        type_="M4-M",
        enable_vpc=False,
        public_bandwidth_bps=1_000_000_000,
        enable_kext=False,
        name="from-the-sdk",
    )
    assert created.status == ServerStatus.STARTING
    assert (created.sudo_password, created.vnc_url, created.delivered) == ("<sealed>", "<sealed>", False)
    assert created.deletable_at == created.created_at

    clock.step(135)
    read = await asyncio.to_thread(api.get_server, server_id=created.id)
    assert (read.status, read.delivered, read.ssh_username) == (ServerStatus.READY, True, "m1")
    assert read.sudo_password != "<sealed>"
    assert read.created_at is not None
    assert read.deletable_at == read.created_at + timedelta(days=1)

    renamed = await asyncio.to_thread(api.update_server, server_id=created.id, name="another")
    assert (renamed.name, renamed.sudo_password) == ("another", "<sealed>")

    with pytest.raises(ScalewayException) as floor:
        await asyncio.to_thread(api.delete_server, server_id=created.id)
    assert floor.value.status_code == 412
    assert floor.value.response.json()["type"] == "precondition_failed"
    scheduled = await asyncio.to_thread(api.update_server, server_id=created.id, schedule_deletion=True)
    assert scheduled.deletion_scheduled
    kept = await asyncio.to_thread(api.update_server, server_id=created.id, schedule_deletion=False)
    assert not kept.deletion_scheduled

    clock.step(86400)
    await asyncio.to_thread(api.delete_server, server_id=created.id)
    with pytest.raises(ScalewayException) as gone:
        await asyncio.to_thread(api.get_server, server_id=created.id)
    assert gone.value.status_code == 403


async def test_the_sdk_lists_every_page(api: ApplesiliconV1Alpha1API, cloud: SimulatedCloud):
    hosts = cloud.seed_pool(45)
    listed = await asyncio.to_thread(api.list_servers_all)
    assert {server.id for server in listed} == {host.id for host in hosts}
    page = await asyncio.to_thread(api.list_servers, page=2, page_size=40)
    assert (len(page.servers), page.total_count) == (5, 45)


async def test_the_sdk_reboots_and_waits(api: ApplesiliconV1Alpha1API, cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.add_host("mine")
    rebooting = await asyncio.to_thread(api.reboot_server, server_id=host.id)
    assert rebooting.status == ServerStatus.REBOOTING
    with pytest.raises(ScalewayException) as busy:
        await asyncio.to_thread(api.reboot_server, server_id=host.id)
    assert busy.value.response.json()["type"] == "transient_state"
    clock.step(106)
    assert (await asyncio.to_thread(api.wait_for_server, server_id=host.id)).status == ServerStatus.READY


async def test_the_sdk_reinstalls(api: ApplesiliconV1Alpha1API, cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.add_host("mine", image="macos-sequoia-15.6")
    images = await asyncio.to_thread(api.list_os_all, server_type="M4-M")
    tahoe = next(image for image in images if image.name == "macos-tahoe-26.3")
    assert (await asyncio.to_thread(api.get_os, os_id=tahoe.id)).family == "Tahoe"
    answer = await asyncio.to_thread(api.reinstall_server, server_id=host.id, enable_kext=True, os_id=tahoe.id)
    assert (answer.status, answer.delivered, answer.kext_enabled) == (ServerStatus.REINSTALLING, True, True)
    clock.step(1200)
    after = await asyncio.to_thread(api.get_server, server_id=host.id)
    assert after.os is not None
    assert (after.status, after.os.id) == (ServerStatus.READY, tahoe.id)


async def test_the_sdk_reads_types_with_their_stock(api: ApplesiliconV1Alpha1API):
    answer = await asyncio.to_thread(api.list_server_types)
    types = {offer.name: offer for offer in answer.server_types}
    assert {"M1-M", "M2-M", "M2-L", "M4-S", "M4-M", "M4-XL"} <= types.keys()
    assert types["M4-XL"].stock == ServerTypeStock.NO_STOCK
    assert types["M4-S"].default_os is not None
    assert types["M4-S"].cpu is not None
    assert (types["M4-S"].cpu.core_count, types["M4-S"].minimum_lease_duration) == (10, "86400s")
    one = await asyncio.to_thread(api.get_server_type, server_type="M4-S")
    assert one == types["M4-S"]


async def test_the_sdk_runs_a_diagnostic(api: ApplesiliconV1Alpha1API, cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.add_host("mine")
    started = await asyncio.to_thread(api.start_connectivity_diagnostic, server_id=host.id)
    early = await asyncio.to_thread(api.get_connectivity_diagnostic, diagnostic_id=started.diagnostic_id)
    assert early.status == ConnectivityDiagnosticDiagnosticStatus.PROCESSING
    clock.step(20)
    done = await asyncio.to_thread(api.get_connectivity_diagnostic, diagnostic_id=started.diagnostic_id)
    assert done.is_healthy
    assert done.health_details is not None
    assert done.health_details.is_ssh_port_up


async def test_the_sdk_manages_ssh_keys(sdk: Client):
    iam = IamV1Alpha1API(sdk)
    created = await asyncio.to_thread(iam.create_ssh_key, public_key="ssh-ed25519 AAAAC3Key me", name="fleet")
    assert (await asyncio.to_thread(iam.get_ssh_key, ssh_key_id=created.id)).name == "fleet"
    listed = await asyncio.to_thread(iam.list_ssh_keys_all)
    assert [(key.id, key.public_key) for key in listed] == [(created.id, "ssh-ed25519 AAAAC3Key me")]
    await asyncio.to_thread(iam.delete_ssh_key, ssh_key_id=created.id)
    assert await asyncio.to_thread(iam.list_ssh_keys_all) == []


async def test_the_sdk_reads_prices(sdk: Client):
    catalogue = ProductCatalogV2Alpha1PublicCatalogAPI(sdk)
    products = await asyncio.to_thread(
        catalogue.list_public_catalog_products_all,
        product_types=[ListPublicCatalogProductsRequestProductType.APPLE_SILICON],
        zone=ZONE,
        page_size=100,
    )
    hourly = {product.sku: product.price for product in products if "monthly" not in product.sku}
    price = hourly["/apple-silicon/m4-s/run_par1"]
    assert price is not None
    assert price.retail_price is not None
    assert (price.retail_price.units, price.retail_price.nanos) == (0, 220_000_000)


async def test_the_sdk_is_refused_without_a_valid_key(api_url: str, cloud: SimulatedCloud):
    stranger = Client(
        access_key="SCWSIMULATED00000000",
        secret_key="11111111-2222-4333-8444-555555555555",
        api_url=api_url,
        default_project_id=cloud.state.project_id,
        default_zone=ZONE,
    )
    with pytest.raises(ScalewayException) as refused:
        await asyncio.to_thread(ApplesiliconV1Alpha1API(stranger).list_servers)
    assert refused.value.status_code == 401
