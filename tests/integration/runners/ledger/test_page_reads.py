"""What the page reads of the ledger: a read that fails is said, and keeps nothing else from the page."""

from types import SimpleNamespace
from typing import Any

import pytest
from integration.runners.ledger.rig import Bench

from paddock.runners.ledger.errors import LedgerSlowError
from paddock.web.ledger_reader import LedgerReader


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
