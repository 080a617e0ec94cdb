"""TLS: the server must be the one we trust, and it sees our certificate."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from kube.throwaway_certificates import Authority
from unit.kube.fake_api import FakeApi, SocketFrontEnd
from unit.kube.things import COLLECTION, Thing, raw

from paddock.base.secrets import Secret
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import ConfigError, TransportError
from paddock.kube.watch import Event, WatchTimeouts, watch


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def front(authority: Authority):
    server = authority.serving("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    api = FakeApi()
    api.put(COLLECTION, raw("a"))
    async with SocketFrontEnd(api, tls=context) as started:
        yield started


@pytest.fixture
def config(front: SocketFrontEnd, authority: Authority) -> Config:
    pair = authority.client("jane", ("dev",), "jane")
    identity = Identity(None, pair.certificate.read_text(), Secret(pair.key.read_text()))
    return Config(front.url, ca=authority.file.read_text(), credentials=FixedIdentity(identity))


async def get(config: Config) -> str:
    async with Client(config) as client:
        return (await client.get(Thing, "a", "ns", timeout=5)).metadata.name


async def test_a_client_certificate_opens_the_door(config: Config):
    assert await get(config) == "a"


async def test_without_a_certificate_the_server_does_not_talk_to_us(config: Config):
    with pytest.raises(TransportError):
        await get(replace(config, credentials=FixedIdentity()))


async def test_a_server_that_we_do_not_trust_is_refused(config: Config, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        await get(replace(config, ca=Authority(other).file.read_text()))


async def test_verification_can_be_switched_off_on_purpose(config: Config):
    assert await get(replace(config, ca="", insecure=True)) == "a"


async def test_the_name_to_verify_can_differ_from_the_address(config: Config):
    assert await get(replace(config, tls_server_name="kubernetes.default.svc")) == "a"
    with pytest.raises(TransportError):
        await get(replace(config, tls_server_name="elsewhere.example"))


async def test_broken_material_is_named(config: Config):
    with pytest.raises(ConfigError, match="certificate-authority"):
        await get(replace(config, ca="-----BEGIN CERTIFICATE-----\nnope\n-----END CERTIFICATE-----\n"))
    with pytest.raises(ConfigError, match="client-certificate"):
        await get(replace(config, credentials=FixedIdentity(Identity(None, "x", Secret("y")))))


class Rotating:
    """An identity that a test replaces."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    async def current(self) -> Identity:
        return self.identity

    def rejected(self) -> bool:
        return False


def identity_of(authority: Authority, name: str) -> Identity:
    pair = authority.client(name, (), name)
    return Identity(None, pair.certificate.read_text(), Secret(pair.key.read_text()))


async def test_a_rotated_certificate_is_used_for_the_next_call(
    config: Config, authority: Authority, front: SocketFrontEnd
):
    rotating = Rotating(await config.credentials.current())
    async with Client(replace(config, credentials=rotating)) as client:
        await client.get(Thing, "a", "ns")
        rotating.identity = identity_of(authority, "john")
        await client.get(Thing, "a", "ns")
        assert front.connections == 2


async def test_certificates_that_rotate_for_years_leave_no_connection_behind(
    config: Config, authority: Authority, front: SocketFrontEnd
):
    """The agent of a Mac gets a new one every sixteen hours, and may open a few hundred files."""
    identities = [identity_of(authority, name) for name in ("john", "jim")]
    rotating = Rotating(await config.credentials.current())
    async with Client(replace(config, credentials=rotating)) as client:
        for number in range(6):
            rotating.identity = identities[number % 2]
            await client.get(Thing, "a", "ns")
        await asyncio.sleep(0.1)
        assert len(front._open) == 1


async def test_what_is_under_way_when_a_certificate_rotates_ends_on_its_own_connection(
    config: Config, authority: Authority, front: SocketFrontEnd
):
    rotating = Rotating(await config.credentials.current())
    seen: list[Event] = []
    opened = asyncio.Event()
    async with Client(replace(config, credentials=rotating)) as client:
        path, limits = Thing.RESOURCE.path("ns"), WatchTimeouts(60.0)
        watching = asyncio.create_task(
            watch(client.connection, path, {"resourceVersion": "0"}, seen.append, timeout=limits, opened=opened.set)
        )
        await opened.wait()
        rotating.identity = identity_of(authority, "john")
        await client.get(Thing, "a", "ns")
        front.api.put(COLLECTION, raw("b"))
        async with asyncio.timeout(5):
            while not seen:
                await asyncio.sleep(0.01)
            front.api.cut_watches()
            await watching
        await client.get(Thing, "a", "ns")
        await asyncio.sleep(0.1)
        assert len(front._open) == 1, "and then that connection is closed, too"
