"""Which authorities a Mac believes: those on its disk, stored before they are used, and never none."""

import ssl
from pathlib import Path

import httpx2
import pytest
from doubles.clocks import NOON

from paddock.base.authorities import in_pem
from paddock.base.certificates import new_authority
from paddock.clients.gateway.authorities import Authorities, GatewayTransport
from paddock.node.files import write_whole

PEMS = [in_pem(new_authority(NOON).certificate)[0] for _ in range(4)]
OLD, NEW, NEWER, OTHER = PEMS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "authorities.pem"


def trusted(authorities: Authorities) -> set[str]:
    context = authorities.context()
    assert context is not None
    return {ssl.DER_cert_to_PEM_cert(each) for each in context.get_ca_certs(binary_form=True)}


def test_none_that_browsers_trust_counts(path: Path):
    path.write_text(OLD)
    assert trusted(Authorities(path, write_whole)) == {OLD}


def test_without_a_file_nobody_is_believed(path: Path):
    assert Authorities(path, write_whole).context() is None
    path.write_text("junk")
    assert Authorities(path, write_whole).context() is None


def test_a_new_authority_is_on_the_disk_before_it_is_used(path: Path):
    path.write_text(OLD)
    written: list[bytes] = []
    authorities = Authorities(path, lambda where, content: written.append(content))
    assert authorities.store([OLD, NEW]) is True
    assert trusted(authorities) == {OLD}  # it was not written after all
    path.write_bytes(written[0])
    assert trusted(authorities) == {OLD, NEW}


def test_the_overlap_ends_when_the_gateway_names_the_new_one_alone(path: Path):
    path.write_text(OLD)
    authorities = Authorities(path, write_whole)
    authorities.store([OLD, NEW])
    authorities.store([NEW, OLD])
    assert authorities.store([NEW]) is True
    assert authorities.store([NEW]) is False
    assert trusted(authorities) == {NEW}
    assert trusted(Authorities(path, write_whole)) == {NEW}


def test_no_answer_shuts_a_mac_out(path: Path):
    path.write_text(OLD)
    authorities = Authorities(path, write_whole)
    for junk in ([], [""], ["junk"], [NEW, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"], PEMS * 3):
        assert authorities.store(junk) is False
    assert trusted(authorities) == {OLD}
    # What shares nothing with what is stored comes beside it.
    authorities.store([OTHER])
    assert trusted(authorities) == {OLD, OTHER}


def test_a_disk_that_is_full_leaves_those_before(path: Path):
    path.write_text(OLD)

    def full(where: Path, content: bytes) -> None:
        raise OSError("no space left on device")

    authorities = Authorities(path, full)
    with pytest.raises(OSError, match="no space"):
        authorities.store([OLD, NEW])
    assert trusted(authorities) == {OLD}


def test_while_the_file_cannot_be_used_the_last_good_one_counts(path: Path):
    path.write_text(OLD)
    authorities = Authorities(path, write_whole)
    assert trusted(authorities) == {OLD}
    for broken in (b"", b"-----BEGIN", b"\xff"):
        path.write_bytes(broken)
        assert trusted(authorities) == {OLD}
    path.unlink()
    assert trusted(authorities) == {OLD}
    # And an answer writes a whole file again.
    assert authorities.store([OLD, NEWER]) is True
    assert trusted(authorities) == {OLD, NEWER}


async def test_connections_are_made_with_what_is_stored_now(path: Path):
    path.write_text(OLD)
    used: list[ssl.SSLContext] = []

    def connect(context: ssl.SSLContext) -> httpx2.AsyncBaseTransport:
        used.append(context)
        return httpx2.MockTransport(lambda _request: httpx2.Response(200, content=b"x"))

    authorities = Authorities(path, write_whole)
    async with httpx2.AsyncClient(transport=GatewayTransport(authorities, connect)) as http:
        for _ in range(3):
            assert (await http.get("https://gateway.test")).content == b"x"
        authorities.store([OLD, NEW])
        await http.get("https://gateway.test")
        assert len(used) == 2
        path.unlink()
        await http.get("https://gateway.test")
    assert len(used) == 2


async def test_without_an_authority_nothing_is_sent(path: Path):
    transport = GatewayTransport(Authorities(path, write_whole), lambda context: pytest.fail("it connects"))
    async with httpx2.AsyncClient(transport=transport) as http:
        with pytest.raises(httpx2.ConnectError, match="no authority"):
            await http.get("https://gateway.test")
