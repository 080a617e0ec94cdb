"""Keeps the Secrets with dispatch's certificate and its authority: makes them, renews them, leaves those of others alone.

Two Secrets: `<name>-ca` holds the authority with its key and is read by the operator alone; `<name>` holds certificate, key and
`ca.crt`, and is mounted into dispatch; the operator mounts `ca.crt` of it.

| ends after | what is left | what heals it |
|---|---|---|
| making the authority | an authority without a certificate | the next pass makes the certificate |
| a new authority, before a new certificate | a certificate of the older one, still trusted by all | the same |
| the certificate, before it is mounted anew | dispatch serves the older one, whose authority is still in `ca.crt` | the kubelet, within two minutes |
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.runners.tls.authority import KeyPair, issued, new_authority, why_new_authority, why_new_certificate

__all__ = ["EVERY", "CertificateKeeper"]

EVERY: Final = 600.0
"""Seconds between two looks: what somebody deletes is back soon, and a certificate is renewed days before its end."""
_OURS: Final = {"app.kubernetes.io/managed-by": "paddock"}
_TYPE: Final = "kubernetes.io/tls"

log = get_logger("tls")


class CertificateKeeper:
    """Only the leader runs `ensure`; a second one at once does no harm, because each write names what it read."""

    def __init__(self, client: Client, clock: Clock, *, namespace: str, name: str, hosts: Sequence[str]) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._hosts = hosts

    async def ensure(self) -> None:
        """The certificate is there, of our authority, and not in the last third of its life. Raises KubeError."""
        authority = await self._authority()
        if authority is None:
            return
        stored = await self._get(self._name)
        if stored is not None and not _ours(stored):
            log.warning(
                "the Secret with dispatch's certificate was made by somebody else and is left alone: delete it, or set "
                "dispatch.tls.secretName",
                secret=self._name,
            )
            return
        pair = KeyPair.of(stored.data) if stored is not None else None
        now = self._clock.now()
        if why := why_new_certificate(pair, authority, self._hosts, now):
            made = issued(authority, self._hosts, now, before=pair.trusted if pair is not None else b"")
            await self._write(self._name, stored, made)
            log.info("dispatch has a new certificate", secret=self._name, why=why)

    async def _authority(self) -> KeyPair | None:
        """None: somebody else wrote at the same moment; the next pass sees what."""
        name = f"{self._name}-ca"
        stored = await self._get(name)
        if stored is not None and not _ours(stored):
            log.warning("the Secret with the authority was made by somebody else and is left alone", secret=name)
            return None
        pair = KeyPair.of(stored.data) if stored is not None else None
        now = self._clock.now()
        why = why_new_authority(pair, now)
        if not why:
            return pair
        made = new_authority(now)
        if not await self._write(name, stored, made):
            return None
        log.info("there is a new authority for dispatch's certificate", secret=name, why=why)
        return made

    async def _get(self, name: str) -> SecretObject | None:
        try:
            return await self._client.get(SecretObject, name, self._namespace)
        except NotFoundError:
            return None

    async def _write(self, name: str, stored: SecretObject | None, pair: KeyPair) -> bool:
        meta = ObjectMeta(name=name, namespace=self._namespace, labels=_OURS)
        if stored is not None:
            # The type of a Secret cannot change, and need not: only its data is new, over the version that was read.
            data = {key: b64encode(value).decode() for key, value in pair.data.items()}
            change = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "data": data}
            await self._client.merge_patch(SecretObject, name, change, self._namespace)
            return True
        try:
            await self._client.create(SecretObject(metadata=meta, data=pair.data, type=_TYPE))
        except AlreadyExistsError:
            return False
        return True


def _ours(stored: SecretObject) -> bool:
    return _OURS.items() <= stored.metadata.labels.items()
