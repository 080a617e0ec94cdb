"""The Mac's client over real TLS: whom it shows its key, and how it comes to know the next authority."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from paddock.base.authorities import in_pem
from paddock.base.certificates import KeyPair, issued, new_authority
from paddock.base.clock import SystemClock
from paddock.clients.gateway.authorities import Authorities
from paddock.clients.gateway.mac_client import Away, MacClient
from paddock.clients.gateway.messages import Answer, MacFacts, Report
from paddock.node.files import write_whole
from paddock.node.key_file import KeyFile
from paddock.node.keys import Keys

KEY = "k" * 43
CLOCK = SystemClock()
NOW = CLOCK.now()
FIRST, SECOND = new_authority(NOW), new_authority(NOW)
MAC = MacFacts(machine_id="m", boot_id="b", booted_at=NOW, cpus=8, memory_bytes=1, disk_bytes=1, seats=2, clock=NOW)
REPORT = Report(folder="f", life=1, word="w", sequence=1, agent="0.2.0", mac=MAC)


class Gateway:
    """Serves one certificate, and writes down every request that it could read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shown: list[str] = []
        self.answer = Answer(now=NOW, cluster="c")

    @asynccontextmanager
    async def serving(self, pair: KeyPair) -> AsyncIterator[str]:
        (self._folder / "crt").write_bytes(pair.certificate)
        (self._folder / "key").write_text(pair.key.reveal())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._folder / "crt", self._folder / "key")
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        try:
            yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length"))
        await reader.readexactly(int(length.partition(":")[2]))
        self.shown.append(head)
        body = msgspec.json.encode(self.answer)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


@asynccontextmanager
async def mac(url: str, folder: Path) -> AsyncIterator[MacClient]:
    keys = KeyFile(folder / "mac" / "keys.json")
    keys.offer(KEY, 1)
    path = folder / "mac" / "authorities.pem"
    if not path.exists():
        path.write_bytes(FIRST.certificate)
    client = MacClient(url, "ci/mac-1", keys, Authorities(path, write_whole), clock=CLOCK)
    try:
        yield client
    finally:
        await client.aclose()


async def test_a_mac_learns_the_next_authority_before_it_signs(gateway: Gateway, tmp_path: Path):
    gateway.answer = Answer(now=NOW, cluster="c", authorities=in_pem(FIRST.certificate + SECOND.certificate))
    async with gateway.serving(issued(FIRST, ["127.0.0.1"], NOW)) as url, mac(url, tmp_path) as client:
        assert await client.report(REPORT) == gateway.answer
    assert KeyFile(tmp_path / "mac" / "keys.json").read() == Keys(1, "", KEY)
    gateway.answer = Answer(now=NOW, cluster="c", authorities=in_pem(SECOND.certificate))
    async with gateway.serving(issued(SECOND, ["127.0.0.1"], NOW)) as url, mac(url, tmp_path) as client:
        assert await client.report(REPORT) == gateway.answer
        assert (tmp_path / "mac" / "authorities.pem").read_bytes() == SECOND.certificate
        assert await client.report(REPORT) == gateway.answer


@pytest.mark.parametrize(
    "pair",
    [
        issued(SECOND, ["127.0.0.1"], NOW),
        issued(FIRST, ["127.0.0.2", "localhost"], NOW),
        issued(FIRST, ["127.0.0.1"], NOW - timedelta(days=31)),
    ],
    ids=["of another authority", "for another address", "ended"],
)
async def test_who_is_not_the_gateway_is_shown_no_key(gateway: Gateway, tmp_path: Path, pair: KeyPair):
    async with gateway.serving(pair) as url, mac(url, tmp_path) as client:
        found = await client.report(REPORT)
    assert isinstance(found, Away)
    assert "certificate verify failed" in found.why
    assert gateway.shown == []


async def test_neither_proxy_nor_authorities_of_the_environment_count(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path / "other.pem"
    other.write_bytes(SECOND.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with gateway.serving(issued(SECOND, ["127.0.0.1"], NOW)) as url, mac(url, tmp_path) as client:
        assert isinstance(await client.report(REPORT), Away)
    async with gateway.serving(issued(FIRST, ["127.0.0.1"], NOW)) as url, mac(url, tmp_path) as client:
        assert isinstance(await client.report(REPORT), Answer)
