"""The operator asks dispatch over TLS, with the listener and the client that are shipped."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from doubles.clocks import SteppedClock
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from unit.hosts.bootstrap.clusters import running_cluster

from paddock.base import http_server
from paddock.base.authorities import Authorities
from paddock.base.certificates import AUTHORITY_LIFE, SERVING_LIFE, KeyPair, issued, new_authority
from paddock.base.clock import SystemClock
from paddock.base.http_server import Tls, bind, listening, serving_when_there
from paddock.base.secrets import Secret
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.objects import ObjectMeta
from paddock.runners.http.retirement_client import HttpRetirementApi
from paddock.runners.pools.retirement import RetirementUnavailableError
from paddock.runners.tls.keeper import CertificateKeeper
from paddock.runners.tls.trust import TrustedAuthority

CLOCK = SystemClock()
NOW = CLOCK.now()
AUTHORITY = new_authority(NOW)
GOOD = issued(AUTHORITY, ["localhost"], NOW)


class Dispatch:
    """What listens where the operator asks. It writes down every token that it was shown."""

    def __init__(self, folder: Path) -> None:
        self.tls = Tls(folder / "tls.crt", folder / "tls.key")
        self.trusted = folder / "ca.crt"
        self.shown: list[str] = []
        self.status = 200

    def holds(self, pair: KeyPair) -> None:
        for file, content in ((self.tls.certificate, pair.certificate), (self.tls.key, pair.key.reveal().encode())):
            draft = file.with_suffix(".draft")
            draft.write_bytes(content)
            draft.replace(file)

    def app(self) -> Starlette:
        async def retire(request: Request) -> Response:
            self.shown.append(request.headers["authorization"])
            return JSONResponse({"at_work": {}}, self.status)

        return Starlette(routes=[Route("/api/internal/runners/pods/at-work", retire, methods=["POST"])])

    @asynccontextmanager
    async def serving(self, *, tls: bool = True) -> AsyncIterator[str]:
        sock = bind(0, "--port")
        port = sock.getsockname()[1]
        async with listening(self.app(), sock, self.tls if tls else None):
            yield f"https://localhost:{port}"


@pytest.fixture
def dispatch(tmp_path: Path) -> Dispatch:
    found = Dispatch(tmp_path)
    found.holds(GOOD)
    found.trusted.write_bytes(GOOD.trusted)
    return found


@asynccontextmanager
async def operator(url: str, dispatch: Dispatch) -> AsyncIterator[HttpRetirementApi]:
    identity = FixedIdentity(Identity(Secret("the-operators-token")))
    api = HttpRetirementApi(url, identity, trust=TrustedAuthority(dispatch.trusted, CLOCK), seconds=10.0)
    try:
        yield api
    finally:
        await api.close()


async def test_dispatch_proves_who_it_is_before_it_is_shown_the_token(dispatch: Dispatch) -> None:
    async with dispatch.serving() as url, operator(url, dispatch) as api:
        assert await api.at_work(["uid-1"]) == {}
    assert dispatch.shown == ["Bearer the-operators-token"]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (issued(new_authority(NOW), ["localhost"], NOW), "--dispatch-ca-file"),
        (issued(AUTHORITY, ["localhost"], NOW - SERVING_LIFE - timedelta(days=1)), "has expired"),
        (issued(AUTHORITY, ["localhost"], NOW + timedelta(days=1)), "NTP"),
        (issued(AUTHORITY, ["elsewhere.svc"], NOW), "another name"),
    ],
)
async def test_an_impostor_is_shown_no_token_and_the_reason_is_said(
    dispatch: Dispatch, pair: KeyPair, said: str
) -> None:
    dispatch.holds(pair)
    async with dispatch.serving() as url, operator(url, dispatch) as api:
        with pytest.raises(RetirementUnavailableError, match=said):
            await api.at_work(["uid-1"])
    assert dispatch.shown == []


async def test_a_listener_without_tls_is_shown_no_token(dispatch: Dispatch) -> None:
    async with dispatch.serving(tls=False) as url, operator(url, dispatch) as api:
        with pytest.raises(RetirementUnavailableError, match="TLS port"):
            await api.at_work(["uid-1"])
    assert dispatch.shown == []


async def test_while_there_is_no_authority_nobody_is_asked(dispatch: Dispatch) -> None:
    dispatch.trusted.unlink()
    async with dispatch.serving() as url, operator(url, dispatch) as api:
        with pytest.raises(RetirementUnavailableError, match="the leading operator makes it"):
            await api.at_work(["uid-1"])
        dispatch.trusted.write_bytes(GOOD.trusted)
        assert await api.at_work(["uid-1"]) == {}


async def test_a_wrong_token_is_explained(dispatch: Dispatch) -> None:
    dispatch.status = 401
    async with dispatch.serving() as url, operator(url, dispatch) as api:
        with pytest.raises(RetirementUnavailableError, match="audience paddock-dispatch-operator"):
            await api.at_work(["uid-1"])


async def test_a_renewed_certificate_is_shown_without_a_restart(
    dispatch: Dispatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_LOOK_EVERY", 0.05)
    newer_authority = new_authority(NOW)
    renewed = issued(newer_authority, ["localhost"], NOW, before=GOOD.trusted)
    async with dispatch.serving() as url:
        port = int(url.rpartition(":")[2])
        assert await _serial(port) == _serial_of(GOOD)
        # Half of a new pair is no pair: the older one stays.
        dispatch.tls.certificate.write_bytes(renewed.certificate)
        await asyncio.sleep(0.2)
        assert await _serial(port) == _serial_of(GOOD)
        dispatch.holds(renewed)
        async with asyncio.timeout(30):
            while await _serial(port) != _serial_of(renewed):
                await asyncio.sleep(0.05)
        # The operator's file is older for a while. It is told why, and goes on once the kubelet replaced it.
        async with operator(url, dispatch) as api:
            with pytest.raises(RetirementUnavailableError, match="--dispatch-ca-file"):
                await api.at_work(["uid-1"])
            dispatch.trusted.write_bytes(renewed.trusted)
            assert await api.at_work(["uid-1"]) == {}


async def test_dispatch_waits_for_its_first_certificate(dispatch: Dispatch) -> None:
    dispatch.tls.key.unlink()
    sock = bind(0, "--port")
    url = f"https://localhost:{sock.getsockname()[1]}"
    serving = asyncio.create_task(serving_when_there(dispatch.app(), sock, dispatch.tls, SteppedClock()))
    try:
        async with operator(url, dispatch) as api:
            asking = asyncio.create_task(api.at_work(["uid-1"]))
            await asyncio.sleep(0.1)
            dispatch.holds(GOOD)
            assert await asking == {}
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with running_cluster() as cluster, cluster.client() as made:
        yield made


def _keeper(client: Client, clock: SteppedClock) -> CertificateKeeper:
    return CertificateKeeper(client, clock, namespace="default", name="pdk-tls", hosts=["pdk-dispatch.default.svc"])


async def _pair(client: Client, name: str = "pdk-tls") -> KeyPair:
    pair = KeyPair.of((await client.get(SecretObject, name, "default")).data)
    assert pair is not None
    return pair


async def test_the_leader_makes_the_certificate_once_and_renews_it_in_time(client: Client) -> None:
    clock = SteppedClock(NOW)
    await _keeper(client, clock).ensure()
    first, authority = await _pair(client), await _pair(client, "pdk-tls-ca")
    await _keeper(client, clock).ensure()
    assert await _pair(client) == first
    clock.step(0.7 * SERVING_LIFE.total_seconds())
    await _keeper(client, clock).ensure()
    renewed = await _pair(client)
    assert _serial_of(renewed) != _serial_of(first)
    assert await _pair(client, "pdk-tls-ca") == authority
    assert authority.key.reveal().encode() not in (await client.get(SecretObject, "pdk-tls", "default")).data.values()


async def test_a_keeper_that_ended_between_its_two_secrets_is_gone_on_with(client: Client) -> None:
    clock = SteppedClock(NOW)
    await _keeper(client, clock).ensure()
    authority = await _pair(client, "pdk-tls-ca")
    await client.delete(SecretObject, "pdk-tls", "default")
    await _keeper(client, clock).ensure()
    assert (await _pair(client)).trusted == authority.certificate


async def test_a_new_authority_leaves_the_older_one_trusted(client: Client) -> None:
    clock = SteppedClock(NOW)
    await _keeper(client, clock).ensure()
    old = await _pair(client, "pdk-tls-ca")
    await client.delete(SecretObject, "pdk-tls-ca", "default")
    await _keeper(client, clock).ensure()
    assert old.certificate in (await _pair(client)).trusted
    assert (await _pair(client, "pdk-tls-ca")).certificate in (await _pair(client)).trusted


async def test_replicas_that_begin_at_once_serve_certificates_of_one_authority(client: Client) -> None:
    """Each keeps the same two Secrets; who comes second reads what the first one wrote."""
    keepers = [_keeper(client, SteppedClock(NOW)) for _ in range(5)]
    pairs = await asyncio.gather(*(each.pair() for each in keepers))
    stored = await _pair(client)
    assert pairs == [stored] * 5
    assert stored.trusted == (await _pair(client, "pdk-tls-ca")).certificate


async def test_the_next_authority_is_handed_out_before_it_signs(client: Client) -> None:
    clock = SteppedClock(NOW)
    await _keeper(client, clock).ensure()
    first = (await _pair(client, "pdk-tls-ca")).certificate
    clock.step(0.7 * AUTHORITY_LIFE.total_seconds())
    await _keeper(client, clock).ensure()
    authorities = Authorities.of((await client.get(SecretObject, "pdk-tls-ca", "default")).data)
    assert authorities is not None
    assert authorities.following is not None
    assert (await _pair(client)).trusted == first + authorities.following.certificate
    clock.step(91 * 86400)
    await asyncio.gather(*(_keeper(client, clock).ensure() for _ in range(3)))
    secret = (await client.get(SecretObject, "pdk-tls-ca", "default")).data
    assert Authorities.of(secret) == Authorities(authorities.following, None, first)
    assert "next.key" not in secret
    assert (await _pair(client)).trusted == authorities.following.certificate + first


async def test_a_secret_of_somebody_else_is_left_alone(client: Client) -> None:
    theirs = SecretObject(
        metadata=ObjectMeta(name="pdk-tls", namespace="default"), data={"tls.crt": b"x"}, type="Opaque"
    )
    await client.create(theirs)
    await _keeper(client, SteppedClock(NOW)).ensure()
    assert (await client.get(SecretObject, "pdk-tls", "default")).data == {"tls.crt": b"x"}


def _serial_of(pair: KeyPair) -> int:
    return x509.load_pem_x509_certificate(pair.certificate).serial_number


async def _serial(port: int) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).serial_number
