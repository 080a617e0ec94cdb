"""The web application: what it answers, to whom, and with which headers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from prometheus_client import Gauge
from unit.hosts.made import NOW
from unit.web.page_fixture import fixture_pages, page_data

from paddock.base.metrics import CollectorRegistry
from paddock.kube.builtin import Event, ObjectReference
from paddock.kube.objects import ObjectMeta
from paddock.simulator.transport import InProcessTransport
from paddock.web.app import create_app
from paddock.web.page_data import PageData

HTML = {"accept": "text/html"}


class Site:
    def __init__(self) -> None:
        self.problem: str | None = None
        self.registry = CollectorRegistry()
        self.pages = fixture_pages(lambda: page_data(12, now=NOW))
        self.app = create_app(self.pages, self.registry, healthy=lambda: self.problem)

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
    assert "fixture · fr-par-1" in answer.text


async def test_the_large_page_is_compressed_for_whoever_takes_it_so(browser: httpx2.AsyncClient) -> None:
    packed = await browser.get("/", headers={"accept-encoding": "gzip"})
    plain = await browser.get("/", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/metrics", "/static/paddock.css", "/static/live.js", "/nowhere", "/hosts/none"]
)
async def test_every_answer_carries_the_security_headers(browser: httpx2.AsyncClient, path: str) -> None:
    headers = (await browser.get(path)).headers
    policy = {rule.split()[0]: rule.split()[1:] for rule in headers["content-security-policy"].split("; ")}
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["img-src"] == ["'self'"]
    assert policy["frame-ancestors"] == ["'none'"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


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


async def test_a_server_in_a_cluster_answers_to_the_names_it_is_given(site: Site) -> None:
    app = create_app(site.pages, site.registry, healthy=lambda: None, names={"paddock.example"})
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="https://paddock.example") as browser:
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


async def test_the_live_stream_is_never_cached_and_starts_with_what_is_new(
    site: Site, browser: httpx2.AsyncClient
) -> None:
    async with browser.stream("GET", "/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = []
        async for line in answer.aiter_lines():
            lines.append(line)
            if len(lines) == 2:
                break
        assert lines[0].startswith("id: test-")
        assert lines[1] == "event: parts"
        site.pages.live.end()


async def test_files_are_named_by_what_is_in_them_and_then_kept_for_ever(browser: httpx2.AsyncClient) -> None:
    page = (await browser.get("/")).text
    (address,) = re.findall(r'href="(/static/paddock\.css\?v=[0-9a-f]+)"', page)
    for packing in ("gzip", "identity"):
        answer = await browser.get(address, headers={"accept-encoding": packing})
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-type"].startswith("text/css")
        assert ":root" in answer.text
    unsure = await browser.get("/static/paddock.css?v=0000")
    assert unsure.headers["cache-control"] == "no-cache"
    again = await browser.get("/static/paddock.css", headers={"if-none-match": unsure.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_the_head_of_the_page_is_sent_before_anything_is_looked_at(site: Site) -> None:
    looked = asyncio.Event()

    async def look() -> PageData:
        await looked.wait()
        return page_data(12, now=NOW)

    site.pages.watched.look = look  # type: ignore[method-assign]
    sent: list[bytes] = []
    opened = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if b"paddock.css" in b"".join(sent):
            opened.set()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", b"localhost")]}
    answering = asyncio.create_task(site.app(scope, receive, send))  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        await opened.wait()
        assert b"</html>" not in b"".join(sent)
        looked.set()
        await answering
    assert b"".join(sent).endswith(b"</html>")


async def test_the_stream_is_packed_piece_by_piece_for_whoever_takes_it_so(
    site: Site, browser: httpx2.AsyncClient
) -> None:
    async with browser.stream("GET", "/live", headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        async for text in answer.aiter_text():
            assert "event: parts" in text
            assert text.endswith("\n\n")
            break
        site.pages.live.end()


async def test_something_is_found_by_its_name_or_a_piece_of_it(browser: httpx2.AsyncClient) -> None:
    for sought, where in {
        "mac-fleet-00000": "/machines/mac-fleet-00000",
        "00000003-0000": "/hosts/00000003-0000-4000-8000-000000000000",
        "macos": "/pools/macos",
        "40000000000": "/jobs/40000000000",
        "": "/",
    }.items():
        answer = await browser.get("/find", params={"q": sought})
        assert (answer.status_code, answer.headers["location"]) == (303, where)
    several = await browser.get("/find", params={"q": "mac-fleet-0000"})
    assert several.status_code == 200
    assert 'href="/machines/mac-fleet-00001"' in several.text
    nothing = await browser.get("/find", params={"q": "<b>nothing"})
    assert nothing.status_code == 404
    assert "<b>nothing" not in nothing.text


async def test_what_is_gone_is_told_by_the_events_that_still_speak_of_it() -> None:
    gone = Event(
        metadata=ObjectMeta(name="e"),
        involved_object=ObjectReference(kind="ScalewayAppleSiliconMachine", name="mac-fleet-gone"),
        reason="Released",
        message="gave host 1234-abcd back",
        last_timestamp=NOW,
    )
    pages = fixture_pages(lambda: replace(page_data(12, now=NOW), events=[gone]))
    app = create_app(pages, CollectorRegistry(), healthy=lambda: None)
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as browser:
        for path in ("/machines/mac-fleet-gone", "/hosts/1234-abcd"):
            answer = await browser.get(path, headers=HTML)
            assert answer.status_code == 404
            assert "It is gone" in answer.text
            assert "Released" in answer.text
        assert "It is gone" not in (await browser.get("/hosts/1234", headers=HTML)).text


async def test_no_file_outside_the_static_folder_is_served(browser: httpx2.AsyncClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert (await browser.get(path)).status_code in {400, 404}


async def test_objects_have_pages_that_say_why_and_what_is_around_them(browser: httpx2.AsyncClient) -> None:
    host = (await browser.get("/hosts/00000003-0000-4000-8000-000000000000")).text
    assert "tranded" in host
    assert "paddock why host 00000003-0000-4000-8000-000000000000" in host
    machine = (await browser.get("/machines/mac-fleet-00000")).text
    assert 'href="/hosts/00000000-0000-4000-8000-000000000000"' in machine
    assert 'href="/pods/macos-runner-00000"' in machine
    assert 'href="/jobs/40000000000"' in machine
    assert (await browser.get("/pools/macos")).status_code == 200
    assert (await browser.get("/fleets/mac-fleet")).status_code == 200
    assert "assigned to" in (await browser.get("/pods/macos-runner-00000")).text


async def test_a_page_that_is_not_there_says_what_is_like_it(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get("/machines/mac-flet-00000", headers=HTML)
    assert answer.status_code == 404
    assert 'href="/machines/mac-fleet-00000"' in answer.text
    assert "paddock get hosts" in answer.text


@pytest.mark.parametrize("path", ["/jobs/none", "/jobs/99999999999999999999", "/nowhere", "/runbooks/..%2f..%2fREADME"])
async def test_what_nobody_has_heard_of_is_not_found(browser: httpx2.AsyncClient, path: str) -> None:
    assert (await browser.get(path, headers=HTML)).status_code == 404


async def test_without_a_token_every_page_is_for_reading() -> None:
    from paddock.base.clock import SystemClock
    from paddock.base.rng import seeded
    from paddock.web.session_authentication import SessionAuthentication

    pages = fixture_pages(
        lambda: page_data(12, now=NOW), sessions_auth=SessionAuthentication(None, SystemClock(), seeded(1))
    )
    app = create_app(pages, CollectorRegistry(), healthy=lambda: None)
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://localhost") as browser:
        for path in ("/sign-in", "/actions/drain/mac-fleet-00000"):
            assert (await browser.get(path)).status_code == 403
        assert (await browser.get("/faults")).status_code == 404


async def test_without_a_ledger_there_is_no_past_to_show(browser: httpx2.AsyncClient) -> None:
    assert (await browser.get("/rewind?at=2026-11-15T03:12:00Z")).status_code == 404
    assert 'id="history"' not in (await browser.get("/")).text
