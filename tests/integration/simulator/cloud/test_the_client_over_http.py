"""Our client over real sockets: what an in-process transport cannot show."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from doubles.clocks import SteppedClock

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.scaleway import Done, ScalewayClient, ScalewayError, ScalewaySettings, Unavailable
from paddock.simulator.cloud import Fault, FaultKind, SimulatedCloud

ZONE = "fr-par-1"


@pytest.fixture
async def client(cloud: SimulatedCloud, clock: SteppedClock, api_url: str) -> AsyncIterator[ScalewayClient]:
    async with ScalewayClient(cloud.settings(api_url), clock, seeded("the client")) as client:
        yield client


async def test_a_life_over_http(client: ScalewayClient, cloud: SimulatedCloud, clock: SteppedClock):
    host = cloud.seed_pool(3)[0]
    assert len(await client.list_servers(ZONE)) == 3
    assert (await client.rename(ZONE, host.id, "claimed")).name == "claimed"
    assert isinstance(await client.reboot(ZONE, host.id), Done)
    clock.step(106)
    assert (await client.get_server(ZONE, host.id)).server.usable


async def test_a_connection_that_breaks_after_the_effect_leaves_it_unknown(
    client: ScalewayClient, cloud: SimulatedCloud
):
    host = cloud.add_host("before")
    cloud.inject(Fault(kind=FaultKind.LOST, operations=("rename",), after_effect=True))
    with pytest.raises(Unavailable) as raised:
        await client.rename(ZONE, host.id, "after")
    assert raised.value.effect_unknown
    assert (await client.get_server(ZONE, host.id)).server.name == "after"


async def test_a_read_survives_a_broken_connection_and_a_gateway_page(client: ScalewayClient, cloud: SimulatedCloud):
    host = cloud.add_host("mine")
    cloud.inject(Fault(kind=FaultKind.LOST))
    cloud.inject(Fault(kind=FaultKind.BAD_GATEWAY))
    assert (await client.get_server(ZONE, host.id)).server.name == "mine"
    assert [entry.fault for entry in cloud.audit] == ["lost", "bad_gateway", ""]


async def test_nobody_listening_means_that_nothing_was_sent(cloud: SimulatedCloud, clock: SteppedClock):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with ScalewayClient(cloud.settings(address), clock, seeded(1)) as client:
            with pytest.raises(Unavailable) as raised:
                await client.rename(ZONE, "s1", "after")
    assert not raised.value.effect_unknown


async def test_a_server_that_trickles_for_ever_is_left_at_the_deadline():
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    simulated = SimulatedCloud(SystemClock(), seeded(1))
    plain = simulated.settings(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    settings = ScalewaySettings(
        secret_key=plain.secret_key, project_id=plain.project_id, api_url=plain.api_url, request_timeout=0.15
    )
    async with ScalewayClient(settings, SystemClock(), seeded(1)) as client:
        started = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="in time") as raised:
            await client.rename(ZONE, "s1", "after")
        assert asyncio.get_running_loop().time() - started < 1.0
        assert raised.value.effect_unknown
    server.close()


async def test_a_zone_that_does_not_exist_is_not_a_zone_without_hosts(client: ScalewayClient, cloud: SimulatedCloud):
    assert len(await client.list_servers("fr-par-3")) == 0
    with pytest.raises(ScalewayError):
        await client.list_servers("fr-par-9")
    assert cloud.add_host("mine").commitment == "none"
