"""The cloud name as the echo of ownership."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import POOL

from paddock.hosts import names
from paddock.hosts.names import NameKind, kind_of, problem_with_prefix


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tuist-pool-0c5d", NameKind.POOLED),
        ("tuist-claim-pending-0c5d", NameKind.CLAIM_PENDING),
        ("tuist-release-pending-0c5d", NameKind.RELEASE_PENDING),
        ("tuist-tuist-builders-fleet-rg4h9-c295c", NameKind.OTHER),
        ("apple-silicon-romantic-haibt", NameKind.OTHER),
        ("tuist-poo", NameKind.OTHER),
        ("", NameKind.OTHER),
    ],
)
def test_a_name_says_what_its_host_is(name: str, kind: NameKind):
    assert kind_of(name, POOL) is kind


def test_an_empty_prefix_makes_nothing_pooled_and_still_knows_the_markers():
    assert kind_of("tuist-pool-0c5d", "") is NameKind.OTHER
    assert kind_of("tuist-claim-pending-0c5d", "") is NameKind.CLAIM_PENDING


def test_a_marker_is_a_marker_even_if_the_pool_prefix_would_cover_it():
    assert kind_of("tuist-claim-pending-0c5d", "tuist-") is NameKind.CLAIM_PENDING
    assert kind_of("tuist-release-pending-0c5d", "tuist-") is NameKind.RELEASE_PENDING


@pytest.mark.slow
@given(name=st.text(max_size=80), prefix=st.text(max_size=40))
def test_every_name_has_exactly_one_kind(name: str, prefix: str):
    assert kind_of(name, prefix) in NameKind


@given(unique=st.uuids(), prefix=st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?-", fullmatch=True))
def test_a_name_that_we_make_is_read_back_as_what_it_was_made_for(unique: object, prefix: str):
    if problem_with_prefix(prefix) is not None:
        return
    made = names.pool_name(prefix, str(unique))
    assert kind_of(made, prefix) is NameKind.POOLED
    assert len(made) <= names.LONGEST_NAME
    assert kind_of(names.claim_pending_name(str(unique)), prefix) is NameKind.CLAIM_PENDING
    assert kind_of(names.release_pending_name(str(unique)), prefix) is NameKind.RELEASE_PENDING


def test_a_marker_with_a_uuid_fits_into_the_longest_name():
    unique = "0" * 36
    assert len(names.claim_pending_name(unique)) <= names.LONGEST_NAME
    assert len(names.release_pending_name(unique)) <= names.LONGEST_NAME


def test_a_pool_name_without_a_prefix_cannot_be_made():
    with pytest.raises(ValueError, match="--default-adopt-pool-prefix"):
        names.pool_name("", "0c5d")


@pytest.mark.parametrize("prefix", ["", "tuist-pool-", "a-", "pool2-"])
def test_a_good_prefix_has_no_problem(prefix: str):
    assert problem_with_prefix(prefix) is None


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        ("tuist-pool", "end in a dash"),
        ("Tuist-Pool-", "lower-case"),
        ("tuist pool-", "lower-case"),
        ("-", "lower-case"),
        ("t" * 40 + "-", "too long"),
        ("tuist-", "overlaps"),
        ("tuist-claim-", "overlaps"),
        ("tuist-claim-pending-", "overlaps"),
        ("tuist-release-pending-x-", "overlaps"),
    ],
)
def test_a_bad_prefix_is_refused_with_an_example_of_a_good_one(prefix: str, says: str):
    problem = problem_with_prefix(prefix)
    assert problem is not None
    assert says in problem
    assert "tuist-pool-" in problem or "63" in problem


@given(prefix=st.text(max_size=70))
def test_no_prefix_is_too_strange_to_be_judged(prefix: str):
    problem = problem_with_prefix(prefix)
    assert problem is None or problem
