"""TLS: the server must be the one we trust, and it sees our certificate."""

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


async def test_a_rotated_certificate_is_used_for_the_next_call(config: Config, authority: Authority):
    pair = authority.client("john", (), "john")

    first = await config.credentials.current()

    class Rotating:
        identity = first

        async def current(self) -> Identity:
            return self.identity

        def rejected(self) -> bool:
            return False

    rotating = Rotating()
    async with Client(replace(config, credentials=rotating)) as client:
        await client.get(Thing, "a", "ns")
        rotating.identity = Identity(None, pair.certificate.read_text(), Secret(pair.key.read_text()))
        await client.get(Thing, "a", "ns")
        assert len(client.connection._retired) == 1
