"""What the page reads of the ledger: a read that fails is said, and keeps nothing else from the page."""

from types import SimpleNamespace
from typing import Any

import pytest
from integration.runners.ledger.rig import ACME, Bench, job
from unit.web.page_fixture import page_data

from paddock.base.explanation import Explanation
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.ledger.errors import LedgerSlowError
from paddock.runners.ledger.mac_states import MacSeen
from paddock.web.ledger_reader import LedgerReader
from paddock.web.objects import page_of


async def test_one_list_that_fails_is_named_and_the_others_are_shown(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    async def too_slow(*_: Any) -> Any:
        raise LedgerSlowError("it took too long")

    service: Any = SimpleNamespace(ledger=bench.ledger, queue=bench.ledger.overview)
    reader = LedgerReader(service, bench.clock)
    monkeypatch.setattr(bench.ledger.heals, "newest", too_slow)
    seen = await reader.fresh()
    assert seen is not None
    assert (seen.summary.running, seen.heals) == (0, [])
    assert [(one.what, one.why) for one in reader.unread] == [("the list of what was healed", "it took too long")]


async def test_without_the_line_of_jobs_nothing_is_shown_and_the_reason_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    async def too_slow(*_: Any) -> Any:
        raise LedgerSlowError("it took too long")

    monkeypatch.setattr(bench.ledger.overview, "summary", too_slow)
    service: Any = SimpleNamespace(ledger=bench.ledger, queue=bench.ledger.overview)
    reader = LedgerReader(service, bench.clock)
    assert await reader.fresh() is None
    assert [(one.what, one.why) for one in reader.unread] == [("the line of jobs", "it took too long")]


async def test_the_page_of_a_job_prints_the_cost_that_the_command_line_lists(bench: Bench):
    async def why(job_id: int) -> Explanation:
        return Explanation(about=f"job {job_id}", sentence="it ran")

    await bench.accounts(ACME)
    await bench.queue(job(1))
    mac = MacSeen(host="h-1", state="ready", machine="m-1", title="m-1", zone="z", fleet="f", price=0.11)
    await bench.ledger.mac_states.observe(bench.clock.now(), [mac])
    await bench.running("a")
    await bench.ledger.mac_states.place({"uid-a": "m-1"})
    await bench.started(job(1), "a")
    bench.clock.advance(3600)
    await bench.completed(job(1), "a")
    await bench.ledger.sessions.end("uid-a", bench.clock.now(), by="test", why="the Pod has ended")
    costs = JobCosts(bench.ledger, tuple)
    service: Any = SimpleNamespace(ledger=bench.ledger, costs=costs, explainer=SimpleNamespace(job=why))
    page = await page_of("job", "1", page_data(4, now=bench.clock.now()), LedgerReader(service, bench.clock))
    assert page is not None
    assert dict(page.facts)["cost"] == "0.055 EUR: 60 min of one of the two places of a Mac at 0.11 an hour"
    assert [one.name for one in page.related if one.kind == "machine"] == ["m-1"]
    (listed,) = await costs.recent(10)
    assert listed.euros == 0.055
