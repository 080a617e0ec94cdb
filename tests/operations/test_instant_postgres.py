"""The ledger's Postgres under virtual time gives back what it took."""

import psycopg
from integration.schemas import Schemas

from paddock.simulator.instant_postgres import InstantPool, pools_closed_at_the_end
from paddock.simulator.loop import run


def test_a_world_leaves_no_connection_behind(schemas: Schemas) -> None:
    async def ask(pool: InstantPool) -> None:
        async with pool.connection() as connection:
            await connection.execute("SELECT 1")

    with psycopg.connect(schemas.dsn, autocommit=True) as judge:
        others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'left behind'"
        with pools_closed_at_the_end():
            pool = InstantPool(f"{schemas.dsn} application_name='left behind'", "public")
            run(lambda: ask(pool), seed=1)
            assert judge.execute(others).fetchone() == (1,)
        assert not InstantPool.open
        for _ in range(1000):  # the server's process needs a moment to see that its client went
            if judge.execute(others).fetchone() == (0,):
                return
        raise AssertionError("the connection is still open")
