"""The web application: what it answers, to whom, and with which headers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from prometheus_client import Gauge

from paddock.base.clock import SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.simulator.transport import InProcessTransport
from paddock.web.app import create_app
from paddock.web.live import Live
from paddock.web.view import FleetView


class Site:
    def __init__(self) -> None:
        self.problem: str | None = None
        self.registry = CollectorRegistry()
        self.live = Live(lambda: {"strip": "<p>1</p>"}, SystemClock())
        self.app = create_app(
            FleetView, self.live, self.registry, healthy=lambda: self.problem, hint="simulated cloud · fr-par-1"
        )

    def browser(self, host: str = "127.0.0.1:8080") -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=InProcessTransport(self.app), base_url=f"http://{host}")


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[httpx2.AsyncClient]:
    async with site.browser() as client:
        yield client


async def test_the_page_says_where_it_looks(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")
    assert "simulated cloud · fr-par-1" in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/static/paddock.css", "/static/live.js", "/nowhere"])
async def test_every_answer_carries_the_security_headers(browser: httpx2.AsyncClient, path: str) -> None:
    headers = (await browser.get(path)).headers
    policy = {rule.split()[0]: rule.split()[1:] for rule in headers["content-security-policy"].split("; ")}
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == ["'self'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example:8080", "10.0.0.1:8080", "localhost.evil.example"]
)
async def test_a_name_that_is_not_ours_is_refused_so_that_no_site_can_rebind_to_us(site: Site, name: str) -> None:
    async with site.browser(name) as stranger:
        for path in ("/", "/live", "/metrics"):
            answer = await stranger.get(path)
            assert answer.status_code == 421
            assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("name", ["localhost", "localhost:8080", "127.0.0.1", "[::1]", "[::1]:8080"])
async def test_every_name_of_this_machine_is_answered(site: Site, name: str) -> None:
    async with site.browser(name) as browser:
        assert (await browser.get("/healthz")).status_code == 200


async def test_health_says_what_is_wrong(site: Site, browser: httpx2.AsyncClient) -> None:
    assert (await browser.get("/healthz")).text == "ok"
    site.problem = "informer machines has no complete list yet"
    answer = await browser.get("/healthz")
    assert (answer.status_code, answer.text) == (503, site.problem)


async def test_metrics_are_those_of_the_registry(site: Site, browser: httpx2.AsyncClient) -> None:
    Gauge("paddock_sheep", "How many.", registry=site.registry).set(3)
    answer = await browser.get("/metrics")
    assert "paddock_sheep 3.0" in answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")


async def test_the_live_stream_is_never_cached_and_starts_with_everything(
    site: Site, browser: httpx2.AsyncClient
) -> None:
    async with browser.stream("GET", "/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        async for line in answer.aiter_lines():
            assert line == "event: parts"
            break
        site.live.end()


async def test_no_file_outside_the_static_folder_is_served(browser: httpx2.AsyncClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert (await browser.get(path)).status_code in {400, 404}
