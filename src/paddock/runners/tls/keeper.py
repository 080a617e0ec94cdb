"""Keeps the Secrets with a listener's certificate and its authorities: makes them, renews them, leaves those of others alone.

Two Secrets: `<name>-ca` holds the authorities with their keys and is read by its keeper alone; `<name>` holds certificate, key and
`ca.crt`, the authorities that are in force. For the operator's route the operator keeps them; for the Macs' listener each replica of
dispatch does, all at once: each write names the version that it read, and who comes second reads again.

| ends after | what is left | what heals it |
|---|---|---|
| making the authority | an authority without a certificate | the next pass makes the certificate |
| a new authority, before a new certificate | a certificate of the older one, still trusted by all | the same |
| the certificate, before it is mounted anew | dispatch serves the older one, whose authority is still in `ca.crt` | the kubelet, within two minutes |
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from paddock.base.authorities import Authorities, plan
from paddock.base.certificates import KeyPair, issued, why_new_certificate
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["EVERY", "CertificateKeeper"]

EVERY: Final = 600.0
"""Seconds between two looks: what somebody deletes is back soon, and a certificate is renewed days before its end."""
_OURS: Final = {"app.kubernetes.io/managed-by": "paddock"}
_TYPE: Final = "kubernetes.io/tls"
_ATTEMPTS: Final = 5

log = get_logger("tls")


class CertificateKeeper:
    """`hosts` are the names or IP addresses that the certificate is for, exactly. `of` says in logs whose listener it is."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        hosts: Sequence[str],
        of: str = "dispatch",
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._hosts = hosts
        self._of = of

    async def ensure(self) -> None:
        """As `pair`, for who mounts the Secret."""
        await self.pair()

    async def pair(self) -> KeyPair | None:
        """The certificate is there, of our authority, and not in the last third of its life; what is there, to be served.

        None where somebody else made one of the Secrets, which is said. Raises KubeError where the API server is away, or others
        write without end.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await self._ensure()
            except (AlreadyExistsError, ConflictError, NotFoundError):
                continue
        raise ConflictError(f"the Secret {self._name} changed {_ATTEMPTS} times while it was kept", code=409)

    async def _ensure(self) -> KeyPair | None:
        authorities = await self._authorities()
        if authorities is None:
            return None
        stored = await self._get(self._name)
        if stored is not None and not _ours(stored):
            log.warning(
                "the Secret with the certificate was made by somebody else and is left alone: delete it, or set another name "
                "(dispatch.tls.secretName)",
                secret=self._name,
                of=self._of,
            )
            return None
        pair = KeyPair.of(stored.data) if stored is not None else None
        now = self._clock.now()
        why = why_new_certificate(pair, authorities.signing, self._hosts, now, in_force=authorities.in_force)
        if not why:
            return pair
        before = authorities.in_force + (pair.trusted if pair is not None else b"")
        made = issued(authorities.signing, self._hosts, now, before=before)
        await self._write(self._name, stored, made.data)
        log.info("there is a new certificate", secret=self._name, of=self._of, why=why)
        return made

    async def _authorities(self) -> Authorities | None:
        name = f"{self._name}-ca"
        stored = await self._get(name)
        if stored is not None and not _ours(stored):
            log.warning("the Secret with the authority was made by somebody else and is left alone", secret=name)
            return None
        planned, why = plan(Authorities.of(stored.data) if stored is not None else None, self._clock.now())
        if why:
            await self._write(name, stored, planned.data)
            log.info("there is a new authority", secret=name, of=self._of, why=why)
        return planned

    async def _get(self, name: str) -> SecretObject | None:
        try:
            return await self._client.get(SecretObject, name, self._namespace)
        except NotFoundError:
            return None

    async def _write(self, name: str, stored: SecretObject | None, data: Mapping[str, bytes]) -> None:
        if stored is None:
            meta = ObjectMeta(name=name, namespace=self._namespace, labels=_OURS)
            await self._client.create(SecretObject(metadata=meta, data=dict(data), type=_TYPE))
            return
        # The type of a Secret cannot change, and need not: only its data is new, over the version that was read.
        patch: dict[str, str | None] = dict.fromkeys(stored.data)
        patch |= {key: b64encode(value).decode() for key, value in data.items()}
        change = {"metadata": {"resourceVersion": stored.metadata.resource_version}, "data": patch}
        await self._client.merge_patch(SecretObject, name, change, self._namespace)


def _ours(stored: SecretObject) -> bool:
    return _OURS.items() <= stored.metadata.labels.items()
