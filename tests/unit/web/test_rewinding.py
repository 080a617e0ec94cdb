"""The page of a moment as it is served: what is answered, and how what cannot be shown is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import httpx2
import pytest
from unit.hosts.made import NOW
from unit.web.page_fixture import fixture_pages, page_data
from unit.web.test_past import fleet_then

from paddock.base.metrics import CollectorRegistry
from paddock.runners.ledger import LedgerUnavailableError
from paddock.simulator.transport import InProcessTransport
from paddock.web.app import create_app
from paddock.web.then import FleetThen


class PastLedger:
    """Knows one moment."""

    log_kept = timedelta(days=30)
    away = False
    known_since: datetime | None = None

    async def then(self, at: datetime) -> FleetThen:
        if self.away:
            raise LedgerUnavailableError("the database went away")
        self.asked = at
        return replace(fleet_then(), known_since=self.known_since) if self.known_since else fleet_then()


@pytest.fixture
def ledger() -> PastLedger:
    return PastLedger()


@pytest.fixture
async def browser(ledger: PastLedger) -> AsyncIterator[httpx2.AsyncClient]:
    pages = fixture_pages(lambda: page_data(12, now=NOW), past=True)
    pages.watched.ledger = ledger  # type: ignore[assignment]
    app = create_app(pages, CollectorRegistry(), healthy=lambda: None)
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://127.0.0.1:8080") as client:
        yield client


async def test_the_moment_that_is_asked_for_is_shown(browser: httpx2.AsyncClient, ledger: PastLedger) -> None:
    at = NOW - timedelta(hours=1)
    answer = await browser.get("/rewind", params={"at": at.isoformat()})
    assert answer.status_code == 200
    assert ledger.asked == at
    assert "What changed since" in answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_a_young_ledger_shows_its_first_moment_unless_another_is_asked_for(
    browser: httpx2.AsyncClient, ledger: PastLedger
) -> None:
    ledger.known_since = NOW - timedelta(minutes=2)
    assert (await browser.get("/rewind")).status_code == 200
    assert ledger.asked == ledger.known_since
    at = NOW - timedelta(minutes=30)
    await browser.get("/rewind", params={"at": at.isoformat()})
    assert ledger.asked == at


async def test_what_is_no_moment_is_refused_and_says_how_to_write_one(browser: httpx2.AsyncClient) -> None:
    answer = await browser.get("/rewind?at=<b>")
    assert answer.status_code == 400
    assert "2026-11-15T03:12:00Z" in answer.text
    assert "<b>&#39;" not in answer.text


async def test_a_ledger_that_is_away_is_said_and_no_traceback(browser: httpx2.AsyncClient, ledger: PastLedger) -> None:
    ledger.away = True
    answer = await browser.get("/rewind")
    assert answer.status_code == 503
    assert "that moment cannot be read now" in answer.text.lower()


async def test_the_front_page_leads_there_and_loads_no_chart_library_by_itself(browser: httpx2.AsyncClient) -> None:
    page = (await browser.get("/")).text
    assert 'id="history"' in page
    assert "/rewind?at=" in page
    assert 'src="/static/uplot' not in page
    for name in ("uplot.js", "uplot.css", "charts.js", "rewind.js"):
        assert (await browser.get(f"/static/{name}")).status_code == 200
