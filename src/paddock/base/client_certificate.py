"""The client certificate of a connection, handed to the application in the scope: `scope["state"]["client_certificate"]`.

It is DER, and absent where the client showed none. TLS has proved that the client holds the key; what the certificate
says is for the application to read.
"""

import asyncio
import ssl
from typing import Any

__all__ = ["with_client_certificate"]


def with_client_certificate(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, either of them, that adds the certificate to what every request of the connection carries."""

    class WithClientCertificate(protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
            shown = secured.getpeercert(binary_form=True) if secured is not None else None
            if shown:
                # Each request gets a copy of this mapping; the server's own one is shared by all connections.
                self.app_state: dict[str, Any] = {**getattr(self, "app_state", {}), "client_certificate": shown}
            super().connection_made(transport)

    return WithClientCertificate
