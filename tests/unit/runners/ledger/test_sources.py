"""One job of GitHub's may stand here twice, under a number of each source: which runner may be what runs which row."""

import pytest

from paddock.runners.ledger.scale_sets import FIRST_JOB_ID, may_act_on


@pytest.mark.parametrize(
    ("minted_for", "job_id", "may"),
    [
        (10, 11, True),
        (FIRST_JOB_ID, FIRST_JOB_ID + 1, True),
        (FIRST_JOB_ID, 11, False),
        (10, FIRST_JOB_ID, False),
        (None, 11, True),
    ],
    ids=["a webhook's sibling", "a set's sibling", "a set's runner", "a webhook's runner", "a runner of old"],
)
def test_a_runner_acts_on_rows_of_its_own_source_alone(minted_for: int | None, job_id: int, may: bool) -> None:
    assert may_act_on(minted_for, job_id) is may
