"""A Mac's own identity as a node: the certificate of `system:node:<machine>`, signed by the cluster.

The key pair is made here, in memory, and leaves this process once, for the Mac, inside its kubeconfig. What is kept in the
cluster is when a certificate was made, in a Secret without data, so that an agent that slept through its own renewal can
be told from one that renews. A certificate cannot be revoked; see `revocation` for how its authority ends all the same.
"""

import base64
import contextlib
import random
from datetime import datetime, timedelta
from typing import Any, Final

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.base.clock import Clock, parse_rfc3339, rfc3339
from paddock.base.secrets import Secret
from paddock.hosts.bootstrap.identity import MANAGED_BY, ApiEndpoint, NodeIdentity, renewal_due
from paddock.kube.builtin import Node, SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource

__all__ = [
    "CSR",
    "KUBELET_CLIENT",
    "LIFETIME",
    "NodeCertificates",
    "agent_sleeps",
    "approval",
    "certificate_kubeconfig",
    "machine_of_request",
    "node_key_and_request",
]

KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
LIFETIME: Final = timedelta(days=1)
CSR: Final = Resource(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    namespaced=False,
    status=True,
)
_NODE = "system:node:"
_NODES = "system:nodes"
_USAGES = ["client auth", "digital signature"]
_MACHINE = "tuist.dev/machine"
_ISSUED = "tuist.dev/certificate-issued"
_EXPIRES = "tuist.dev/certificate-expires"
_DELIVERED = "tuist.dev/certificate-delivered"
_EVERY = 0.5
_SILENT: Final = timedelta(minutes=15)


def node_key_and_request(machine: str) -> tuple[Secret, bytes]:
    """A new private key (PEM) and a request, PKCS#10 in PEM, for the certificate of this node."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, _NODES)]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, f"{_NODE}{machine}"))
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject)).sign(key, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Secret(pem.decode()), request.public_bytes(serialization.Encoding.PEM)


def certificate_kubeconfig(endpoint: ApiEndpoint, machine: str, certificate: str, key: Secret) -> Secret:
    """The kubeconfig of one node, certificate and key inline."""
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.ca:
        cluster["certificate-authority-data"] = base64.b64encode(endpoint.ca.encode()).decode()
    user, shown = f"{_NODE}{machine}", base64.b64encode(key.reveal().encode()).decode()
    identity = {
        "client-certificate-data": base64.b64encode(certificate.encode()).decode(),
        "client-key-data": shown,
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{"name": "fleet", "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": "node", "context": {"cluster": "fleet", "user": user}}],
    }
    return Secret(yaml.safe_dump(content, sort_keys=False, width=1_000_000))


def approval(reason: str, message: str, now: datetime) -> dict[str, Any]:
    """The patch of the subresource `approval` that approves a request that has no verdict yet."""
    moments = {"lastUpdateTime": rfc3339(now), "lastTransitionTime": rfc3339(now)}
    said = {"type": "Approved", "status": "True", "reason": reason, "message": message}
    return {"status": {"conditions": [said | moments]}}


def machine_of_request(request: dict[str, Any]) -> str:
    """The machine whose node asks for its own next certificate, and for nothing else; empty for every other request.

    Whoever asks was authenticated by the API server: `spec.username` is its word, not the sender's. (pure)
    """
    spec = request.get("spec") or {}
    user = str(spec.get("username") or "")
    if (
        spec.get("signerName") != KUBELET_CLIENT
        or not user.startswith(_NODE)
        or _NODES not in (spec.get("groups") or ())
    ):
        return ""
    if (request.get("status") or {}).get("conditions") or set(spec.get("usages") or ()) != set(_USAGES):
        return ""
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        names = [(each.oid, each.value) for each in asked.subject]
        fits = asked.is_signature_valid and not len(asked.extensions)
    except (ValueError, TypeError):
        return ""
    wanted = {(NameOID.ORGANIZATION_NAME, _NODES), (NameOID.COMMON_NAME, user)}
    return user.removeprefix(_NODE) if fits and len(names) == len(wanted) and set(names) == wanted else ""


def agent_sleeps(node: Node | None, now: datetime) -> bool:
    """Whether no agent speaks for the node: then its certificate is not renewed there. (pure)"""
    if node is None:
        return True
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status == "Unknown":
        return True
    return ready.last_heartbeat_time is not None and now - ready.last_heartbeat_time > _SILENT


class NodeCertificates:
    """Gets and forgets certificates of nodes; both may be repeated, and may die between any two calls."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        endpoint: ApiEndpoint,
        *,
        namespace: str,
        timeout: float = 30.0,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rng = rng
        self._endpoint = endpoint
        self._namespace = namespace
        self._timeout = timeout

    @staticmethod
    def record_name(machine: str) -> str:
        return f"paddock-node-certificate-{machine}"

    async def issue(self, machine: str) -> NodeIdentity | str:
        """A new certificate for the machine's node; or, in a sentence, that this cluster does not sign any.

        Died after the request was made: it is answered, or not, for a key that is gone with us; it cannot be used, and the
        cluster removes it within a day. Died after the certificate was made: the same. Raises KubeError.
        """
        key, request = node_key_and_request(machine)
        name = f"paddock-node-{machine}-{self._rng.getrandbits(40):010x}"
        body = {
            "metadata": {"name": name, "labels": {**MANAGED_BY, _MACHINE: machine}},
            "spec": {
                "request": base64.b64encode(request).decode(),
                "signerName": KUBELET_CLIENT,
                "expirationSeconds": int(LIFETIME.total_seconds()),
                "usages": _USAGES,
            },
        }
        await self._client.create(body, CSR)
        why = f"machine {self._namespace}/{machine} is being made a node"
        said = approval("PaddockMachine", why, self._clock.now())
        await self._client.merge_patch(CSR, name, said, subresource="approval")
        answered = await self._answered(name)
        if isinstance(answered, str):
            return answered
        certificate = x509.load_pem_x509_certificate(answered)
        issued, expires = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        notes = {_ISSUED: rfc3339(issued), _EXPIRES: rfc3339(expires), _DELIVERED: "false"}
        meta = ObjectMeta(
            name=self.record_name(machine), namespace=self._namespace, labels=MANAGED_BY, annotations=notes
        )
        await self._client.apply(SecretObject(metadata=meta, type="Opaque"), force=True)
        return NodeIdentity(
            certificate_kubeconfig(self._endpoint, machine, answered.decode(), key),
            expires,
            renewed=True,
            certified=True,
        )

    async def delivered(self, machine: str) -> None:
        """The Mac has the last one. Until this is said, it needs another: the key of that one is gone with us."""
        patch = {"metadata": {"annotations": {_DELIVERED: "true"}}}
        with contextlib.suppress(NotFoundError):
            await self._client.merge_patch(SecretObject, self.record_name(machine), patch, self._namespace)

    async def has(self, machine: str) -> bool:
        """Whether this machine's node was given a certificate before."""
        return await self._record(machine) is not None

    async def due(self, machine: str) -> bool:
        """Whether the node needs a certificate from us: the last one we made did not reach it, or is at its end and no agent speaks.

        An agent renews by itself, and its renewals are not recorded here; so a Node that is alive has its own.
        """
        record = await self._record(machine)
        if record is None:
            return False
        if record.metadata.annotations.get(_DELIVERED) == "false":
            return True
        try:
            issued = parse_rfc3339(record.metadata.annotations.get(_ISSUED, ""))
            expires = parse_rfc3339(record.metadata.annotations.get(_EXPIRES, ""))
        except ValueError:
            return True
        if not renewal_due(issued, expires, self._clock.now()):
            return False
        try:
            node = await self._client.get(Node, machine)
        except NotFoundError:
            node = None
        return agent_sleeps(node, self._clock.now())

    async def remove(self, machine: str) -> None:
        """Nothing that we keep speaks for this machine's node any more."""
        with contextlib.suppress(NotFoundError):
            await self._client.delete(SecretObject, self.record_name(machine), self._namespace)

    async def _record(self, machine: str) -> SecretObject | None:
        try:
            return await self._client.get(SecretObject, self.record_name(machine), self._namespace)
        except NotFoundError:
            return None

    async def _answered(self, name: str) -> bytes | str:
        deadline = self._clock.monotonic() + self._timeout
        while True:
            status = (await self._client.get(CSR, name)).get("status") or {}
            if status.get("certificate"):
                return base64.b64decode(status["certificate"])
            for said in status.get("conditions") or ():
                if said.get("type") in ("Failed", "Denied"):
                    return f"the cluster refused to sign {name}: {said.get('reason', '')}: {said.get('message', '')}"
            if self._clock.monotonic() >= deadline:
                return f"the cluster approved {name} and signed nothing within {self._timeout:.0f} s"
            await self._clock.sleep(_EVERY)
