"""The agent's client certificate, renewed before a third of its life is left.

Certificates cannot be taken back, so they live for a day. The new one is used from its arrival on, and is written until the
disk has it; whatever dies in between, the old one is complete on the disk, and a request that nobody fetched expires by itself.
"""

import asyncio
import base64
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.explanation import utc
from paddock.base.logs import get_logger
from paddock.base.rng import kube_suffix
from paddock.base.secrets import Secret
from paddock.kube.client import Client
from paddock.kube.credentials import Identity
from paddock.kube.errors import KubeError
from paddock.kube.resource import Resource
from paddock.node.files import Files
from paddock.node.metrics import AgentMetrics

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["CertificateRenewal", "RenewalError", "RotatingIdentity", "renewal_due", "with_identity"]

log = get_logger("node certificate")
SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
CSRS: Final = Resource(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
)
LIFE: Final = timedelta(hours=24)
_WAIT: Final = 600.0
_LOOK_EVERY: Final = 60.0
_BACKOFF: Final = Backoff(base=10.0, cap=600.0)


class RenewalError(Exception):
    """The cluster did not sign the request. The old certificate stays in use, and the request is made again."""


class RotatingIdentity:
    """Credentials that can be replaced while the client runs: its next connection shows the new certificate."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def current(self) -> Identity:
        return self._identity

    def rejected(self) -> bool:
        return False

    def replace(self, identity: Identity) -> None:
        self._identity = identity


def renewal_due(not_before: datetime, not_after: datetime, now: datetime) -> bool:
    """Whether less than a third of the certificate's life is left."""
    return not_after - now < (not_after - not_before) / 3


def with_identity(kubeconfig: str, certificate: str, key: Secret) -> str:
    """The kubeconfig with this certificate for the user of its current context, and all else as it was."""
    content: dict[str, Any] = yaml.safe_load(kubeconfig)
    current = content.get("current-context")
    context = next(each["context"] for each in content["contexts"] if each["name"] == current)
    user = next(each for each in content["users"] if each["name"] == context["user"])["user"]
    for old in ("client-certificate", "client-key", "token", "tokenFile"):
        user.pop(old, None)
    user["client-certificate-data"] = base64.b64encode(certificate.encode()).decode()
    user["client-key-data"] = base64.b64encode(key.reveal().encode()).decode()
    return yaml.safe_dump(content, sort_keys=False)


class CertificateRenewal:
    def __init__(
        self,
        client: Client,
        identity: RotatingIdentity,
        kubeconfig: Path,
        files: Files,
        *,
        node_name: str,
        clock: Clock,
        rng: random.Random,
        metrics: AgentMetrics,
    ) -> None:
        self._client = client
        self._identity = identity
        self._kubeconfig = kubeconfig
        self._files = files
        self._node_name = node_name
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._unsaved: tuple[str, Secret] | None = None

    async def run(self) -> None:
        """Renew for ever; an agent without a certificate (a ServiceAccount's token) has nothing to renew."""
        failures = 0
        while True:
            wait = _LOOK_EVERY
            try:
                if await self.due():
                    await self.renew()
                elif self._unsaved is not None:
                    await self._save()
                failures = 0
            except (KubeError, RenewalError, OSError) as error:
                failures += 1
                wait = _BACKOFF.delay(failures, self._rng)
                late = "the certificate is not renewed yet"
                if self._unsaved is not None:
                    late = "the certificate is in use, and not written to the kubeconfig yet"
                log.warning(late, why=await self._why(error), again_in=round(wait))
            await self._clock.sleep(wait)

    async def _why(self, error: Exception) -> str:
        certificate = await self._current()
        if certificate is None or self._clock.now() < certificate.not_valid_after_utc:
            return str(error)
        # Nobody here can mend it: whoever is refused cannot ask for the next one.
        return (
            f"it has expired at {utc(certificate.not_valid_after_utc)}, so that the API server refuses this Mac: the"
            f" operator brings a new one over SSH; see that sshd answers and that this clock is right ({error})"
        )

    async def _current(self) -> "x509.Certificate | None":
        from cryptography import x509

        text = (await self._identity.current()).certificate
        return x509.load_pem_x509_certificate(text.encode()) if text else None

    async def due(self) -> bool:
        certificate = await self._current()
        if certificate is None:
            return False
        self._metrics.certificate_expires.set(certificate.not_valid_after_utc.timestamp())
        return renewal_due(certificate.not_valid_before_utc, certificate.not_valid_after_utc, self._clock.now())

    async def renew(self) -> None:
        """A new key, a request, its certificate, the client, and the kubeconfig.

        OSError where the kubeconfig cannot be written: the certificate is in use by then, and only the write is repeated.
        """
        request, key = await asyncio.to_thread(_new_request, self._node_name)
        name = f"node-{self._node_name[:40]}-{kube_suffix(self._rng, 10)}"
        spec = {
            "request": base64.b64encode(request.encode()).decode(),
            "signerName": SIGNER,
            "expirationSeconds": int(LIFE.total_seconds()),
            "usages": ["digital signature", "client auth"],
        }
        await self._client.create({"metadata": {"name": name}, "spec": spec}, CSRS)
        certificate = await self._signed(name)
        if not _fits(certificate, key):
            raise RenewalError("the certificate that was issued does not belong to the key")
        # Before the disk, which may be full for longer than the old one lives.
        self._identity.replace(Identity(None, certificate, key))
        self._unsaved = (certificate, key)
        log.info("the certificate is renewed")
        await self._save()

    async def _save(self) -> None:
        assert self._unsaved is not None
        text = await self._files.read(self._kubeconfig, 1 << 20)
        if text is None:
            raise OSError(f"{self._kubeconfig} is gone")
        await self._files.write(self._kubeconfig, with_identity(text.decode(), *self._unsaved).encode())
        self._unsaved = None

    async def _signed(self, name: str) -> str:
        deadline = self._clock.monotonic() + _WAIT
        pause = 1.0
        while True:
            status = (await self._client.get(CSRS, name)).get("status") or {}
            if status.get("certificate"):
                return base64.b64decode(status["certificate"]).decode()
            for condition in status.get("conditions") or ():
                if condition.get("type") in ("Denied", "Failed"):
                    raise RenewalError(f"the request {name} is {condition['type']}: {condition.get('message', '')}")
            if self._clock.monotonic() >= deadline:
                raise RenewalError(f"nobody signed the request {name} within {_WAIT:.0f} s: is its approver there?")
            await self._clock.sleep(pause)
            pause = min(pause * 1.5, 20.0)


def _new_request(node_name: str) -> tuple[str, Secret]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node_name}"),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return request.public_bytes(serialization.Encoding.PEM).decode(), Secret(pem.decode())


def _fits(certificate: str, key: Secret) -> bool:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        issued = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        return False
    ours = serialization.load_pem_private_key(key.reveal().encode(), None).public_key()
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)

    return issued.public_key().public_bytes(*form) == ours.public_bytes(*form)
