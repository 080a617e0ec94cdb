"""How to log in to a machine's Mac, in the Secret `<machine>-bootstrap`. It never enters the Machine itself.

The cloud shows the password that it set at the last install. A person who changed it on the Mac says so with
`paddock prepare-host`; what is stored counts more than the cloud's, until the Secret goes with the host's release. The
Mac's SSH key is no part of it: that is pinned on the Host alone.
"""

from contextlib import suppress
from typing import Final

from paddock.base.clock import rfc3339
from paddock.base.secrets import Password
from paddock.clients.scaleway import Credentials
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.identity import MANAGED_BY
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.kube.reader import FreshReader

__all__ = ["HostLogins"]

Machine = ScalewayAppleSiliconMachine
_PASSWORD: Final = "sudo-password"  # noqa: S105 - the name of a key
_USERNAME: Final = "ssh-username"
_OF_CLAIM: Final = "claim"


class HostLogins:
    """Reads and writes the Secrets. Every write is repeatable.

    A Secret counts only for the claim that it is marked with: we may have died between letting go of a host and removing
    its Secret, and a password of another Mac would lock this one's account.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._fresh = FreshReader(client)

    async def read(self, machine: Machine) -> Credentials | None:
        """What is stored for the machine's host; a sealed or empty password in it counts as none."""
        secret = await self._fresh.get(SecretObject, _secret_name(machine), machine.metadata.namespace)
        if secret is None or secret.data.get(_OF_CLAIM, b"").decode("utf-8", "replace") != _claim_mark(machine):
            return None
        data = {key: value.decode("utf-8", "replace") for key, value in secret.data.items()}
        return Credentials(data.get(_USERNAME) or "m1", Password.usable(data.get(_PASSWORD)))

    async def write(self, machine: Machine, credentials: Credentials) -> None:
        """Write the Secret, owned by the machine so that it cannot outlive it."""
        assert credentials.password is not None
        meta = machine.metadata
        owner = OwnerReference(
            api_version=machine.RESOURCE.api_version, kind=machine.RESOURCE.kind, name=meta.name, uid=meta.uid
        )
        made = ObjectMeta(
            name=_secret_name(machine), namespace=meta.namespace, labels=dict(MANAGED_BY), owner_references=(owner,)
        )
        data = {
            _USERNAME: credentials.ssh_username.encode(),
            _PASSWORD: credentials.password.reveal().encode(),
            _OF_CLAIM: _claim_mark(machine).encode(),
        }
        await self._client.apply(SecretObject(metadata=made, data=data), force=True)

    async def forget(self, machine: Machine) -> None:
        """Remove the Secret: the next host has another password."""
        with suppress(NotFoundError):
            await self._client.delete(SecretObject, _secret_name(machine), machine.metadata.namespace)


def _secret_name(machine: Machine) -> str:
    return f"{machine.metadata.name}-bootstrap"


def _claim_mark(machine: Machine) -> str:
    """Which host, and since when: another for every claim."""
    return f"{machine.status.server_id}/{rfc3339(machine.status.bound_at) if machine.status.bound_at else ''}"
