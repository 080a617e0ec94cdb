"""Every migration since the first release widens only, or says since when nobody uses what it takes away."""

import pytest
from integration.migrations.recording import number, recordings
from unit.migrations.rules import contracted_since, violations

from paddock import __version__
from paddock.base.migrations import Migration, read_migrations

LEDGER = read_migrations("paddock.runners.ledger")
# One process uses the embedded store, and it never runs beside an older one; the rule still spares it surprises.
STORE = read_migrations("paddock.embedded.store")
STORE_BASELINE = 1


def since_the_first_release() -> list[Migration]:
    baseline = recordings()[0].migration
    return [
        *(one for one in LEDGER if one.number > baseline),
        *(one for one in STORE if one.number > STORE_BASELINE),
    ]


def test_every_migration_since_the_first_release_widens_only_or_says_since_when_it_is_safe():
    for migration in since_the_first_release():
        since = contracted_since(migration.sql)
        if since is None:
            assert violations(migration.sql) == [], migration.file
        else:
            # What is taken away was unused in a release before the one that takes it.
            assert number(since) < number(__version__), migration.file
            assert since in {one.version for one in recordings()}, f"{migration.file}: {since} was never recorded"


def test_the_baseline_is_there():
    assert 0 < recordings()[0].migration <= len(LEDGER)
    assert len(STORE) >= STORE_BASELINE


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE jobs DROP COLUMN label;",
        "ALTER TABLE jobs DROP label;",
        "DROP TABLE heals;",
        "DROP FUNCTION end_claims(bigint[]);",
        "ALTER TABLE jobs RENAME COLUMN label TO name;",
        "ALTER TABLE jobs RENAME TO work;",
        "ALTER TABLE jobs ALTER COLUMN label TYPE bytea USING label::bytea;",
        "ALTER TABLE jobs ALTER label SET DATA TYPE bytea;",
        "ALTER TABLE jobs ALTER COLUMN conclusion SET NOT NULL;",
        "ALTER TABLE jobs ALTER COLUMN label DROP DEFAULT;",
        "ALTER TABLE jobs ADD COLUMN x int NOT NULL;",
        "ALTER TABLE jobs ADD COLUMN y int DEFAULT 1, ADD COLUMN x int NOT NULL;",
        "alter table jobs\n  add x int not null",
        "TRUNCATE progress;",
    ],
)
def test_what_takes_something_away_is_named(sql: str):
    assert violations(sql) != []


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE jobs ADD COLUMN note text;",
        "ALTER TABLE jobs ADD COLUMN note text NOT NULL DEFAULT '';",
        "CREATE TABLE notes (n int NOT NULL, DROPPED text);",
        "CREATE INDEX notes_by_age ON notes (n);",
        "-- DROP TABLE jobs;\nSELECT 1;",
        "INSERT INTO notes VALUES (1, 'DROP TABLE jobs; RENAME');",
        "ALTER TABLE jobs ALTER COLUMN label DROP NOT NULL;",
        "ALTER TABLE limits DROP CONSTRAINT limits_account_id_fkey;",
        "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DROP TABLE IF EXISTS t; END $$;",
    ],
)
def test_what_widens_is_let_pass(sql: str):
    assert violations(sql) == []


def test_a_contract_is_read_from_a_line_of_its_own():
    assert contracted_since("-- contract: since 0.1.0\nALTER TABLE jobs DROP COLUMN label;") == "0.1.0"
    assert contracted_since("-- a contract: since 0.1.0\n") is None
