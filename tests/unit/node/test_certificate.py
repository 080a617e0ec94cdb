"""The certificate is renewed in time, by a request of its own, and is used at once, whatever the disk says."""

import asyncio
import base64
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import msgspec
import pytest
import structlog
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.base.clock import SystemClock
from paddock.base.secrets import Secret
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import Identity
from paddock.node.certificate import CertificateRenewal, RenewalError, RotatingIdentity, renewal_due, with_identity
from paddock.node.files import DiskFiles
from paddock.node.metrics import AgentMetrics

CA_KEY = ec.generate_private_key(ec.SECP256R1())
KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://api"}}],
    "users": [{"name": "u", "user": {"client-certificate-data": "old", "client-key-data": "old"}}],
}


def issue(public_key, *, begin: datetime, life: timedelta, subject: x509.Name | None = None) -> str:
    name = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:node:mac-1")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(public_key).serial_number(7)
    signed = builder.not_valid_before(begin).not_valid_after(begin + life).sign(CA_KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


class Signer:
    """An API server whose approver signs, denies, or hands out somebody else's certificate."""

    def __init__(self, *, deny: bool = False, wrong: bool = False) -> None:
        self.requests: list[dict] = []
        self.deny, self.wrong = deny, wrong

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            self.requests.append(msgspec.json.decode(request.content))
            return httpx2.Response(201, json=self.requests[-1])
        made = self.requests[-1]
        if self.deny:
            return httpx2.Response(200, json=made | {"status": {"conditions": [{"type": "Denied", "message": "no"}]}})
        asked = x509.load_pem_x509_csr(base64.b64decode(made["spec"]["request"]))
        key = CA_KEY.public_key() if self.wrong else asked.public_key()
        text = issue(key, begin=datetime.now(UTC), life=timedelta(days=1), subject=asked.subject)
        return httpx2.Response(200, json=made | {"status": {"certificate": base64.b64encode(text.encode()).decode()}})


def renewal(signer: Signer, folder: Path, certificate: str) -> tuple[CertificateRenewal, RotatingIdentity]:
    identity = RotatingIdentity(Identity(None, certificate, Secret("key")))
    config = folder / "kubeconfig"
    config.write_text(yaml.safe_dump(KUBECONFIG))
    client = Client(Config("https://api"), httpx2.MockTransport(signer))
    made = CertificateRenewal(
        client,
        identity,
        config,
        DiskFiles(),
        node_name="mac-1",
        clock=SystemClock(),
        rng=random.Random(1),
        metrics=AgentMetrics(),
    )
    return made, identity


def test_a_certificate_is_due_when_less_than_a_third_is_left() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    end = begin + timedelta(hours=24)
    assert not renewal_due(begin, end, begin + timedelta(hours=15))
    assert renewal_due(begin, end, begin + timedelta(hours=17))
    assert renewal_due(begin, end, end + timedelta(hours=1))


async def test_a_new_certificate_reaches_the_client_and_the_disk(tmp_path: Path) -> None:
    old = issue(CA_KEY.public_key(), begin=datetime.now(UTC) - timedelta(hours=20), life=timedelta(days=1))
    signer = Signer()
    made, identity = renewal(signer, tmp_path, old)
    assert await made.due()
    await made.renew()
    spec = signer.requests[0]["spec"]
    assert spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"])).subject.rfc4514_string()
    assert asked == "CN=system:node:mac-1,O=system:nodes"
    shown = await identity.current()
    assert shown.certificate != old
    user = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]).decode() == shown.certificate
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
    assert not await made.due()


@pytest.mark.parametrize("signer", [Signer(deny=True), Signer(wrong=True)])
async def test_a_refusal_or_a_strange_certificate_leaves_everything_as_it_was(signer: Signer, tmp_path: Path) -> None:
    old = issue(CA_KEY.public_key(), begin=datetime.now(UTC) - timedelta(hours=20), life=timedelta(days=1))
    made, identity = renewal(signer, tmp_path, old)
    before = (tmp_path / "kubeconfig").read_text()
    with pytest.raises(RenewalError):
        await made.renew()
    assert (await identity.current()).certificate == old
    assert (tmp_path / "kubeconfig").read_text() == before


@pytest.mark.parametrize(("hours", "expired"), [(20, False), (30, True)])
async def test_a_certificate_that_has_expired_is_said_with_its_remedy_and_asked_for_with_growing_pauses(
    tmp_path: Path, hours: int, expired: bool
) -> None:
    old = issue(CA_KEY.public_key(), begin=datetime.now(UTC) - timedelta(hours=hours), life=timedelta(days=1))
    made, _ = renewal(Signer(deny=True), tmp_path, old)
    pauses: list[float] = []

    class Clock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 5:
                raise asyncio.CancelledError

    made._clock = Clock()
    with structlog.testing.capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await made.run()
    told = [line["why"] for line in lines if line["event"] == "the certificate is not renewed yet"]
    assert len(told) == 5
    assert all(("has expired at" in why and "brings a new one over SSH" in why) is expired for why in told)
    assert all("Denied" in why for why in told)
    assert pauses[4] > 3 * pauses[0], "no storm"


def test_a_token_in_the_kubeconfig_gives_way_to_the_certificate() -> None:
    config = yaml.safe_dump(KUBECONFIG | {"users": [{"name": "u", "user": {"token": "t"}}]})
    assert yaml.safe_load(with_identity(config, "c", Secret("k")))["users"][0]["user"].keys() == {
        "client-certificate-data",
        "client-key-data",
    }


class FullDisk(DiskFiles):
    """A disk on which the first `failures` writes fail."""

    failures = 2

    async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(28, "No space left on device", str(path))
        await super().write(path, content, mode=mode)


async def test_a_new_certificate_is_used_though_the_disk_is_full_and_only_its_write_is_repeated(tmp_path: Path) -> None:
    old = issue(CA_KEY.public_key(), begin=datetime.now(UTC) - timedelta(hours=20), life=timedelta(days=1))
    signer = Signer()
    made, identity = renewal(signer, tmp_path, old)
    made._files = FullDisk()
    shown: list[str | None] = []

    class Clock(SystemClock):
        async def sleep(self, seconds: float) -> None:
            shown.append((await identity.current()).certificate)
            if len(shown) == 4:
                raise asyncio.CancelledError

    made._clock = Clock()
    with pytest.raises(asyncio.CancelledError):
        await made.run()
    assert old not in shown
    assert len(set(shown)) == 1
    assert len(signer.requests) == 1, "one certificate is enough"
    user = yaml.safe_load((tmp_path / "kubeconfig").read_text())["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]).decode() == shown[0]
