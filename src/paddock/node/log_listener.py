"""Listens for the API server's `kubectl logs`: TLS, the authority of its callers, and a new start when that one changes.

Whatever fails here fails alone: the supervisor tries again, and no VM notices.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.base.clock import Clock
from paddock.base.http_server import Tls, bind, listening
from paddock.base.logs import get_logger
from paddock.kube.builtin import ConfigMap
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, KubeError, NotFoundError
from paddock.node.callers import ClusterCallers
from paddock.node.files import Files
from paddock.node.log_server import GuestLogs, log_app
from paddock.node.serving_certificate import self_signed

__all__ = ["AuthorityError", "LogListener"]

log = get_logger("node logs")
_CONFIG_MAP: Final = ("extension-apiserver-authentication", "kube-system")
_LOOK_EVERY: Final = 3600.0
_AGAIN: Final = 60.0
_LARGEST: Final = 1 << 20


class AuthorityError(Exception):
    """Whose client certificates to trust is not known: bind the Role extension-apiserver-authentication-reader, or give a file."""


@dataclass(frozen=True, slots=True)
class LogListener:
    """`address` is where; `client_ca`, `certificate` and `key` are files from outside, where there are any."""

    node_name: str
    address: tuple[str, int]
    folder: Path
    node_ip: str = ""
    client_ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    async def run(self, logs: GuestLogs, client: Client, files: Files, clock: Clock) -> None:
        """Serve until cancelled; what keeps it from serving is said, and tried again every minute."""
        while True:
            try:
                await self._serve(logs, client, files, clock)
            except (AuthorityError, KubeError, OSError) as error:
                log.warning("kubectl logs is not served", why=str(error), again_in=round(_AGAIN))
                await clock.sleep(_AGAIN)

    async def _serve(self, logs: GuestLogs, client: Client, files: Files, clock: Clock) -> None:
        """Serve until the authority of the callers has changed."""
        authority = await self._authority(client, files)
        await files.make_folder(self.folder)
        clients = self.folder / "clients.crt"
        await files.write(clients, authority.encode())
        certificate, key = self.certificate, self.key
        if certificate is None or key is None:
            certificate, key = await self_signed(files, self.folder, self.node_name, self.node_ip, clock.now())
        app = log_app(logs, ClusterCallers(client, self.node_name), clock)
        sock = bind(self.address[1], "--logs-bind-address", self.address[0])
        async with listening(app, sock, Tls(certificate, key, clients)):
            log.info("kubectl logs is served", port=self.address[1])
            changed = False
            while not changed:
                await clock.sleep(_LOOK_EVERY)
                try:
                    changed = await self._authority(client, files) != authority
                except (AuthorityError, KubeError, OSError):
                    continue  # a failed look says nothing
        log.info("the authority of the API server's certificate has changed: the listener starts anew")

    async def _authority(self, client: Client, files: Files) -> str:
        """The certificates to trust."""
        if self.client_ca is not None:
            text = await files.read(self.client_ca, _LARGEST)
            if not text:
                raise AuthorityError(f"{self.client_ca} (--client-ca-file) is empty, or is no file")
            return text.decode()
        name, namespace = _CONFIG_MAP
        try:
            found = (await client.get(ConfigMap, name, namespace)).data.get("client-ca-file", "")
        except (ForbiddenError, NotFoundError) as error:
            raise AuthorityError(
                f"the ConfigMap {namespace}/{name} cannot be read ({error}): bind the Role "
                "extension-apiserver-authentication-reader to system:nodes, or give --client-ca-file"
            ) from error
        if not found:
            raise AuthorityError(f"the ConfigMap {namespace}/{name} names no client-ca-file: give --client-ca-file")
        return found
