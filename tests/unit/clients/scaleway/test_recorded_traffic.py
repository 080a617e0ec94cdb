"""The client reads what the real API said, and the simulated cloud says it in the same shape.

The recordings are kept beside the checkout and not in it; where they are absent these tests are skipped, visibly.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.base.secrets import Password, Secret
from paddock.clients.scaleway import (
    Done,
    Gone,
    PermissionDenied,
    ScalewayClient,
    ScalewaySettings,
    Server,
    Unknown,
)
from paddock.clients.scaleway.connection import shaped
from paddock.simulator.cloud import SimulatedCloud

ZONE = "fr-par-1"
RECORDINGS = Path(__file__).resolve().parents[5] / "shared" / "fixtures" / "scaleway"

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="the recorded traffic (../shared/fixtures/scaleway) is not beside this checkout"
)


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))


def servers_recorded() -> list[dict[str, Any]]:
    exchanges = [*recorded("server-lifecycle"), *recorded("server-reboot")]
    return [
        e
        for e in exchanges
        if e["status"] == 200 and isinstance(e["response"], dict) and "ssh_username" in e["response"]
    ]


class Replay(httpx2.AsyncBaseTransport):
    """Answers each request with the next recorded answer to the same method and path."""

    def __init__(self, exchanges: list[dict[str, Any]]) -> None:
        self._exchanges = list(exchanges)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for index, exchange in enumerate(self._exchanges):
            if (exchange["method"], exchange["path"]) == (request.method, request.url.path):
                del self._exchanges[index]
                body = exchange["response"]
                return (
                    httpx2.Response(exchange["status"])
                    if body is None
                    else httpx2.Response(exchange["status"], json=body)
                )
        return httpx2.Response(403, json={"type": "permissions_denied", "message": "insufficient permissions"})


def client_of(exchanges: list[dict[str, Any]]) -> ScalewayClient:
    settings = ScalewaySettings(secret_key=Secret("key"), project_id="105bdce1-64c0-48ab-899d-868455867ecf")
    return ScalewayClient(settings, SteppedClock(), seeded(1), Replay(exchanges))


def test_every_recorded_server_is_read():
    seen = [shaped(exchange["response"], Server) for exchange in servers_recorded()]
    assert len(seen) > 20
    assert {server.status for server in seen} == {"starting", "ready", "rebooting"}
    assert all(server.os is not None and server.os.family == "Sequoia" for server in seen)
    assert all(server.created_at is not None and server.created_at.tzinfo is not None for server in seen)


def test_every_recorded_mutation_is_sealed_and_every_recorded_get_is_not():
    for exchange in servers_recorded():
        sealed = exchange["response"]["sudo_password"] == "<sealed>"
        assert sealed == (exchange["method"] != "GET")


async def test_the_life_of_a_recorded_server():
    exchanges = recorded("server-lifecycle")
    server_id = exchanges[0]["response"]["id"]
    client = client_of(exchanges)
    first = await client.get_server(ZONE, server_id)
    assert (first.server.status, first.server.delivered, first.server.usable) == ("starting", False, False)
    assert first.credentials.password == Password("Examp1ePass01")
    second = await client.get_server(ZONE, server_id)
    assert second.server.usable
    assert second.server.updated_at == datetime(2026, 3, 5, 8, 28, 4, 424683, tzinfo=UTC)
    assert await client.delete(ZONE, server_id) == Done()


async def test_the_403_of_a_recorded_deletion_is_not_proof_by_itself():
    exchanges = [e for e in recorded("server-lifecycle") if e["status"] == 403]
    server_id = exchanges[0]["path"].rpartition("/")[2]
    with pytest.raises(PermissionDenied) as raised:
        await client_of(exchanges).get_server(ZONE, server_id)
    assert raised.value.kind == "permissions_denied"
    assert isinstance(await client_of(exchanges).is_gone(ZONE, server_id), Unknown), "the list is refused as well"
    listed = {
        "method": "GET",
        "path": f"/apple-silicon/v1alpha1/zones/{ZONE}/servers",
        "status": 200,
        "response": {"servers": [], "total_count": 0},
    }
    verdict = await client_of([*exchanges, listed]).is_gone(ZONE, server_id)
    assert isinstance(verdict, Gone)
    assert verdict.listed == 0


async def test_the_recorded_reboot():
    exchanges = recorded("server-reboot")
    server_id = exchanges[0]["response"]["id"]
    result = await client_of(exchanges).reboot(ZONE, server_id)
    assert isinstance(result, Done)
    assert result.server is not None
    assert result.server.status == "rebooting"


async def test_the_recorded_image_list():
    client = client_of(recorded("os-list") * 3)
    images = await client.list_os(ZONE)
    assert len(images) == 8
    assert {os.family for os in images} == {"Ventura", "Sonoma", "Sequoia", "Tahoe", "DevOS", "Linux"}
    newest = await client.newest_image(ZONE, "sequoia", server_type="M4-S")
    assert (newest.name, newest.version) == ("macos-sequoia-15.6", "15.6.1")


async def test_the_recorded_types_and_prices():
    client = client_of(recorded("server-types-and-prices"))
    types = {offer.name: offer for offer in await client.list_server_types(ZONE)}
    assert types["M4-XL"].stock == "no_stock"
    assert {offer.minimum_lease_duration for offer in types.values()} == {"86400s"}
    prices = await client.list_prices(ZONE)
    assert {name: price.per_hour for name, price in prices.items()} == {
        "M2-M": Decimal("0.17"),
        "M2-L": Decimal("0.21"),
        "M4-S": Decimal("0.22"),
        "M4-M": Decimal("0.29"),
        "M4-XL": Decimal("0.49"),
    }


async def simulated(cloud: SimulatedCloud, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    async with httpx2.AsyncClient(transport=cloud.transport(), base_url="http://127.0.0.1") as http:
        answer = await http.request(method, path, json=body, headers={"X-Auth-Token": cloud.state.secret_key})
        return answer.json() if answer.content else None


def shape(value: Any) -> Any:
    """The fields and kinds of a JSON value; lists by their first entry."""
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], dict) else []
    return type(value).__name__


def fits(real: Any, simulated_shape: Any, at: str = "$") -> list[str]:
    """Where the simulated shape lacks a field of the real one or has it in another kind."""
    if isinstance(real, dict) and isinstance(simulated_shape, dict):
        problems = [f"{at}.{key} is missing" for key in real if key not in simulated_shape]
        for key in real.keys() & simulated_shape.keys():
            problems += fits(real[key], simulated_shape[key], f"{at}.{key}")
        return problems
    if isinstance(real, list) and isinstance(simulated_shape, list):
        return fits(real[0], simulated_shape[0], f"{at}[]") if real and simulated_shape else []
    if real == simulated_shape or "NoneType" in (real, simulated_shape):
        return []
    return [f"{at}: {real} != {simulated_shape}"]


async def test_the_simulated_cloud_answers_in_the_recorded_shapes(cloud: SimulatedCloud):
    host = cloud.add_host("mine", image="macos-sequoia-15.6", age=2 * 86400)
    base = f"/apple-silicon/v1alpha1/zones/{ZONE}"
    lifecycle, types = recorded("server-lifecycle"), recorded("server-types-and-prices")
    real = {(e["method"], e["path"].split("/")[-1] == "servers", e["status"]): e for e in lifecycle}
    got = await simulated(cloud, "GET", f"{base}/servers/{host.id}")
    changed = await simulated(cloud, "PATCH", f"{base}/servers/{host.id}", {"public_bandwidth_bps": 2_000_000_000})
    assert fits(shape(lifecycle[1]["response"]), shape(got)) == []
    assert fits(shape(real["PATCH", False, 200]["response"]), shape(changed)) == []
    images = await simulated(cloud, "GET", f"{base}/os?page=1")
    assert fits(shape(recorded("os-list")[1]["response"]), shape(images)) == []
    assert fits(shape(types[0]["response"]), shape(await simulated(cloud, "GET", f"{base}/server-types"))) == []
    path = f"/product-catalog/v2alpha1/public-catalog/products?page=1&product_types=apple_silicon&zone={ZONE}"
    product = types[1]["response"]["products"][0]
    slim = {
        key: value for key, value in product.items() if key not in {"properties", "environmental_impact_estimation"}
    }
    assert fits(shape(slim), shape((await simulated(cloud, "GET", path))["products"][0])) == []
    assert product["sku"] in {entry["sku"] for entry in (await simulated(cloud, "GET", path))["products"]}
    cloud.delete_host(host.id)
    assert await simulated(cloud, "GET", f"{base}/servers/{host.id}") == real["GET", False, 403]["response"]
