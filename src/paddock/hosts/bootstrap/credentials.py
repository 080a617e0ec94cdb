"""What is known of one host's login, in the Secret `<machine>-bootstrap`. It never enters the Machine itself.

The cloud shows the password that it set at the last install. A person who changed it on the host says so with
`paddock prepare-host`; that word then counts more than the cloud's, until the Secret goes with the host's release.
"""

from dataclasses import dataclass
from typing import Any, Final

from paddock.base.secrets import Password
from paddock.hosts.bootstrap.identity import MANAGED_BY
from paddock.kube.builtin import SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta

__all__ = ["HostCredentials", "HostLogins"]

PASSWORD: Final = "sudo-password"  # noqa: S105 - the name of a key
USERNAME: Final = "ssh-username"
FINGERPRINT: Final = "host-fingerprint"
SOURCE: Final = "tuist.dev/password-source"
OPERATOR: Final = "operator"


@dataclass(frozen=True, slots=True)
class HostCredentials:
    """`password` is None where the stored one is missing or the cloud's marker: such a Secret heals by a new fetch."""

    username: str = "m1"
    password: Password | None = None
    host_key: str = ""
    told_by_operator: bool = False


class HostLogins:
    """Reads and writes the Secrets. Every write is repeatable."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    @staticmethod
    def secret_name(machine: str) -> str:
        return f"{machine}-bootstrap"

    async def read(self, machine: str) -> HostCredentials | None:
        """None where there is no Secret: fetch the host's credentials from the cloud."""
        try:
            found = await self._client.get(SecretObject, self.secret_name(machine), self._namespace)
        except NotFoundError:
            return None
        data = {key: value.decode("utf-8", "replace") for key, value in found.data.items()}
        return HostCredentials(
            username=data.get(USERNAME) or "m1",
            password=Password.usable(data.get(PASSWORD)),
            host_key=data.get(FINGERPRINT, ""),
            told_by_operator=found.metadata.annotations.get(SOURCE) == OPERATOR,
        )

    async def write(self, machine: str, credentials: HostCredentials) -> None:
        """Keep them. What is None or empty is left as it is stored, so a sealed answer never erases a good password."""
        data: dict[str, bytes] = {USERNAME: credentials.username.encode()}
        if credentials.password is not None:
            data[PASSWORD] = credentials.password.reveal().encode()
        if credentials.host_key:
            data[FINGERPRINT] = credentials.host_key.encode()
        notes = {SOURCE: OPERATOR} if credentials.told_by_operator else {}
        name = self.secret_name(machine)
        meta = ObjectMeta(name=name, namespace=self._namespace, labels=dict(MANAGED_BY), annotations=notes)
        wanted = SecretObject(metadata=meta, data=data)
        patch: dict[str, Any] = {"metadata": {"labels": meta.labels, "annotations": notes}, "data": data}
        try:
            await self._client.merge_patch(SecretObject, name, patch, self._namespace)
        except NotFoundError:
            await self._client.apply(wanted, force=True)
