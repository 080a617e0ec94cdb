"""A client certificate over a real TLS connection: the application learns of it, and junk ends the handshake."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509

from paddock.base.http_server import Tls, bind, listening
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.certificates import Certificates
from paddock.hosts.bootstrap.node_certificate import node_key_and_request

NOW = datetime.now(UTC)


async def app(scope: Any, receive: Any, send: Any) -> None:
    shown = (scope.get("state") or {}).get("client_certificate", b"")
    name = x509.load_der_x509_certificate(shown).subject.rfc4514_string().encode() if shown else b"nobody"
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(name)).encode())]}
    )
    await send({"type": "http.response.body", "body": name})


def client_context(folder: Path, made: Certificates, authority: ClientAuthority | None, at: datetime = NOW) -> Any:
    context = ssl.create_default_context(cafile=str(made.authority))
    if authority is not None:
        key, request = node_key_and_request("mac-1")
        pem = authority.sign(x509.load_pem_x509_csr(request), timedelta(hours=1), at)
        (folder / "client.pem").write_bytes(pem + key.reveal().encode())
        context.load_cert_chain(folder / "client.pem")
    return context


async def asked(port: int, context: Any) -> list[str]:
    async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
        return [(await client.get(f"https://127.0.0.1:{port}/")).text for _ in range(2)]


async def test_whoever_shows_a_certificate_is_known_on_every_request_and_others_are_nobody(tmp_path: Path) -> None:
    made = Certificates.ensure(tmp_path, NOW)
    with bind(0, "--kube-port") as sock:
        port = sock.getsockname()[1]
        async with listening(app, sock, Tls(made.certificate, made.key, made.authority)):
            own = client_context(tmp_path, made, ClientAuthority.of_folder(tmp_path))
            assert await asked(port, own) == ["CN=system:node:mac-1,O=system:nodes"] * 2
            assert await asked(port, client_context(tmp_path, made, None)) == ["nobody"] * 2


@pytest.mark.parametrize("why", ["another authority", "expired"])
async def test_a_certificate_that_is_not_ours_or_has_expired_ends_the_connection(tmp_path: Path, why: str) -> None:
    made = Certificates.ensure(tmp_path, NOW)
    ours = ClientAuthority.of_folder(tmp_path)
    context = (
        client_context(tmp_path, made, ClientAuthority.made(NOW))
        if why == "another authority"
        else client_context(tmp_path, made, ours, NOW - timedelta(hours=2))
    )
    with bind(0, "--kube-port") as sock:
        port = sock.getsockname()[1]
        async with listening(app, sock, Tls(made.certificate, made.key, made.authority)):
            with pytest.raises(httpx2.TransportError):
                await asked(port, context)
