"""Which pool a job goes to."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec, RunnerPoolStatus
from paddock.runners.webhooks.routing import Chosen, Ignored, choose, offered


def pool(name: str, label: str, *more: str, deleting: bool = False, had: int | None = None) -> RunnerPool:
    """`had` is the day of June since when its status shows the label."""
    since = datetime(2026, 6, had, tzinfo=UTC) if had is not None else None
    return RunnerPool(
        metadata=ObjectMeta(name=name, deletion_timestamp=datetime(2026, 6, 1, tzinfo=UTC) if deleting else None),
        spec=RunnerPoolSpec(
            image="ghcr.io/acme/macos:15",
            job_source="Webhook",
            fleet_selector="m4",
            dispatch_label=label,
            runner_labels=more or ("macOS",),
        ),
        status=RunnerPoolStatus(dispatch_label=label if since else "", dispatch_label_since=since),
    )


MAC = pool("mac", "paddock-macos", "self-hosted", "macOS", "ARM64")
LINUX = pool("linux", "paddock-linux", "self-hosted", "Linux", "X64")


def chosen(pools: list[RunnerPool], *labels: str) -> str:
    choice = choose(pools, labels)
    return choice.pool.metadata.name if isinstance(choice, Chosen) else choice.reason


def test_a_job_goes_to_the_pool_whose_dispatch_label_it_carries():
    assert chosen([MAC, LINUX], "paddock-linux") == "linux"
    assert chosen([MAC, LINUX], "self-hosted", "macos", "paddock-macos") == "mac"


def test_labels_do_not_differ_by_case_and_the_jobs_own_spelling_is_kept():
    choice = choose([MAC, LINUX], ["SELF-HOSTED", "Paddock-MacOS"])
    assert isinstance(choice, Chosen)
    assert (choice.pool, choice.label) == (MAC, "Paddock-MacOS")


def test_each_reason_for_no_pool_is_told_apart():
    assert chosen([], "paddock-macos") == "no_pools"
    assert chosen([MAC], "ubuntu-latest") == "no_matching_pool"
    assert chosen([MAC], "self-hosted", "macOS") == "no_matching_pool"
    assert chosen([MAC], "paddock-macos", "gpu") == "labels_not_offered"


def test_the_sentence_names_what_to_change():
    both = choose([pool("a", "fast", "slow"), pool("other", "slow", "fast")], ["fast", "slow"])
    assert isinstance(both, Ignored)
    assert "a, other" in both.sentence
    lacking = choose([MAC], ["paddock-macos", "gpu"])
    assert isinstance(lacking, Ignored)
    assert "gpu" in lacking.sentence


def test_of_two_pools_with_one_dispatch_label_the_one_that_had_it_longest_gets_the_job():
    able = pool("able", "fast", "gpu")
    unable = pool("unable", "Fast", "cpu")
    assert chosen([unable, able], "fast", "gpu") == "able"  # neither says since when: by name
    assert chosen([pool("able", "fast", "gpu", had=2), pool("unable", "fast", had=1)], "fast", "gpu") == (
        "labels_not_offered"
    )
    assert chosen([MAC, pool("twin", "Paddock-macOS", had=1)], "paddock-macos") == "mac"


def test_a_job_with_two_dispatch_labels_goes_to_the_one_pool_that_offers_both():
    both = pool("both", "fast", "paddock-macos")
    assert chosen([both, MAC], "fast", "paddock-macos") == "both"
    other = pool("other", "slow", "fast")
    assert chosen([pool("a", "fast", "slow"), other], "fast", "slow") == "ambiguous_pool"


def test_a_pool_that_is_being_deleted_leaves_its_label_to_its_successor():
    assert chosen([pool("old", "paddock-macos", deleting=True), MAC], "paddock-macos") == "mac"
    assert chosen([pool("old", "paddock-macos", deleting=True)], "paddock-macos") == "no_pools"


@pytest.mark.parametrize(
    ("labels", "possible"),
    [((), False), (("self-hosted", "MACOS"), True), (("self-hosted", "gpu"), False), (("paddock-linux",), True)],
)
def test_github_may_give_a_runner_of_ours_any_job_whose_labels_it_offers(labels: tuple[str, ...], possible: bool):
    assert offered([MAC, LINUX], labels) is possible


_words = st.sampled_from(["a", "B", "c", "D", "self-hosted", "A"])


@given(
    st.lists(st.tuples(_words, st.lists(_words, min_size=1, max_size=3)), max_size=4),
    st.lists(_words, max_size=4),
    st.randoms(use_true_random=False),
)
def test_a_chosen_pool_fits_and_no_order_of_pools_or_labels_changes_the_choice(specs, labels, rng):
    pools = [pool(f"pool-{n}", label, *more) for n, (label, more) in enumerate(specs)]
    choice = choose(pools, labels)
    if isinstance(choice, Chosen):
        offer = {label.lower() for label in (choice.pool.spec.dispatch_label, *choice.pool.spec.runner_labels)}
        assert {label.lower() for label in labels} <= offer
        assert choice.label.lower() == choice.pool.spec.dispatch_label.lower()
        assert offered(pools, labels)
    shuffled, mixed = list(pools), list(labels)
    rng.shuffle(shuffled)
    rng.shuffle(mixed)
    again = choose(shuffled, mixed)
    assert type(again) is type(choice)
    if isinstance(choice, Chosen) and isinstance(again, Chosen):
        assert again.pool is choice.pool
    if isinstance(choice, Ignored) and isinstance(again, Ignored):
        assert again.reason == choice.reason


def test_a_pool_that_takes_the_label_of_another_does_not_get_its_jobs_however_old_it_is():
    """Its status still shows the label that it had before."""
    thief = msgspec.structs.replace(
        pool("a", "old-label", had=1), spec=msgspec.structs.replace(MAC.spec, dispatch_label="paddock-macos")
    )
    assert chosen([thief, pool("mac", "paddock-macos", had=9)], "paddock-macos") == "mac"
