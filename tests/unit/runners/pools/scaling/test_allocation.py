"""How pools that share a fleet share it."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.runners.pools.scaling import Capacity, Demand, Desired, allocate, each_alone

GIB = 1024**3


def demand(
    pool: str,
    load: int = 0,
    floor: int = 0,
    headroom: int = 0,
    *,
    cost: int = 1,
    current: int | None = None,
    queued: int = 0,
) -> Demand:
    whole = load + floor + headroom
    want = Desired(load, load + floor, whole, f"{pool} wants {whole}")
    return Demand(pool, want, cost, whole if current is None else current, queued)


def given_to(demands: list[Demand], units: int) -> dict[str, int]:
    return {pool: grant.replicas for pool, grant in allocate(demands, Capacity(units, "VMs")).items()}


def test_everybody_gets_what_they_want_while_there_is_room() -> None:
    assert given_to([demand("a", 2, 1, 1), demand("b", 3, 2)], 9) == {"a": 4, "b": 5}


def test_load_outranks_the_idle_floor_of_another_pool_down_below_that_floor() -> None:
    small = demand("small", floor=20, headroom=5, cost=8 * GIB)
    big = demand("big", load=10, cost=16 * GIB)
    grants = allocate([small, big], Capacity(200 * GIB, "bytes"))
    assert (grants["small"].replicas, grants["big"].replicas) == (5, 10)
    assert grants["small"].why == "small wants 25; of these 25 the fleet has room for 5 beside the load of big"


def test_load_is_granted_past_the_capacity_so_that_a_missing_host_is_seen() -> None:
    assert given_to([demand("a", load=12, floor=2), demand("b", load=3)], 9) == {"a": 12, "b": 3}


def test_blocked_pools_get_exactly_one_pod_each_on_a_full_fleet_and_none_without_blocked_jobs() -> None:
    full = demand("a", load=9)
    assert given_to([full, demand("b", load=1, floor=1), demand("c", load=1, floor=1)], 9) == {"a": 9, "b": 1, "c": 1}
    assert given_to([full, demand("b", floor=1), demand("c", floor=1)], 9) == {"a": 9, "b": 0, "c": 0}


def test_a_tier_that_does_not_fit_is_split_in_proportion_and_the_next_gets_nothing() -> None:
    assert given_to([demand("a", floor=6, headroom=4), demand("b", floor=3)], 6) == {"a": 4, "b": 2}


def test_what_rounding_leaves_over_is_given_out_and_not_wasted() -> None:
    assert given_to([demand("a", floor=1), demand("b", floor=1), demand("c", floor=1)], 2) == {"a": 1, "b": 1, "c": 0}


def test_no_healthy_node_takes_nothing_from_anybody() -> None:
    pools = [demand("a", 2, 3), demand("b", 0, 1)]
    for capacity in (None, Capacity(0, "VMs")):
        grants = allocate(pools, capacity)
        assert {pool: grant.replicas for pool, grant in grants.items()} == {"a": 5, "b": 1}
        assert "no healthy Node" in grants["a"].why
        assert not any(grant.yields for grant in grants.values())


def test_pools_that_cannot_be_counted_together_get_what_they_want_and_the_sentence_says_so() -> None:
    assert each_alone([demand("a", 2, 3)], "a sibling is silent")["a"].why.endswith("a sibling is silent")


def test_warm_pods_yield_at_once_only_to_jobs_that_wait_for_their_room() -> None:
    idle = demand("idle", floor=4, current=4)
    waiting = demand("waiting", load=6, current=6, queued=2)
    running = demand("running", load=6, current=6)
    assert allocate([idle, waiting], Capacity(8, "VMs"))["idle"].yields
    assert not allocate([idle, running], Capacity(8, "VMs"))["idle"].yields
    assert not allocate([idle, waiting], Capacity(12, "VMs"))["idle"].yields


def test_a_pool_never_yields_to_its_own_queue() -> None:
    assert not allocate([demand("a", load=9, floor=2, queued=4)], Capacity(5, "VMs"))["a"].yields


few = st.integers(0, 12)
pools = st.lists(st.tuples(few, few, few, st.integers(1, 5), few), min_size=1, max_size=6)


@given(pools, st.integers(1, 80))
def test_no_pool_gets_less_than_its_load_or_more_than_it_wants_and_the_rest_fits(
    drawn: list[tuple[int, int, int, int, int]], units: int
) -> None:
    demands = [
        demand(f"p{number}", load, floor, headroom, cost=cost, current=current)
        for number, (load, floor, headroom, cost, current) in enumerate(drawn)
    ]
    grants = allocate(demands, Capacity(units, "bytes"))
    for each in demands:
        assert each.desired.load <= grants[each.pool].replicas <= each.desired.replicas
    loaded = sum(each.desired.load * each.cost for each in demands)
    taken = sum(grants[each.pool].replicas * each.cost for each in demands)
    assert taken <= max(loaded, units)
