"""What a DSN says about the way to the database."""

import pytest

from paddock.runners.ledger.encryption import transport_problem

REMOTE = "postgresql://paddock:hunter2@db.example.com:5432/paddock"


@pytest.mark.parametrize(
    "dsn",
    [
        f"{REMOTE}?sslmode=verify-full&sslrootcert=system",
        "postgresql:///paddock?host=/run/postgres",
        "dbname=paddock",
        "postgresql://paddock:hunter2@127.0.0.1/paddock",
        "postgresql://paddock@[::1]/paddock?sslmode=disable",
        "host=localhost dbname=paddock",
    ],
)
def test_a_proven_server_and_one_on_this_machine_are_well(dsn: str) -> None:
    assert transport_problem(dsn) == ""


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        (REMOTE, "no sslmode"),
        (f"{REMOTE}?sslmode=disable", "in the clear"),
        (f"{REMOTE}?sslmode=prefer", "sslmode=prefer"),
        (f"{REMOTE}?sslmode=require", "believes whoever answers"),
        (f"{REMOTE}?sslmode=verify-ca", "whatever its name"),
        ("host=127.0.0.1,db.example.com", "no sslmode"),
    ],
)
def test_every_other_way_is_named_with_its_remedy_and_without_the_password(dsn: str, said: str) -> None:
    problem = transport_problem(dsn)
    assert said in problem
    assert "sslmode=verify-full" in problem
    assert "hunter2" not in problem


def test_the_environment_counts_where_the_dsn_is_silent() -> None:
    assert transport_problem(REMOTE, {"PGSSLMODE": "verify-full"}) == ""
    assert transport_problem("dbname=paddock", {"PGHOST": "db.example.com"}) != ""


def test_what_is_no_dsn_is_left_to_whoever_connects() -> None:
    assert transport_problem("nonsense ://") == ""
