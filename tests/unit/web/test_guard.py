"""Who is answered by what shows names of accounts: no page of another site, whatever name it rebinds to us."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from paddock.base.client_header import CLIENT_HEADER
from paddock.simulator.transport import InProcessTransport
from paddock.web.guard import LOOPBACK, guarded_routes


async def _queue(_: Request) -> PlainTextResponse:
    return PlainTextResponse("acme/secret-project")


async def _answer(host: str, **headers: str) -> httpx2.Response:
    app = Starlette(
        routes=guarded_routes([Route("/api/v1/queue", _queue, methods=["GET"])], {*LOOPBACK, "page.example"})
    )
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url=f"http://{host}") as http:
        return await http.get(
            "/api/v1/queue", headers={name.replace("_", "-"): value for name, value in headers.items()}
        )


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example"]
)
async def test_a_page_that_rebinds_its_name_reads_nothing(host: str) -> None:
    answer = await _answer(host, X_Forwarded_Host="localhost", X_Forwarded_For="127.0.0.1")
    assert answer.status_code == 421
    assert "acme" not in answer.text
    assert "--page-host" in answer.text


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1", "10.1.2.3:8081", "[fd00::7]:8081", "page.example"])
async def test_known_names_and_addresses_are_answered(host: str) -> None:
    assert (await _answer(host)).text == "acme/secret-project"


async def test_the_commands_are_answered_under_the_api_servers_name() -> None:
    assert (await _answer("cluster.example:6443", **{CLIENT_HEADER: "cli"})).text == "acme/secret-project"


def test_the_header_is_one_that_no_script_in_a_browser_may_set() -> None:
    assert CLIENT_HEADER.lower().startswith("sec-")
