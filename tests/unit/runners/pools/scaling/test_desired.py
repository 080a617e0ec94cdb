"""What one pool wants by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.runners.api import Autoscaling
from paddock.runners.ledger import PoolSignals
from paddock.runners.pools.scaling import desired, pinned, warm_deficit


def signals(claimed: int = 0, occupied: int = 0, queued: int = 0, withheld: int = 0, p95: int = 0) -> PoolSignals:
    return PoolSignals("pool", claimed, occupied, queued, withheld, 0.0, p95)


def rules(floor: int = 1, limit: int = 100) -> Autoscaling:
    return Autoscaling(enabled=True, min_warm_pool_floor=floor, max_replicas=limit)


@pytest.mark.parametrize(
    ("seen", "floor", "limit", "want"),
    [
        (signals(p95=5), 1, 100, 6),
        (signals(claimed=8, queued=3, p95=5), 1, 100, 12),
        (signals(claimed=1, occupied=3, queued=2), 1, 100, 6),
        (signals(withheld=40), 0, 100, 1),
        (signals(claimed=30, queued=30), 1, 20, 20),
        (signals(), 0, 100, 0),
        (signals(claimed=5, queued=5), 3, 0, 0),
    ],
    ids=[
        "as in the last hour",
        "claims and queue beat the last hour",
        "Pods that tear down still take their place",
        "blocked jobs alone",
        "maxReplicas wins",
        "nothing",
        "maxReplicas 0 keeps none",
    ],
)
def test_a_pool_wants_its_load_or_the_last_hour_and_its_floor_on_top(
    seen: PoolSignals, floor: int, limit: int, want: int
) -> None:
    assert desired(seen, rules(floor, limit)).replicas == want


def test_jobs_over_their_limit_count_as_one_pod_however_many_they_are() -> None:
    assert [desired(signals(withheld=many), rules(floor=0)).load for many in (0, 1, 2, 500)] == [0, 1, 1, 1]


def test_the_floor_is_counted_once_and_on_top_of_the_load() -> None:
    want = desired(signals(claimed=4), rules(floor=2))
    assert (want.load, want.warm, want.replicas) == (4, 6, 6)


def test_the_sentence_names_what_was_counted_and_the_limit_that_cut_it() -> None:
    want = desired(signals(claimed=2, queued=3, withheld=7, p95=9), rules(floor=1, limit=8))
    assert want.why == (
        "2 busy + 3 queued + 1 for 7 that their accounts' limits hold back + 3 more as in the last hour "
        "+ 1 to stay warm is 10, and maxReplicas is 8"
    )


counts = st.integers(0, 50)


@given(st.builds(signals, counts, counts, counts, counts, counts), counts, counts)
def test_load_fits_into_warm_fits_into_replicas_fits_into_the_limit(seen: PoolSignals, floor: int, limit: int) -> None:
    want = desired(seen, rules(floor, limit))
    assert 0 <= want.load <= want.warm <= want.replicas <= limit
    assert want.why


def test_a_pool_of_a_fixed_size_gets_that_size_as_load() -> None:
    fixed = pinned(4, "its size is fixed")
    assert (fixed.load, fixed.warm, fixed.replicas) == (4, 4, 4)


def test_the_warm_deficit_is_what_the_floor_asks_for_and_the_fleet_does_not_give() -> None:
    want = desired(signals(claimed=2), rules(floor=3))
    assert [warm_deficit(want, granted) for granted in (0, 2, 3, 5, 9)] == [3, 3, 2, 0, 0]
