"""A database that answers and takes no writes: no job is claimed, and every other number looks as if all were well."""

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, Bench, job
from psycopg import sql

from paddock.runners.http.concerns import writes_concern
from paddock.runners.ledger import LedgerUnavailableError
from paddock.runners.ledger.errors import LedgerSlowError


async def fill(bench: Bench) -> None:
    """From now on each write of jobs fails as on a full disk."""
    async with await psycopg.AsyncConnection.connect(bench.dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(bench.schema)))
        await connection.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file \"base/5/1259\": No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        await connection.execute("CREATE TRIGGER full_disk BEFORE UPDATE ON jobs EXECUTE FUNCTION full_disk()")


async def test_the_first_claim_that_is_refused_is_told_while_every_number_can_be_read(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(1))
    assert bench.ledger.refusals.standing() is None
    await fill(bench)
    with pytest.raises(LedgerUnavailableError):
        await bench.claim(1)
    assert (await bench.ledger.overview.summary()).dispatchable == 1
    (concern,) = writes_concern(bench.ledger.refusals.standing(), "the ledger's database", "no job is claimed")
    assert concern.weight == "stops"
    assert concern.found == (
        "the ledger's database takes no writes, so no job is claimed: "
        'could not extend file "base/5/1259": No space left on device'
    )


async def test_a_read_that_is_cut_off_is_slow_and_no_refusal(bench: Bench):
    with pytest.raises(LedgerSlowError):
        async with bench.ledger.overview._database.looking(1) as connection:
            await connection.execute("SELECT pg_sleep(5)")
    assert bench.ledger.refusals.standing() is None
