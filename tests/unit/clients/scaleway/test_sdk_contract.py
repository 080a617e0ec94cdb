"""Every path, parameter and field that we use exists in the provider's official SDK."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from doubles.clocks import SteppedClock
from scaleway import Client
from scaleway.applesilicon.v1alpha1 import ApplesiliconV1Alpha1API
from scaleway.applesilicon.v1alpha1 import types as apple
from scaleway.applesilicon.v1alpha1.content import SERVER_TRANSIENT_STATUSES
from scaleway.iam.v1alpha1 import IamV1Alpha1API
from scaleway.iam.v1alpha1 import types as iam
from scaleway.product_catalog.v2alpha1 import ProductCatalogV2Alpha1PublicCatalogAPI
from scaleway.product_catalog.v2alpha1 import types as catalogue

from paddock.clients.scaleway import (
    Diagnostic,
    HealthDetails,
    OperatingSystem,
    ScalewayClient,
    Server,
    ServerType,
    SSHKey,
)
from paddock.clients.scaleway.credentials import SealedFields
from paddock.clients.scaleway.model import READY, REINSTALLING, TRANSIENT_STATUSES, SupportedServerType
from paddock.simulator.cloud import SimulatedCloud

ZONE = "fr-par-1"
PROJECT = "105bdce1-64c0-48ab-899d-868455867ecf"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Server, apple.Server),
        (SealedFields, apple.Server),
        (OperatingSystem, apple.OS),
        (SupportedServerType, apple.OSSupportedServerType),
        (ServerType, apple.ServerType),
        (Diagnostic, apple.ConnectivityDiagnostic),
        (HealthDetails, apple.ConnectivityDiagnosticServerHealth),
        (SSHKey, iam.SSHKey),
    ],
)
def test_every_field_we_read_is_one_the_sdk_reads(ours: type[msgspec.Struct], theirs: Any):
    known = {field.name.removesuffix("_") for field in dataclasses.fields(theirs)}
    assert set(ours.__struct_fields__) <= known


def test_the_words_we_know_are_the_sdks():
    statuses = {status.value for status in apple.ServerStatus}
    assert {READY, REINSTALLING} <= statuses
    assert {status.value for status in SERVER_TRANSIENT_STATUSES} == TRANSIENT_STATUSES
    diagnostics = {status.value for status in apple.ConnectivityDiagnosticDiagnosticStatus}
    assert {"completed", "error", "processing"} <= diagnostics
    assert "created_at_desc" in {order.value for order in apple.ListServersRequestOrderBy}
    assert "created_at_desc" in {order.value for order in iam.ListSSHKeysRequestOrderBy}
    assert "apple_silicon" in {kind.value for kind in catalogue.ListPublicCatalogProductsRequestProductType}
    stocks = {stock.value for stock in apple.ServerTypeStock}
    assert {"no_stock", "low_stock", "high_stock"} <= stocks


def test_the_price_fields_we_read_are_the_sdks():
    def names(of: Any) -> set[str]:
        return {field.name for field in dataclasses.fields(of)}

    assert {"sku", "price", "unit_of_measure", "properties"} <= names(catalogue.PublicCatalogProduct)
    assert "retail_price" in names(catalogue.PublicCatalogProductPrice)
    assert {"unit", "size"} <= names(catalogue.PublicCatalogProductUnitOfMeasure)
    assert "server_type" in names(catalogue.PublicCatalogProductPropertiesAppleSilicon)
    units = catalogue.PublicCatalogProductUnitOfMeasureCountableUnit
    assert {"hour", "month"} <= {unit.value for unit in units}


class AskedError(Exception):
    """Carries what the SDK would have sent."""

    def __init__(self, method: str, path: str, params: dict[str, Any], body: dict[str, Any] | None) -> None:
        super().__init__(path)
        self.method = method
        self.path = path
        self.params = params
        self.body = body


def sent_by_sdk(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> AskedError:
    def stop(_self: Any, method: str, path: str, params: Any = None, headers: Any = None, body: Any = None) -> None:
        raise AskedError(method, path, dict(params or {}), body)

    monkeypatch.setattr("scaleway_core.api.API._request", stop)
    with pytest.raises(AskedError) as asked:
        call()
    return asked.value


def plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


async def test_every_request_we_send_is_one_the_sdk_would_send(
    client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
):
    sdk = Client(
        access_key="SCWSIMULATED00000000",
        secret_key=cloud.state.secret_key,
        default_project_id=cloud.state.project_id,
        default_zone=ZONE,
    )
    api, keys, products = ApplesiliconV1Alpha1API(sdk), IamV1Alpha1API(sdk), ProductCatalogV2Alpha1PublicCatalogAPI(sdk)
    host = cloud.add_host("mine", age=3600)
    image = cloud.image_named("macos-tahoe-26.3").id
    key = "ssh-ed25519 AAAAC3Key"

    # What our client sends, from the cloud's own audit.
    await client.list_servers(ZONE)
    await client.get_server(ZONE, host.id)
    await client.rename(ZONE, host.id, "renamed")
    await client.schedule_deletion(ZONE, host.id)
    diagnostic = await client.start_diagnostic(ZONE, host.id)
    await client.get_diagnostic(ZONE, diagnostic)
    await client.delete(ZONE, host.id)
    await client.reboot(ZONE, host.id)
    clock.step(200)
    await client.reinstall(ZONE, host.id, os_id=image)
    await client.list_os(ZONE, server_type="M4-M")
    await client.list_server_types(ZONE)
    await client.list_prices(ZONE)
    await client.ensure_ssh_key("fleet", "ssh-ed25519 AAAAC3Stale")
    await client.ensure_ssh_key("fleet", key)
    ours = [(entry.method, entry.path, entry.body) for entry in cloud.audit]

    theirs = [
        api.list_servers,
        lambda: api.get_server(server_id=host.id),
        lambda: api.update_server(server_id=host.id, name="renamed"),
        lambda: api.update_server(server_id=host.id, schedule_deletion=True),
        lambda: api.start_connectivity_diagnostic(server_id=host.id),
        lambda: api.get_connectivity_diagnostic(diagnostic_id=diagnostic),
        lambda: api.delete_server(server_id=host.id),
        lambda: api.reboot_server(server_id=host.id),
        lambda: api.reinstall_server(server_id=host.id, os_id=image, enable_kext=False),
        lambda: api.list_os(server_type="M4-M"),
        api.list_server_types,
        lambda: products.list_public_catalog_products(zone=ZONE),
        keys.list_ssh_keys,
        lambda: keys.create_ssh_key(name="fleet", public_key="ssh-ed25519 AAAAC3Stale"),
        keys.list_ssh_keys,
        lambda: keys.create_ssh_key(name="fleet", public_key=key),
    ]
    expected = [sent_by_sdk(call, monkeypatch) for call in theirs]
    assert ours == [(asked.method, asked.path, asked.body or {}) for asked in expected]


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (
            lambda sdk: ApplesiliconV1Alpha1API(sdk).list_servers(
                order_by=apple.ListServersRequestOrderBy.CREATED_AT_DESC, project_id=PROJECT, page=1, page_size=100
            ),
            {"order_by": "created_at_desc", "project_id": PROJECT, "page": 1, "page_size": 100},
        ),
        (
            lambda sdk: ApplesiliconV1Alpha1API(sdk).list_os(server_type="M4-M", page=1, page_size=100),
            {"server_type": "M4-M", "page": 1, "page_size": 100},
        ),
        (
            lambda sdk: IamV1Alpha1API(sdk).list_ssh_keys(
                name="fleet",
                order_by=iam.ListSSHKeysRequestOrderBy.CREATED_AT_DESC,
                project_id=PROJECT,
                page=1,
                page_size=100,
            ),
            {"name": "fleet", "order_by": "created_at_desc", "project_id": PROJECT, "page": 1, "page_size": 100},
        ),
        (
            lambda sdk: ProductCatalogV2Alpha1PublicCatalogAPI(sdk).list_public_catalog_products(
                product_types=[catalogue.ListPublicCatalogProductsRequestProductType.APPLE_SILICON],
                zone=ZONE,
                page=1,
                page_size=100,
            ),
            {"product_types": "apple_silicon", "zone": ZONE, "page": 1, "page_size": 100},
        ),
    ],
    ids=["servers", "os", "ssh keys", "products"],
)
def test_every_query_parameter_we_send_is_one_the_sdk_sends(
    call: Callable[[Client], Any], ours: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    sdk = Client(access_key="SCWSIMULATED00000000", secret_key=PROJECT, default_zone=ZONE)
    asked = sent_by_sdk(lambda: call(sdk), monkeypatch)
    params = {name: plain(value[0] if isinstance(value, list) else value) for name, value in asked.params.items()}
    assert {name: value for name, value in params.items() if value is not None} == ours
