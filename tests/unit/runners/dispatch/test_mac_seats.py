"""A Mac has two VMs, whatever it says, and takes one job a minute for each at most."""

import pytest

from paddock.runners.dispatch.mac_seats import crowded


@pytest.mark.parametrize(
    ("at_work", "alive", "lately", "reason"),
    [
        ("", "", 0, None),
        ("a", "ab", 1, None),
        ("ab", "a", 0, None),
        ("ab", "abc", 0, "mac_full"),
        ("abc", "abc", 9, "mac_full"),
        ("", "", 2, "mac_hasty"),
        ("a", "a", 2, "mac_hasty"),
    ],
)
def test_only_pods_that_live_hold_a_seat_and_only_so_many_jobs_come_within_a_minute(at_work, alive, lately, reason):
    answer = crowded("mac-1", set(at_work), set(alive), lately)
    assert (answer and answer.reason) == reason
    if answer is not None:
        assert "this Pod asks again" in answer.why
        assert answer.rest > 0
