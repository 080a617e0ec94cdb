"""Accounts are for good: what protects Pods and counts claims hangs on them."""

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, Bench, job


async def test_an_account_with_sessions_cannot_be_deleted_even_by_hand(bench: Bench) -> None:
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await bench.ask("DELETE FROM accounts")
    assert await bench.ledger.sessions.of_pod("uid-1") is not None
    assert (await bench.claim(1)).outcome.value == "pod_in_use"
