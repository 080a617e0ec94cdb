"""What goes first when the disk is short, and what never goes."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.node.goldens import reclaim_order
from paddock.node.machines import Vm
from paddock.node.names import golden_name

NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)
OLD, NEW, RUNS, NAMED = (golden_name(f"images.test/{name}:1") for name in ("old", "new", "runs", "named"))
AGES = {OLD: 9, NEW: 1, RUNS: 10, NAMED: 8}


def since(name: str) -> datetime:
    return NOW - timedelta(hours=AGES.get(name, 0))


def order(*names: str, needed: tuple[str, ...] = (), running: tuple[str, ...] = ()) -> list[str]:
    local = [Vm(name) for name in names]
    return reclaim_order((*local, Vm("images.test/x:1", "OCI")), frozenset(needed), frozenset(running), since)


def test_cached_images_go_first_then_goldens_that_nobody_names_then_idle_ones_the_oldest_of_each_first() -> None:
    assert order(NEW, NAMED, OLD, RUNS, needed=(NAMED, RUNS), running=(RUNS,)) == ["images.test/x:1", OLD, NEW, NAMED]


@pytest.mark.parametrize("needed", [(RUNS,), ()])
def test_a_golden_under_a_vm_that_may_run_stays_whether_a_pod_names_it_or_not(needed: tuple[str, ...]) -> None:
    assert RUNS not in order(OLD, RUNS, NEW, needed=needed, running=(RUNS,))


def test_the_last_golden_stays() -> None:
    assert order(OLD, NEW) == ["images.test/x:1", OLD]
    assert order(OLD) == ["images.test/x:1"]


def test_what_is_no_golden_is_not_touched() -> None:
    assert "somebody-elses" not in order(OLD, NEW, "somebody-elses")
