"""The end of a job is written whole or not at all, and a delivery is settled only after it was."""

from typing import LiteralString

import pytest
from integration.runners.ledger.rig import ACME, Bench, job
from integration.runners.webhooks.rig import Dispatcher

REFUSE = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room on the disk'; END $$
"""
TRIGGERS: dict[str, LiteralString] = {
    "sessions": "CREATE TRIGGER refused BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION no_room()",
    "claims": "CREATE TRIGGER refused BEFORE DELETE ON claims FOR EACH ROW EXECUTE FUNCTION no_room()",
    "completions": "CREATE TRIGGER refused BEFORE INSERT ON completions FOR EACH ROW EXECUTE FUNCTION no_room()",
    "jobs": "CREATE TRIGGER refused BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION no_room()",
}
LIFTS: dict[str, LiteralString] = {
    "sessions": "DROP TRIGGER refused ON sessions",
    "claims": "DROP TRIGGER refused ON claims",
    "completions": "DROP TRIGGER refused ON completions",
    "jobs": "DROP TRIGGER refused ON jobs",
}


@pytest.mark.parametrize("table", TRIGGERS)
async def test_an_end_of_which_one_table_refuses_its_part_leaves_all_as_it_was_and_is_tried_again(
    bench: Bench, table: str
):
    dispatcher = Dispatcher(bench)
    await bench.accounts(ACME)
    await bench.queue(job(7))
    await bench.running(1)
    await bench.started(job(7), 1)
    before = (await bench.ledger.jobs.get(7), await bench.ledger.claims.all(), await bench.ledger.sessions.open())
    await bench.ask(REFUSE)
    await bench.ask(TRIGGERS[table])
    (outcome,) = await dispatcher.deliver(dispatcher.job(7, "completed", runner_name="runner-1-mint"))
    assert outcome not in ("completed", ""), "it is not settled"
    assert dispatcher.counted("completed", "completed") == 0
    after = (await bench.ledger.jobs.get(7), await bench.ledger.claims.all(), await bench.ledger.sessions.open())
    assert after == before
    assert await bench.ledger.jobs.completion(7) is None
    assert await bench.ledger.deliveries.backlog() == 1

    await bench.ask(LIFTS[table])
    bench.clock.advance(60)
    await dispatcher.worker.drain()
    assert await bench.status(7) == "completed"
    assert await bench.ledger.claims.all() == []
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.job_ended_at is not None
    assert await bench.ledger.deliveries.backlog() == 0
