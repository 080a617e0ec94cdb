"""The key that opens all hosts of a fleet: one ed25519 pair in the Secret `<fleet>-ssh`.

The Secret is the truth. Two operators that start together may both make a pair, but only one can create the Secret; the
other reads it and forgets its own. Only then is a public key registered with the cloud, always the Secret's. The other
order once locked every host of a fleet: the loser's key was registered, and the winner's was in the Secret.
"""

import hashlib
from typing import Final

from paddock.base.names import FLEET_LABEL
from paddock.base.secrets import Secret
from paddock.clients.scaleway import Cloud
from paddock.clients.ssh import KeyPair, new_key_pair, public_key_of
from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.identity import MANAGED_BY
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["FleetKeys", "cloud_name", "secret_name"]

PRIVATE: Final = "id_ed25519"
PUBLIC: Final = "id_ed25519.pub"
KEY_ID: Final = "scaleway.tuist.dev/ssh-key-id"
MOVED: Final = "clusterctl.cluster.x-k8s.io/move"
"""clusterctl takes what has this label along: Macs that were moved know no other key, and would be taken for broken."""


def secret_name(fleet: str) -> str:
    return f"{fleet}-ssh"


def cloud_name(fleet: str, public: str) -> str:
    """The key's name in the cloud's project: another one for every pair.

    Two clusters of one project may both have a fleet of this name; each sees by the name which key is its own.
    """
    digest = hashlib.sha256(" ".join(public.split()[:2]).encode()).hexdigest()
    return f"tuist-capi-{fleet}-{digest[:8]}"


class FleetKeys:
    """Ensures a fleet's key. Call it before a host is claimed: keys reach a Mac at order and at reinstall only."""

    def __init__(self, client: Client, cloud: Cloud, *, namespace: str) -> None:
        self._client = client
        self._cloud = cloud
        self._namespace = namespace
        self._registered: dict[str, str] = {}

    async def ensure(self, fleet: str) -> KeyPair:
        """The fleet's pair, with its public key registered in the cloud's project.

        The cloud is asked once for each process and key, because a key can be removed there by hand; the Secret is read
        every time. Raises KubeError or ScalewayError; repeating it is always right.
        """
        stored = await self._stored(fleet)
        pair = _pair_of(stored, fleet)
        key_id = stored.metadata.annotations.get(KEY_ID, "")
        if self._registered.get(fleet) == pair.public and key_id:
            return pair
        registered = await self._cloud.ensure_ssh_key(cloud_name(fleet, pair.public), pair.public)
        if registered != key_id or MOVED not in stored.metadata.labels:
            await self._client.merge_patch(
                SecretObject,
                stored.metadata.name,
                {
                    "metadata": {
                        "annotations": {KEY_ID: registered},
                        "labels": {MOVED: ""},
                        "uid": stored.metadata.uid,
                    }
                },
                self._namespace,
            )
        self._registered[fleet] = pair.public
        return pair

    async def _stored(self, fleet: str) -> SecretObject:
        name = secret_name(fleet)
        try:
            return await self._client.get(SecretObject, name, self._namespace)
        except NotFoundError:
            pass
        pair = new_key_pair(f"tuist-capi-{fleet}")
        meta = ObjectMeta(name=name, namespace=self._namespace, labels={**MANAGED_BY, FLEET_LABEL: fleet, MOVED: ""})
        content = {PRIVATE: pair.private.reveal().encode(), PUBLIC: pair.public.encode()}
        try:
            return await self._client.create(SecretObject(metadata=meta, data=content, type="Opaque"))
        except AlreadyExistsError:
            # Another operator was quicker; our pair never left this process.
            return await self._client.get(SecretObject, name, self._namespace)


def _pair_of(stored: SecretObject, fleet: str) -> KeyPair:
    """The pair in the Secret. The public key is derived from the private one: a pair that does not match locks us out."""
    private = stored.data.get(PRIVATE, b"")
    if not private:
        raise PlanError(
            f"Secret {stored.metadata.name}",
            f"it holds no {PRIVATE}: put the fleet's private key there, or delete the Secret to have a new one made",
        )
    secret = Secret(private.decode())
    return KeyPair(secret, public_key_of(secret, f"tuist-capi-{fleet}"))
